"""The event loop goes on while a store does something long."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.faults.children import Child, forks, hold_the_pen
from tests.faults.turns import make_turn
from tests.support.loop_time import TICK, watch_loop

from recollect import Agent, Memory, Message, Scope, Store, ToolCall, open_store
from recollect.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

MESSAGES = 6_000
LONGEST_SHARE = 0.25  # of the processor time of all, without a turn for others
SCOPE = Scope(1, "ann", "long")


async def test_loop_goes_on_when_a_large_user_is_exported_imported_and_cleared(sqlite_url: str) -> None:
    """Thousands of messages are moved while other tasks are served."""
    async with open_store(sqlite_url) as store:
        await _fill(store)
        async with _beside_the_loop():
            lines = [line async for line in store.export(scope=SCOPE)]
        assert len(lines) > MESSAGES
        async with _beside_the_loop():
            await store.import_(lines, scope=Scope(2, "bob"))
        async with _beside_the_loop():
            assert len(await store.user_history(scope=Scope(2, "bob"))) == MESSAGES
        async with _beside_the_loop():
            assert await store.clear_history(scope=SCOPE) == MESSAGES
        async with _beside_the_loop():
            assert (await store.erase(scope=Scope(2, "bob"))).counts["messages"] == MESSAGES


async def test_loop_goes_on_when_a_long_message_is_written_and_read(sqlite_url: str) -> None:
    """A message of 24 MB is stored, and read as history, by number and by its run."""
    message = Message("user", "+49 170 5550134, " * 1_400_000, id="run:0000")
    async with open_store(sqlite_url) as store:
        async with _beside_the_loop():
            (place,) = await store.append_turn([message], scope=SCOPE, run_id="run")
        async with _beside_the_loop():
            assert await store.last_messages(10, scope=SCOPE) == [message]
        async with _beside_the_loop():
            assert (await store.read_for_run(10, scope=SCOPE))[0] == [message]
        async with _beside_the_loop():
            assert await store.messages_by_number([place.number], scope=SCOPE) == [message]
        async with _beside_the_loop():
            assert await store.turn_of_run("run", scope=SCOPE) == [message]


async def test_loop_goes_on_when_a_message_of_many_words_is_indexed_and_recalled(tmp_path: Path) -> None:
    """The terms of a long message are many too, and the passage to show is looked for in all of it."""
    text = " ".join(f"word{number}" for number in range(400_000))
    async with Memory(tmp_path / "long.db", semantic_recall=True, embedder=None) as memory:
        await memory.prepare()
        async with _beside_the_loop():
            await memory.save_messages([Message("user", text)], user_id="ann", thread_id="long")
            await memory.settled()
        async with _beside_the_loop():
            (hit,) = await memory.query("word7 word8", user_id="ann", thread_id="long")
        assert hit.segment is not None


async def test_loop_goes_on_when_a_tool_returns_a_long_text(sqlite_url: str) -> None:
    """The result is checked, encoded and stored in threads."""

    def fetch() -> list[str]:
        """Return much."""
        return ["caf\u00e9 " * 1_000_000, "+49 170 5550134, " * 500_000]

    model = ScriptedModel([[ToolCall("1", "fetch", {})], "It is long."])
    async with Memory(sqlite_url, last_messages=0) as memory:
        agent = Agent(model, memory=memory, tools=[fetch])
        await agent.prepare()
        async with _beside_the_loop():
            assert (await agent.generate("Fetch it.", resource_id="ann")).saved


async def test_loop_goes_on_when_another_process_holds_the_file(tmp_path: Path) -> None:
    """Writers wait for the other process beside the event loop, and succeed once it is done."""
    rng = random.Random(1)
    path = tmp_path / "store.db"
    async with open_store(f"sqlite:///{path}") as store:
        await make_turn(rng, "before").write(store)
        over = forks.Event()
        with Child(hold_the_pen, str(path), over) as child:
            assert child.hear() == b"holding"
            writes = asyncio.gather(*(make_turn(rng, f"{number}").write(store) for number in range(5)))
            for _ in range(100):
                await asyncio.sleep(TICK)
            assert not writes.done()
            over.set()
            assert len(await writes) == 5
            child.finish()


async def _fill(store: Store) -> None:
    said = "We talked about trains, tea and the weather in the north. " * 3
    for start in range(0, MESSAGES, 500):
        turn = [Message("user", f"{number}: {said}") for number in range(start, start + 500)]
        await store.append_turn(turn, scope=SCOPE)


@asynccontextmanager
async def _beside_the_loop() -> AsyncGenerator[None]:
    """Make sure that a block leaves the event loop free: most of its work is done in other threads."""
    async with watch_loop() as found:
        yield
    assert found.longest < LONGEST_SHARE * found.spent, f"{found.longest} of {found.spent} seconds in one go"
