"""The SQLite engine: quick reads on the event loop's thread, long ones beside it, one writer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import apsw

from recollect.concurrency.threads import ThreadPool
from recollect.storage.engine import Work
from recollect.storage.sql import load_statements
from recollect.storage.sqlite.connection import MEMORY, Database, connect, prepare
from recollect.storage.sqlite.faults import translate
from recollect.storage.sqlite.transactions import Writer, read_work

T = TypeVar("T")

_log = logging.getLogger(__name__)

_LARGEST_SCRUBBED = 256 * 1024 * 1024


class SqliteEngine:
    """A store's data in one SQLite file, or in memory."""

    name = "sqlite"

    def __init__(self, path: str, connections: tuple[Database, Database, Database]) -> None:
        """Take over connections for writing, quick reads and long ones, in the loop that will use them."""
        self._path = path
        self._sql = load_statements("sqlite")
        self.is_in_memory = path == MEMORY
        self._write_connection, self._read_connection, self._long_connection = connections
        self._writer = Writer(self._write_connection, self._sql, path)
        self._reader = ThreadPool(1, "recollect-reader", blocks_fork=True)

    @classmethod
    async def open(cls, path: str) -> Self:
        """Open or create a database file and bring it up to date."""
        return cls(path, await asyncio.to_thread(_connect_all, path))

    async def read(self, work: Work[T], *, tenant: int, heavy: bool = False) -> T:  # noqa: ARG002 - the contract
        """Run a transaction that changes nothing; a heavy one off the event loop."""
        if not heavy or self.is_in_memory:
            try:
                return read_work(self._read_connection, self._sql, work)
            except apsw.BusyError:  # a process is recovering or closing the file: wait elsewhere
                pass
            except apsw.Error as error:
                raise translate(error, self._path) from error
        return await self._reader.run(partial(self._read_long, work))

    async def write(self, work: Work[T], *, tenant: int, heavy: bool = False) -> T:  # noqa: ARG002 - the contract
        """Run a transaction and return once it is durable."""
        return await self._writer.write(work, heavy=heavy)

    async def purge(self) -> None:
        """Vacuum the file and empty its log: both still hold traces of what was deleted.

        A large file is not vacuumed, because nobody else can write meanwhile; VACUUM does it any time.
        """
        if not self.is_in_memory:
            await self._reader.run(self._scrub)

    async def close(self) -> None:
        """Finish what is under way and close all connections; cancelled, it does so all the same."""
        was_cancelled = [await _to_the_end(part.close) for part in (self._writer, self._reader)]
        for connection in (self._long_connection, self._read_connection, self._write_connection):
            connection.close()
        if any(was_cancelled):
            raise asyncio.CancelledError

    def _read_long(self, work: Work[T]) -> T:
        try:
            return read_work(self._long_connection, self._sql, work)
        except apsw.Error as error:
            raise translate(error, self._path) from error

    def _scrub(self) -> None:
        try:
            # Deleted rows are overwritten, but not the copies that SQLite makes when it moves rows about.
            if Path(self._path).stat().st_size <= _LARGEST_SCRUBBED:
                self._long_connection.execute("PRAGMA temp_store = FILE; VACUUM").fetchall()
            else:
                _log.warning("%s is too large to be vacuumed at once; traces stay until VACUUM", self._path)
            self._long_connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.Error, OSError) as error:  # the erasure itself is done, and nobody can see the rows
            _log.warning("%s: traces of what was erased may stay until VACUUM: %s", self._path, error)


async def _to_the_end(close: Callable[[], Awaitable[None]]) -> bool:
    """Close something, and say whether this was cancelled on the way."""
    was_cancelled = False
    while True:
        try:
            await close()
        except asyncio.CancelledError:
            was_cancelled = True
        else:
            return was_cancelled


def _connect_all(path: str) -> tuple[Database, Database, Database]:
    """Open the connections of a store; those that were opened are closed again if one cannot be."""
    with ExitStack() as opened:
        writing = prepare(path)
        if path == MEMORY:
            return writing, writing, writing
        opened.callback(writing.close)
        reading = connect(path)
        opened.callback(reading.close)
        long_reading = connect(path, patient=True)
        opened.pop_all()
        return writing, reading, long_reading
