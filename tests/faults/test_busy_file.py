"""A SQLite file that another writer does not let go of: all who wait for it wait once, together."""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recollect import Scope, Store, open_store
from recollect.errors import StorageBusyError
from recollect.storage.sqlite.connection import connect

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

SCOPE = Scope(None, "ada", "t")
PATIENCE = 1.0
WRITES = 40  # more than fit into one transaction
IN_TIME = WRITES * PATIENCE / 2  # half of what they take if each waits for itself


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have those give up early that come while others wait already."""
    monkeypatch.setattr("recollect.storage.sqlite.writer._MIN_WAIT_SECONDS", 0.05)


@contextmanager
def held(path: Path) -> Generator[None]:
    """Write to a file from elsewhere, and take long over it."""
    other = connect(str(path))
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
    finally:
        other.close()


async def outcomes_of(store: Store, writes: int) -> list[object]:
    """Write events at once and return what became of each."""
    return await asyncio.gather(*(write(store) for _ in range(writes)), return_exceptions=True)


async def write(store: Store) -> None:
    """Write one event."""
    await store.add_event("happened", {}, run_id="r", scope=SCOPE)


def seconds_since(started: float) -> float:
    """Return how long it took."""
    return time.monotonic() - started


async def test_writes_that_come_together_wait_once_for_a_busy_file(tmp_path: Path) -> None:
    """Not one after the other, whether they share a transaction or wait for the next one; none is written."""
    async with open_store(f"sqlite:///{tmp_path}/store.db", busy_seconds=PATIENCE) as store:
        await write(store)
        with held(tmp_path / "store.db"):
            started = time.monotonic()
            outcomes = await outcomes_of(store, WRITES)
            assert PATIENCE <= seconds_since(started) < IN_TIME
        assert {type(outcome) for outcome in outcomes} == {StorageBusyError}
        assert len({id(outcome) for outcome in outcomes}) == WRITES
        assert len(await store.list_events(scope=SCOPE)) == 1


async def test_a_file_that_was_given_up_is_not_waited_for_again_by_each_write(tmp_path: Path) -> None:
    """The writes of one run come one after the other; only the first waits for long."""
    async with open_store(f"sqlite:///{tmp_path}/store.db", busy_seconds=PATIENCE) as store:
        with held(tmp_path / "store.db"):
            started = time.monotonic()
            for _ in range(WRITES):
                with pytest.raises(StorageBusyError):
                    await write(store)
            assert PATIENCE <= seconds_since(started) < IN_TIME


async def test_a_file_that_was_free_in_between_is_waited_for_again(tmp_path: Path) -> None:
    """Having given up once does not make a writer impatient forever."""
    path = tmp_path / "store.db"
    async with open_store(f"sqlite:///{path}", busy_seconds=PATIENCE) as store:
        with held(path), pytest.raises(StorageBusyError):
            await write(store)
        await write(store)
        with held(path):
            started = time.monotonic()
            with pytest.raises(StorageBusyError):
                await write(store)
            assert seconds_since(started) >= PATIENCE
        await write(store)
        assert len(await store.list_events(scope=SCOPE)) == 2


async def test_all_writes_are_made_when_the_file_is_free_in_time(tmp_path: Path) -> None:
    """Those that waited together, and those that came while they did."""
    async with open_store(f"sqlite:///{tmp_path}/store.db", busy_seconds=60) as store:
        with held(tmp_path / "store.db"):
            first = asyncio.create_task(write(store))
            await asyncio.sleep(0.1)
            others = asyncio.create_task(outcomes_of(store, WRITES))
            await asyncio.sleep(0.1)
            assert not first.done()
        await first
        assert await others == [None] * WRITES
        assert len(await store.list_events(scope=SCOPE, limit=100)) == WRITES + 1
