"""The event loop goes on while a store does something long."""

import asyncio
import random
import statistics
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.faults.children import Child, hold_the_pen
from tests.faults.turns import make_turn

from recollect import Message, Scope, Store, open_store

pytestmark = [pytest.mark.anyio, pytest.mark.faults, pytest.mark.timeout(120)]

MESSAGES = 20_000
TICK = 0.002  # seconds between two looks at the clock
TYPICAL_LAG = 0.02
LONGEST_LAG = 0.5
SCOPE = Scope(1, "ann", "long")


async def test_loop_goes_on_when_a_large_user_is_exported_imported_and_cleared(sqlite_url: str) -> None:
    """Twenty thousand messages are moved while other tasks are served."""
    async with open_store(sqlite_url) as store:
        await _fill(store)
        with _lag_of("export") as lags:
            lines = [line async for line in store.export(scope=SCOPE)]
        assert len(lines) > MESSAGES
        _check(lags)
        with _lag_of("import") as lags:
            await store.import_(lines, scope=Scope(2, "bob"))
        _check(lags)
        with _lag_of("history") as lags:
            assert len(await store.user_history(scope=Scope(2, "bob"))) == MESSAGES
        _check(lags)
        with _lag_of("clear") as lags:
            assert await store.clear_history(scope=SCOPE) == MESSAGES
        _check(lags)
        with _lag_of("erase") as lags:
            assert (await store.erase(scope=Scope(2, "bob"))).counts["messages"] == MESSAGES
        _check(lags)


async def test_loop_goes_on_when_another_process_holds_the_file(tmp_path: Path) -> None:
    """Writers wait for the other process beside the event loop, and succeed once it is done."""
    rng = random.Random(1)
    path = tmp_path / "store.db"
    async with open_store(f"sqlite:///{path}") as store:
        await make_turn(rng, "before").write(store)
        with Child(hold_the_pen, str(path), 0.7) as child:
            assert child.hear() == b"holding"
            started = time.monotonic()
            with _lag_of("waiting") as lags:
                await asyncio.gather(*(make_turn(rng, f"{number}").write(store) for number in range(5)))
                assert time.monotonic() - started > 0.4, "nobody had to wait"
            child.finish()
        _check(lags)


async def _fill(store: Store) -> None:
    said = "We talked about trains, tea and the weather in the north. " * 3
    for start in range(0, MESSAGES, 500):
        turn = [Message("user", f"{number}: {said}") for number in range(start, start + 500)]
        await store.append_turn(turn, scope=SCOPE)


@contextmanager
def _lag_of(what: str) -> Generator[list[float]]:
    """Measure by how much the event loop is late, for the length of a block.

    A loop that this process keeps waiting is late by the processor time that the process has taken meanwhile.
    More than that is the machine's doing, which other tests keep busy.
    """
    lags: list[float] = []

    async def watch() -> None:
        while True:
            started, worked = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK)
            lags.append(min(time.perf_counter() - started - TICK, time.process_time() - worked))

    task = asyncio.get_running_loop().create_task(watch(), name=what)
    try:
        yield lags
    finally:
        task.cancel()


def _check(lags: list[float]) -> None:
    assert lags, "the event loop never ran"
    assert statistics.median(lags) < TYPICAL_LAG
    assert max(lags) < LONGEST_LAG
