"""One user with very many messages: short calls cost no more than with few, and nobody waits."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import psutil
import pytest

from recollect import Message, Scope, Store, open_store

pytestmark = [pytest.mark.anyio, pytest.mark.faults, pytest.mark.timeout(1800)]

BIG, SMALL, OTHER = (Scope(1, name, "t") for name in ("big", "small", "other"))
START = datetime(2020, 1, 1, tzinfo=UTC)
FEW = 500
BATCH = 1000
MOST_SECONDS = 0.02  # processor time of a short call that counts as nothing, whatever others take
MOST_TIMES = 8  # how much more a call may cost with many messages than with few
LONGEST_WRITE = 2.0  # seconds that another user's write may take beside long work
MEGABYTE = 1 << 20
EXPORT_BYTES = 100 * MEGABYTE


class Beside(NamedTuple):
    """What others noticed of some work: the longest write, and how much memory it took."""

    longest_write: float
    memory: int


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> str:
    """A database on disk or on a server, on each engine in turn."""
    return request.getfixturevalue({"file": "sqlite_url", "postgres": "postgres_url"}[request.param])


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
async def test_work_stays_small_when_a_user_has_very_many_messages(url: str, count: int) -> None:
    """Short calls cost what they cost with few messages; long ones keep nobody from writing."""
    async with open_store(url, busy_seconds=60) as store:
        await _fill(store, SMALL, FEW)
        await _fill(store, BIG, count)
        for call in (_append, _read_end, _delete):
            usual = await _processor_seconds(call, store, SMALL)
            many = await _processor_seconds(call, store, BIG)
            assert many <= max(MOST_SECONDS, MOST_TIMES * usual), (
                f"{call.__name__}: {many:.3f} s, {usual:.3f}"
            )
        stored = await store.count_user_history(scope=BIG)
        half = START + timedelta(seconds=count // 2)
        dry = await _watch(store, lambda: store.prune(half, dry_run=True, scope=BIG))
        exported = await _watch(store, lambda: _count_lines(store))
        pruned = await _watch(store, lambda: store.prune(half, scope=BIG))
        assert max(dry.longest_write, exported.longest_write, pruned.longest_write) < LONGEST_WRITE
        assert exported.memory < EXPORT_BYTES
        left = await store.count_user_history(scope=BIG)
        assert left == stored - count // 2 + _DELETED_OLD
        thread = await store.get_thread(scope=BIG)
        assert thread is not None
        assert thread.message_count == left
        assert (await store.erase(scope=BIG)).counts["messages"] == left


_DELETED_OLD = 20  # of the old messages, those that were deleted one by one before
_TRIES = 20


async def _fill(store: Store, scope: Scope, count: int) -> None:
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        turn = [
            Message("user", f"message {n} of tea", id=f"m{n}", created_at=START + timedelta(seconds=n))
            for n in numbers
        ]
        await store.append_turn(turn, scope=scope)


async def _append(store: Store, scope: Scope, number: int) -> None:
    await store.append_turn([Message("user", f"one more {number}")], scope=scope)


async def _read_end(store: Store, scope: Scope, _: int) -> None:
    await store.last_messages(10, scope=scope)


async def _delete(store: Store, scope: Scope, number: int) -> None:
    assert await store.delete_messages([f"m{number}"], scope=scope) == 1


async def _processor_seconds(
    call: Callable[[Store, Scope, int], Awaitable[None]], store: Store, scope: Scope
) -> float:
    """Return the processor time of a call, the least of some: a busy machine disturbs most of them."""
    found: list[float] = []
    for number in range(_TRIES):
        started = time.process_time()
        await call(store, scope, number)
        found.append(time.process_time() - started)
    return min(found)


async def _count_lines(store: Store) -> int:
    count = 0
    async for _ in store.export(scope=BIG):
        count += 1
    return count


async def _watch(store: Store, work: Callable[[], Coroutine[Any, Any, object]]) -> Beside:
    """Do some work while another user writes, and tell what was noticed."""
    process = psutil.Process()
    before = most = process.memory_info().rss
    longest = 0.0
    working = asyncio.create_task(work())
    while not working.done():
        started = time.monotonic()
        await store.append_turn([Message("user", "hello")], scope=OTHER)
        longest = max(longest, time.monotonic() - started)
        most = max(most, process.memory_info().rss)
        await asyncio.sleep(0.01)
    await working
    return Beside(longest, most - before)
