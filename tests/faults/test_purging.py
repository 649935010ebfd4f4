"""An erasure says how far the traces are gone from the files, and it is true: the bytes are looked at."""

import asyncio
import json
import resource
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.faults.children import Child
from tests.support.waiting import GENEROUS, until

from recollect import Message, Scope, Store, open_store
from recollect.storage.sqlite.connection import Database, connect

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

SECRET = "zanzibar"
VICTIM = Scope(1, "m", "chat")
OTHER = Scope(1, "z", "chat")
MEGABYTE = 1 << 20
LONGEST_WAIT = 0.1
ATTEMPTS = 3


async def test_log_and_file_are_purged_when_a_user_of_8_mb_is_erased(tmp_path: Path) -> None:
    """Both steps are done, and no file holds the words, while the store is still open."""
    async with _filled(tmp_path) as store:
        report = await store.erase(scope=VICTIM)
        assert (report.log, report.file) == ("done", "done")
        assert not _places_of_secret(tmp_path)
        assert not await _find_mark(tmp_path)
        again = await store.erase(scope=VICTIM)
        assert (again.total, again.log, again.file) == (0, "done", "done")


async def test_log_and_file_are_purged_when_other_processes_read_and_write(tmp_path: Path) -> None:
    """Their snapshots and locks are waited for; they lose nothing."""
    path = tmp_path / "store.db"
    async with _filled(tmp_path) as store:
        with Child(_read_on, str(path)) as reader, Child(_write_on, str(path)) as writer:
            reader.hear()
            writer.hear()
            report = await store.erase(scope=VICTIM)
            assert (report.log, report.file) == ("done", "done")
            assert not _places_of_secret(tmp_path)
            written = int(writer.kill()[-1])
        stored = await store.last_messages(None, scope=Scope(1, "writer", "chat"))
        assert len(stored) >= written
        assert not _places_of_secret(tmp_path)


async def test_purging_is_pending_and_done_at_the_next_start_when_a_snapshot_is_held(tmp_path: Path) -> None:
    """Nothing is called done while another reader still needs the log; opening the store finishes it."""
    async with _filled(tmp_path, busy_seconds=0.3) as store:
        with _snapshot(tmp_path):
            report = await store.erase(scope=VICTIM)
            assert report.total
            assert (report.log, report.file) == ("pending", "pending")
            assert _places_of_secret(tmp_path)
            assert (await store.erase(scope=VICTIM)).log == "pending"
            assert await _find_mark(tmp_path)
    async with open_store(tmp_path / "store.db") as store:
        async with asyncio.timeout(GENEROUS):
            while await _find_mark(tmp_path):  # noqa: ASYNC110 - a file has no events
                await asyncio.sleep(0.01)
        assert not _places_of_secret(tmp_path)
        assert len(await store.last_messages(None, scope=OTHER))


async def test_file_is_pending_until_purged_when_it_is_too_large(tmp_path: Path) -> None:
    """The log is truncated at once; `purge` vacuums a file of any size."""
    async with _filled(tmp_path, max_vacuum_bytes=4 * MEGABYTE) as store:
        report = await store.erase(scope=VICTIM)
        assert (report.log, report.file) == ("done", "pending")
        assert "store.db-wal" not in _places_of_secret(tmp_path)
        assert await store.purge() == ("done", "done")
        assert not _places_of_secret(tmp_path)
        assert not await _find_mark(tmp_path)


async def test_file_has_failed_when_there_is_no_room_for_a_vacuum(tmp_path: Path) -> None:
    """The erasure stands, the report says what failed, and with room it succeeds."""
    async with _filled(tmp_path, max_vacuum_bytes=0) as store:
        await store.erase(scope=VICTIM)
        with _files_limited_to(MEGABYTE):
            assert await store.purge() == ("done", "failed")
            assert not await store.last_messages(1, scope=VICTIM)
        assert await _find_mark(tmp_path)
        assert await store.purge() == ("done", "done")
        assert not _places_of_secret(tmp_path)


async def test_other_users_hardly_wait_when_the_log_is_truncated(tmp_path: Path) -> None:
    """After 8 MB were erased, a write beside the truncation of the log takes less than 100 ms."""
    longest = [await _measure_longest_write(tmp_path / f"{number}") for number in range(ATTEMPTS)]
    assert min(longest) < LONGEST_WAIT, longest


async def test_purging_does_not_apply_when_the_store_is_in_memory() -> None:
    """There is no file that could hold traces."""
    await _check_not_applicable("sqlite://")


@pytest.mark.postgres
async def test_purging_does_not_apply_when_the_store_is_on_postgres(postgres_url: str) -> None:
    """The server vacuums its own files."""
    await _check_not_applicable(postgres_url)


async def _check_not_applicable(url: str) -> None:
    async with open_store(url) as store:
        await store.append_turn([Message("user", SECRET)], scope=VICTIM)
        report = await store.erase(scope=VICTIM)
        assert (report.total, report.log, report.file) == (2, "not_applicable", "not_applicable")
        assert await store.purge() == ("not_applicable", "not_applicable")


async def _measure_longest_write(folder: Path) -> float:
    """Return how long the slowest write took from the commit of an erasure to the end of its purging."""
    folder.mkdir()  # noqa: ASYNC240
    longest = 0.0
    async with _filled(folder, max_vacuum_bytes=0) as store:
        erasing = asyncio.create_task(store.erase(scope=VICTIM))
        watching = connect(str(folder / "store.db"))
        await until(lambda: bool(_read_mark(watching)) or erasing.done())
        while not erasing.done():
            started = time.perf_counter()
            await store.append_turn([Message("user", "hello")], scope=OTHER)
            longest = max(longest, time.perf_counter() - started)
            await asyncio.sleep(0)
        watching.close()
        assert (await erasing).log == "done"
    return longest


@asynccontextmanager
async def _filled(
    folder: Path, *, busy_seconds: float = 30, max_vacuum_bytes: int = 256 * MEGABYTE
) -> AsyncGenerator[Store]:
    """Open a store in which two users have 8 MB each."""
    path = folder / "store.db"
    async with open_store(path, busy_seconds=busy_seconds, max_vacuum_bytes=max_vacuum_bytes) as store:
        for number in range(80):
            for scope, word in ((VICTIM, SECRET), (OTHER, "ordinary")):
                turn = [Message("user", f"{word} {number}-{part} " * 140) for part in range(50)]
                await store.append_turn(turn, scope=scope)
        assert _places_of_secret(folder)
        yield store


async def _find_mark(folder: Path) -> list[object]:
    connection = connect(str(folder / "store.db"))
    try:
        return _read_mark(connection)
    finally:
        connection.close()


def _read_mark(connection: Database) -> list[object]:
    return [*connection.execute("SELECT value FROM counters WHERE name = 'unpurged'").fetchall()]


@contextmanager
def _snapshot(folder: Path) -> Generator[None]:
    """Read in a transaction, and leave it open."""
    connection = connect(str(folder / "store.db"))
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM users").fetchall()
    try:
        yield
    finally:
        connection.execute("COMMIT")
        connection.close()


@contextmanager
def _files_limited_to(size: int) -> Generator[None]:
    """Have writes beyond a size fail; Python ignores the signal that comes with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _read_on(line: Connection, path: str) -> None:
    """Read all messages of the store again and again, in another process."""
    connection = connect(path, waits_when_busy=True)
    while True:
        connection.execute("SELECT sum(length(text)) FROM messages").fetchall()
        line.send_bytes(b"read")


def _write_on(line: Connection, path: str) -> None:
    """Write turns again and again, in another process."""
    asyncio.run(_write_turns(line, path))


async def _write_turns(line: Connection, path: str) -> None:
    async with open_store(path, busy_seconds=60) as store:
        number = 0
        while True:
            await store.append_turn([Message("user", f"{number}")], scope=Scope(1, "writer", "chat"))
            number += 1
            line.send_bytes(json.dumps(number).encode())


def _places_of_secret(folder: Path) -> dict[str, int]:
    """Return the files that hold the secret, and how often."""
    counts = {path.name: path.read_bytes().count(SECRET.encode()) for path in folder.iterdir()}
    return {name: count for name, count in counts.items() if count}
