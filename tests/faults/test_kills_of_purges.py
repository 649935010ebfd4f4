"""A process is killed while it removes traces of deleted rows: nothing is lost, and no byte stays."""

import asyncio
import random
import shutil
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import pytest
from tests.faults.children import Child
from tests.support.profiles import IS_LONG
from tests.support.waiting import until

from recollect import Message, Scope, open_store
from recollect.cli.app import main

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

Work: TypeAlias = Callable[[Path], Coroutine[Any, Any, None]]

KILLS = 70 if IS_LONG else 4
SECRET = b"zanzibar"
VICTIM, OTHER = Scope(1, "m", "chat"), Scope(1, "z", "chat")
MESSAGES = 2000


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in which the messages of two users lie side by side, 1 MB of each."""
    path = tmp_path_factory.mktemp("purges") / "full.db"
    asyncio.run(_fill(path))
    return path


@pytest.fixture(scope="module")
def erased(full: Path) -> Path:
    """The same after one user was erased, whose traces are still there."""
    path = Path(shutil.copy(full, full.with_name("busy.db")))
    return asyncio.run(_erase_beside_a_reader(path, full.with_name("erased.db")))


async def _fill(path: Path) -> None:
    async with open_store(path) as store:
        for number in range(0, MESSAGES, 20):
            for scope, word in ((VICTIM, SECRET.decode()), (OTHER, "ordinary")):
                turn = [Message("user", f"{word} {number}-{part} " * 30) for part in range(20)]
                await store.append_turn(turn, scope=scope)


async def _erase_beside_a_reader(path: Path, copy: Path) -> Path:
    """Erase a user while a snapshot keeps the log, and copy the files as they are then."""
    async with open_store(path, busy_seconds=0.1) as store:
        reader: Any = apsw.Connection(str(path))
        reader.execute("BEGIN; SELECT count(*) FROM messages").fetchall()
        assert (await store.erase(scope=VICTIM)).file == "pending"
        _copy(path, copy)
        reader.close()
    assert SECRET in copy.read_bytes()  # noqa: ASYNC240 - nobody waits here
    return copy


def _copy(source: Path, target: Path) -> Path:
    """Copy a database with its log."""
    for end in ("", "-wal"):
        if Path(f"{source}{end}").exists():
            shutil.copy(f"{source}{end}", f"{target}{end}")
    return target


async def _erase(path: Path) -> None:
    async with open_store(path) as store:
        await store.erase(scope=VICTIM)


async def _purge(path: Path) -> None:
    async with open_store(path, max_vacuum_bytes=0) as store:
        await store.purge()


async def _open(path: Path) -> None:
    async with open_store(path):
        await until(lambda: not _find_mark(path))


async def _vacuum(path: Path) -> None:
    sys.argv = ["recollect", "db", "vacuum", "--store", str(path), "--json"]
    with suppress(SystemExit):
        await asyncio.to_thread(main)


def run_until_killed(line: Connection, work: Work, path: Path) -> None:
    """Do some work, and report its beginning and its end."""
    line.send_bytes(b"begun")
    asyncio.run(work(path))
    line.send_bytes(b"done")


@pytest.mark.parametrize("work", [_erase, _purge, _open, _vacuum])
def test_no_trace_is_left_in_the_end_when_a_purge_is_killed(
    request: pytest.FixtureRequest, tmp_path: Path, work: Work
) -> None:
    """At any moment: the file is whole, others lose nothing, and the next start removes what is left."""
    source: Path = request.getfixturevalue("full" if work is _erase else "erased")
    rng = random.Random(work.__name__)
    longest = 0.0
    for kill in range(KILLS):
        folder = tmp_path / f"{kill}"
        folder.mkdir()
        path = _copy(source, folder / "store.db")
        with Child(run_until_killed, work, path) as child:
            assert child.hear() == b"begun"
            started = time.monotonic()
            if kill == 0:  # the first one measures how long it takes, and is killed when it is done
                assert child.hear() == b"done"
                longest = time.monotonic() - started
            else:
                time.sleep(rng.uniform(0, longest))
            child.kill()
        asyncio.run(_check(path))
        shutil.rmtree(folder)


async def _check(path: Path) -> None:
    """Open the file as the next start does, and look at its bytes while the store is open."""
    assert _ask(path, "PRAGMA integrity_check") == [("ok",)]
    async with open_store(path) as store:
        left = await store.count_user_history(scope=VICTIM)
        assert left in {0, MESSAGES}
        assert await store.count_user_history(scope=OTHER) == MESSAGES
        if left:
            await store.erase(scope=VICTIM)
        await until(lambda: not _find_mark(path))
        assert not [file.name for file in path.parent.iterdir() if SECRET in file.read_bytes()]
        assert await store.count_user_history(scope=OTHER) == MESSAGES


def _find_mark(path: Path) -> list[tuple[Any, ...]]:
    return _ask(path, "SELECT value FROM counters WHERE name = 'unpurged'")


def _ask(path: Path, query: str) -> list[tuple[Any, ...]]:
    connection: Any = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(10_000)
        return connection.execute(query).fetchall()
    finally:
        connection.close()
