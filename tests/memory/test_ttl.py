"""Messages that expire: no read returns them, whichever way they were stored; all else stays."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.agents import CALL, Mode, answer, both_modes, lookup, model_of
from tests.support.embedders import Words

from recollect import Agent, InvalidArgumentError, Memory, Message, Store, open_store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> ScriptedClock:
    """The time of the store."""
    return ScriptedClock(datetime(2030, 5, 6, 9, tzinfo=UTC))


@pytest.fixture
async def store(store_url: str, clock: ScriptedClock) -> AsyncGenerator[Store]:
    """An empty store on each engine in turn, with that clock."""
    async with open_store(store_url, clock=clock) as opened:
        yield opened


def memory_of(store: Store, ttl: timedelta | None = HOUR, **options: Any) -> Memory:  # noqa: ANN401 - those of Memory
    """Return ada's memory, whose messages live for an hour."""
    return Memory(store, user_id="ada", ttl=ttl, **options)


async def said(memory: Memory, **ids: Any) -> list[str]:  # noqa: ANN401 - those of a call
    """Return the texts of a thread."""
    return [message.text for message in await memory.get_messages(**ids)]


@both_modes
async def test_turn_of_an_agent_expires(store: Store, clock: ScriptedClock, mode: Mode) -> None:
    """The model is shown the turn within the hour, and not after it; tool calls and results go along."""
    async with memory_of(store) as memory:
        model = model_of(CALL, "It means pong.", "again", "and again", mode=mode)
        agent = Agent(model, memory=memory, tools=[lookup])
        assert (await answer(agent, mode, "What is ping?")).saved
        stored = await memory.get_messages()
        assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant"]
        assert {message.expires_at for message in stored} == {clock.time + HOUR}
        clock.tick(3599)
        result = await answer(agent, mode, "Within the hour?")
        assert [m.text for m in result.prompt if m.origin == "memory"][-1] == "It means pong."
        clock.tick(1)
        assert await said(memory) == ["Within the hour?", "again"]
        clock.tick(3600)
        result = await answer(agent, mode, "After it?")
        assert [message.text for message in result.prompt] == ["After it?"]
        assert await said(memory) == ["After it?", "and again"]


@pytest.mark.parametrize("many", [True, False], ids=["save_messages", "add_message"])
async def test_saved_messages_expire(store: Store, clock: ScriptedClock, many: bool) -> None:  # noqa: FBT001 - a case
    """The memory's time to live counts, unless the call names a time."""
    sooner = clock.time + HOUR / 2
    async with memory_of(store) as memory:
        if many:
            await memory.save_messages([Message("user", "short")], expires_at=sooner)
            (stored,) = await memory.save_messages([Message("user", "long")])
        else:
            await memory.add_message("user", "short", expires_at=sooner)
            stored = await memory.add_message("user", "long")
        assert stored.expires_at == clock.time + HOUR
        assert await said(memory) == ["short", "long"]
        clock.tick(1800)
        assert await said(memory) == ["long"]
        clock.tick(1800)
        assert await said(memory) == []


async def test_message_of_a_memory_without_ttl_stays(store: Store, clock: ScriptedClock) -> None:
    """Nothing expires by itself, and a call can still name a time."""
    async with memory_of(store, ttl=None) as memory:
        assert (await memory.add_message("user", "kept")).expires_at is None
        await memory.add_message("user", "short", expires_at=clock.time + HOUR)
        clock.tick(10 * 365 * 86_400)
        assert await said(memory) == ["kept"]


async def test_expired_message_is_neither_recalled_nor_shown_from_another_thread(
    store: Store, clock: ScriptedClock
) -> None:
    """History, recall and other threads have it within the hour, and none of them after it."""
    async with memory_of(store, semantic_recall=True, embedder=Words(), other_threads=5) as memory:
        await memory.add_message("user", "The cello is in the attic.", thread_id="other")
        await memory.add_message("user", "I take the train.", thread_id="here")
        await memory.settled()
        agent = Agent(model_of("ok", "ok"), memory=memory)
        prompt = (await agent.generate("Where is the cello?", thread_id="here")).prompt
        blocks = [message.text for message in prompt if message.origin == "memory"]
        assert len(blocks) == 3
        assert sum("The cello is in the attic." in block for block in blocks) == 2
        assert "I take the train." in blocks
        assert len(await memory.query("cello")) > 0
        clock.tick(3600)
        assert len(await memory.query("cello attic train")) == 0
        prompt = (await agent.generate("Where is the cello?", thread_id="here")).prompt
        assert [message.text for message in prompt] == ["Where is the cello?"]


async def test_working_memory_does_not_expire(store: Store, clock: ScriptedClock) -> None:
    """What was learned of the user outlives the messages."""
    async with memory_of(store, working_memory="# User\n- Name: {{name}}") as memory:
        await memory.add_message("user", "I am Ada.")
        await memory.update_working_memory({"name": "Ada"})
        clock.tick(3600)
        assert await said(memory) == []
        assert (await memory.get_working_memory())["name"] == "Ada"
        assert len(await memory.working_memory_history()) == 1


async def test_id_of_an_expired_message_is_free_again(store: Store, clock: ScriptedClock) -> None:
    """A message with the id of one that has expired is stored as a new one."""
    async with memory_of(store) as memory:
        await memory.add_message("user", "first", id="same")
        clock.tick(3600)
        assert (await memory.add_message("user", "second", id="same")).text == "second"
        assert await said(memory) == ["second"]


async def test_message_that_has_expired_at_once_is_returned_as_it_was_given(store_url: str) -> None:
    """A clock that goes on between the write and the read leaves nothing to read."""
    clock = ScriptedClock()
    async with (
        open_store(store_url, clock=clock.tick) as store,
        memory_of(store, ttl=timedelta(seconds=2)) as memory,
    ):
        assert (await memory.add_message("user", "gone", id="m1")).id == "m1"
        assert await said(memory) == []


@pytest.mark.parametrize(
    "ttl", [timedelta(0), timedelta(seconds=-1), timedelta.max, 60, 60.0, "1h", True, HOUR.total_seconds()]
)
def test_wrong_ttl_is_rejected(ttl: object) -> None:
    """It must be a positive timedelta, and not one that leaves the calendar."""
    with pytest.raises(InvalidArgumentError, match="timedelta") as caught:
        Memory(ttl=ttl)  # pyright: ignore[reportArgumentType] - wrong on purpose
    assert caught.value.argument == "ttl"


PASSED = datetime(2030, 1, 1, tzinfo=UTC)
WITHOUT_ZONE = datetime(2031, 1, 1)  # noqa: DTZ001 - wrong on purpose


@pytest.mark.parametrize("expires_at", [0, "", "2031-01-01", WITHOUT_ZONE, PASSED])
async def test_wrong_expiry_is_rejected_and_nothing_is_stored(store: Store, expires_at: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """A time that is none, has no zone or has passed is never taken for the memory's own."""
    async with memory_of(store) as memory:
        for call in (
            memory.add_message("user", "x", expires_at=expires_at),
            memory.save_messages([Message("user", "x")], expires_at=expires_at),
        ):
            with pytest.raises(InvalidArgumentError) as caught:
                await call
            assert caught.value.argument == "expires_at"
        assert await said(memory) == []
