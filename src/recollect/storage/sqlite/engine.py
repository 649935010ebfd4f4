"""The SQLite engine: fast reads on the event loop's thread, heavy ones in another, and one writer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import apsw

from recollect.concurrency.threads import ThreadPool
from recollect.storage.engine import Row, Statement, Work, run_query
from recollect.storage.sqlite.connection import MEMORY, Database, connect, prepare
from recollect.storage.sqlite.faults import translate_error
from recollect.storage.sqlite.transactions import execute, load_prepared, read_work
from recollect.storage.sqlite.writer import Writer

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MAX_VACUUM_BYTES = 256 * 1024 * 1024


class SqliteEngine:
    """A store's data in one SQLite file, or in memory."""

    name = "sqlite"

    def __init__(
        self, path: str, connections: tuple[Database, Database, Database], busy_seconds: float
    ) -> None:
        self._path = path
        self._sql = load_prepared()
        self.is_in_memory = path == MEMORY
        self._write_connection, self._read_connection, self._heavy_connection = connections
        self._writer = Writer(self._write_connection, path, busy_seconds)
        self._reader = ThreadPool(1, "recollect-reader", blocks_fork=True)

    @classmethod
    async def open(cls, path: str, busy_seconds: float) -> Self:
        """Open or create a database file and apply the pending migrations.

        A write waits up to `busy_seconds` for other processes.
        """
        return cls(path, await asyncio.to_thread(_connect_all, path, busy_seconds), busy_seconds)

    async def read(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:  # noqa: ARG002 - the contract
        """Run a transaction that only reads; a heavy one off the event loop."""
        if not heavy or self.is_in_memory:
            try:
                return read_work(self._read_connection, self._sql, work)
            except apsw.BusyError:  # a process is recovering or closing the file: wait in the thread
                pass
            except apsw.Error as error:
                raise translate_error(error, self._path) from error
        return await self._reader.run(partial(self._read_heavy, work))

    async def query(self, statement: Statement, *, tenant: str, heavy: bool = False) -> list[Row]:  # noqa: ARG002 - the contract
        """Run one statement that only reads: the same as `read`, without the body of a transaction."""
        if not heavy or self.is_in_memory:
            try:
                return execute(self._read_connection, self._sql, statement)
            except apsw.BusyError:
                pass
            except apsw.Error as error:
                raise translate_error(error, self._path) from error
        return await self._reader.run(partial(self._read_heavy, partial(run_query, statement)))

    async def write(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:  # noqa: ARG002 - the contract
        """Run a transaction and return once it is durable."""
        return await self._writer.write(work, heavy=heavy)

    async def purge(self) -> None:
        """Vacuum the file and truncate its log: both still hold traces of deleted rows.

        A large file is not vacuumed, because nobody else can write meanwhile; run VACUUM yourself.
        """
        if not self.is_in_memory:
            await self._reader.run(self._vacuum)

    async def close(self) -> None:
        """Finish running transactions and close all connections, even if cancelled meanwhile."""
        was_cancelled = [await _close_to_the_end(part.close) for part in (self._writer, self._reader)]
        for connection in (self._heavy_connection, self._read_connection, self._write_connection):
            connection.close()
        if any(was_cancelled):
            raise asyncio.CancelledError

    def _read_heavy(self, work: Work[T]) -> T:
        try:
            return read_work(self._heavy_connection, self._sql, work)
        except apsw.Error as error:
            raise translate_error(error, self._path) from error

    def _vacuum(self) -> None:
        try:
            # `secure_delete` overwrites deleted rows, but not copies that SQLite left when it moved rows.
            if Path(self._path).stat().st_size <= _MAX_VACUUM_BYTES:
                self._heavy_connection.execute("PRAGMA temp_store = FILE; VACUUM").fetchall()
            else:
                _log.warning(
                    "%s is too large to be vacuumed now; traces of erased data stay until you run VACUUM",
                    self._path,
                )
            self._heavy_connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.Error, OSError) as error:  # the erasure itself is committed, and no query finds the rows
            _log.warning("%s: traces of erased data may stay until you run VACUUM: %s", self._path, error)


async def _close_to_the_end(close: Callable[[], Awaitable[None]]) -> bool:
    """Close something, however often this is cancelled; return whether it was."""
    was_cancelled = False
    while True:
        try:
            await close()
        except asyncio.CancelledError:
            was_cancelled = True
        else:
            return was_cancelled


def _connect_all(path: str, busy_seconds: float) -> tuple[Database, Database, Database]:
    """Open the connections of a store; if one fails, close the others."""
    with ExitStack() as opened:
        writing = prepare(path, busy_seconds=busy_seconds)
        if path == MEMORY:
            return writing, writing, writing
        opened.callback(writing.close)
        reading = connect(path, busy_seconds=busy_seconds)
        opened.callback(reading.close)
        heavy_reading = connect(path, waits_when_busy=True, busy_seconds=busy_seconds)
        opened.pop_all()
        return writing, reading, heavy_reading
