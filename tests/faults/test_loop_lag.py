"""The event loop goes on while a store does something long."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.faults.children import Child, forks, hold_the_pen
from tests.faults.turns import make_turn
from tests.support.garbage import no_collection

from recollect import Message, Scope, Store, open_store

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

MESSAGES = 6_000
LONGEST_SHARE = 0.25  # of the processor time of all, without a turn for others
TICK = 0.002  # seconds between two turns of the event loop
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
    """Make sure that a block leaves the event loop free: most of its work is done in other threads.

    Processor time is compared with processor time, because the machine may be busy with something else. The
    garbage of earlier tests is not collected meanwhile.
    """
    turns: list[float] = []

    async def watch() -> None:
        while True:
            started = time.thread_time()
            await asyncio.sleep(TICK)
            turns.append(time.thread_time() - started)

    with no_collection():
        task = asyncio.create_task(watch())
        await asyncio.sleep(TICK)  # it watches from the first moment on
        started = time.process_time()
        yield
        spent = time.process_time() - started
        await asyncio.sleep(2 * TICK)  # and what was the last
        task.cancel()
    assert max(turns) < LONGEST_SHARE * spent, f"{max(turns)} of {spent} seconds in one go"
