"""A user is exported while others write: the export is one moment of the database, and nobody waits."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest
from tests.faults.children import Child
from tests.support.profiles import IS_LONG

from recollect import Message, Scope, Store, open_store
from recollect.storage import export

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

USER = Scope(1, "ann", "one")
EARLIER = 1500
EXPORTS = 20 if IS_LONG else 2
LONGEST_WAIT = 2.0  # seconds of a write beside an export; an export that locked would take all its time


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> str:
    """A database that other processes can open too, on each engine in turn."""
    return request.getfixturevalue({"file": "sqlite_url", "postgres": "postgres_url"}[request.param])


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an export read many times, so that writes come in between."""
    monkeypatch.setattr(export, "_CHUNK", 50)


async def write_round(store: Store, number: int) -> None:
    """Write something of each kind that carries the number of the round, one after the other."""
    for thread in ("one", "two"):
        turn = [Message("user", f"round {number}"), Message("assistant", f"round {number}")]
        await store.append_turn(turn, scope=USER.with_thread(thread))
    await store.set_memory("round", {"number": number}, scope=USER)
    await store.update_working_memory({"round": number}, scope=USER.with_thread(None))
    await store.add_event("round", {"number": number}, scope=USER)


def write_rounds(line: Connection, url: str) -> None:
    """Write rounds without end in another process, and report how long each took."""

    async def write() -> None:
        async with open_store(url) as store:
            for number in range(1, 1_000_000):
                started = time.monotonic()
                await write_round(store, number)
                line.send_bytes(json.dumps(time.monotonic() - started).encode())

    asyncio.run(write())


async def test_export_is_one_moment_when_another_process_writes(url: str) -> None:
    """Each export has whole rounds up to one number, and importing it gives the same export again."""
    async with open_store(url) as store:
        await _fill(store)
        with Child(write_rounds, url) as child:
            child.hear()
            waits: list[float] = []
            for copy in range(EXPORTS):
                lines, during = await _export_beside(store, lambda: child.listen(0))
                _check_moment(lines)
                waits += [float(report) for report in during]
                await _check_copy(store, lines, copy)
        assert waits, "nobody wrote while the user was exported"
        assert min(waits) < LONGEST_WAIT


async def test_export_is_one_moment_when_the_same_store_writes(url: str) -> None:
    """The same with a task of the same event loop, which writes on."""
    done: list[int] = []

    async def write(store: Store) -> None:
        for number in range(1, 1_000_000):
            await write_round(store, number)
            done.append(number)
            await asyncio.sleep(0.001)

    async with open_store(url) as store:
        await _fill(store)
        writing = asyncio.create_task(write(store))
        for copy in range(EXPORTS):
            before = len(done)
            lines = [line async for line in store.export(scope=USER)]
            assert len(done) > before, "the writer waited for the export"
            _check_moment(lines)
            await _check_copy(store, lines, copy)
        writing.cancel()
        await asyncio.wait([writing])


async def _fill(store: Store) -> None:
    for start in range(0, EARLIER, 500):
        earlier = [Message("user", f"earlier {number}") for number in range(start, start + 500)]
        await store.append_turn(earlier, scope=USER.with_thread("earlier"))


async def _export_beside(store: Store, listen: Callable[[], list[bytes]]) -> tuple[list[str], list[bytes]]:
    listen()
    lines = [line async for line in store.export(scope=USER)]
    return lines, listen()


def _check_moment(lines: list[str]) -> None:
    """The kinds were written in turn, so at one moment their numbers differ by one at most, in that order."""
    records = [json.loads(line) for line in lines]
    assert records[-1] == {"kind": "end", "lines": len(lines) - 2}
    spoken = Counter(record.get("thread_id") for record in records if record["kind"] == "message")
    assert spoken["earlier"] == EARLIER
    assert spoken["one"] % 2 == spoken["two"] % 2 == 0, "half a turn"
    memory = [record["value"]["number"] for record in records if record["kind"] == "memory"]
    fields = [record["value"]["round"] for record in records if record["kind"] == "working_memory"]
    events = sum(record["kind"] == "event" for record in records)
    numbers = [
        spoken["one"] // 2,
        spoken["two"] // 2,
        max(memory, default=0),
        max(fields, default=0),
        events,
    ]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] - numbers[-1] <= 1


async def _check_copy(store: Store, lines: list[str], number: int) -> None:
    copy = Scope(1, f"copy {number}")
    await store.import_(lines, scope=copy)
    assert [line async for line in store.export(scope=copy)][1:] == lines[1:]
    await store.erase(scope=copy)
