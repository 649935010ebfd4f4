"""One agent for many users at once: nobody sees another's words."""

import asyncio
import re
from collections.abc import Sequence

import pytest
from tests.support.agents import answer
from tests.support.guards import EmailGuard, SsnGuard

from recollect import Agent, Memory, Message, Processor, RunContext, Store, TextDelta, open_store
from recollect.pipeline.processor import StreamPart
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio

USERS, RUNS = 50, 200


class Counter(Processor):
    """Counts the text of a run in its state, and gives way in between."""

    id = "counter"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Count."""
        await asyncio.sleep(0)
        if isinstance(part, TextDelta):
            ctx.state["size"] = ctx.state.get("size", 0) + len(part.text)
        return [part]

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Compare with the turn."""
        assert ctx.state["size"] == len(messages[-1].text)
        return messages


def echo(messages: Sequence[Message]) -> str:
    """Say everything that the model was shown."""
    return "I saw: " + " | ".join(message.text for message in messages)


async def test_nobody_sees_anothers_words_when_many_runs_share_an_agent(store: Store) -> None:
    """200 concurrent runs over 50 users: every prompt, answer and row speaks of its own user only."""
    model = ScriptedModel([echo], chunk_size=7)
    agent = Agent(
        model, memory=Memory(store, last_messages=4), output_processors=[SsnGuard(), Counter(), EmailGuard()]
    )

    async def run(number: int) -> None:
        user = f"user{number % USERS:02d}"
        mode = "stream" if number % 2 else "generate"
        result = await answer(
            agent, mode, f"secret-{user}-{number}", tenant_id=None, resource_id=user, thread_id="t"
        )
        assert result.saved
        assert _names(result.text) == {user}
        assert _names(str(agent.get_last_messages())) == {user}

    await asyncio.gather(*(run(number) for number in range(RUNS)))
    assert len(model.shown) == RUNS
    for number in range(USERS):
        user = f"user{number:02d}"
        stored = await Memory(store).get_messages(tenant_id=None, resource_id=user, thread_id="t")
        assert len(stored) == 2 * RUNS // USERS
        assert [message.role for message in stored] == ["user", "assistant"] * (RUNS // USERS)
        assert _names(" ".join(message.text for message in stored)) == {user}


async def test_each_turn_is_contiguous_when_runs_share_a_thread(store: Store) -> None:
    """Concurrent runs on one thread take no lock: turns are whole, in the order of their commits."""
    agent = Agent(ScriptedModel([lambda messages: f"re {messages[-1].text}"]), memory=Memory(store))
    ids = {"tenant_id": None, "resource_id": "ada", "thread_id": "t"}
    await asyncio.gather(*(answer(agent, "stream", f"p{number}", **ids) for number in range(20)))
    stored = await Memory(store).get_messages(tenant_id=None, resource_id="ada", thread_id="t")
    pairs = [(stored[place].text, stored[place + 1].text) for place in range(0, 40, 2)]
    assert sorted(pairs) == sorted((f"p{number}", f"re p{number}") for number in range(20))


async def test_memories_without_ids_share_nothing() -> None:
    """Two memories without a user on one store in memory have users of their own."""
    store = await open_store("sqlite://")
    first, second = Memory(store), Memory(store)
    await Agent(ScriptedModel("a"), memory=first).generate("mine")
    assert await second.get_messages() == []
    assert len(await first.get_messages()) == 2
    await store.close()


def _names(text: str) -> set[str]:
    return set(re.findall(r"user\d\d", text))
