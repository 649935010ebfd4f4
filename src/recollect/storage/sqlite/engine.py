"""The SQLite engine: fast reads on the event loop's thread, heavy ones in another, and one writer."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Self, TypeVar

import apsw

from recollect.concurrency.fork import fork_gate, new_fork_lock
from recollect.concurrency.threads import ThreadPool, ThreadStartError
from recollect.errors import StorageError, StorageUnavailableError
from recollect.storage.engine import QUICK_BYTES, Row, Statement, Work, run_query
from recollect.storage.records import Purge
from recollect.storage.sqlite.connection import MEMORY, Database, connect, prepare
from recollect.storage.sqlite.faults import translate_error
from recollect.storage.sqlite.purge import Purger
from recollect.storage.sqlite.transactions import execute, load_prepared, read_work
from recollect.storage.sqlite.writer import Writer

T = TypeVar("T")

# What a thread does instead: wait for a process that is recovering or closing the file, read a long text.
_NOT_HERE = (apsw.BusyError, apsw.TooBigError)


class SqliteEngine:
    """A store's data in one SQLite file, or in memory."""

    name = "sqlite"

    def __init__(
        self,
        path: str,
        connections: tuple[Database, Database, Database],
        busy_seconds: float,
        max_vacuum_bytes: int,
    ) -> None:
        self._path = path
        self._sql = load_prepared()
        self.is_in_memory = path == MEMORY
        self._write_connection, self._read_connection, self._heavy_connection = connections
        self._fork_lock = new_fork_lock()
        self._writer = Writer(self._write_connection, path, busy_seconds, self._fork_lock)
        self._purger = Purger(self._writer, path, busy_seconds, max_vacuum_bytes)
        self._purging: asyncio.Task[None] | None = None
        self._reader = ThreadPool(1, "recollect-reader", blocks_fork=True)

    @classmethod
    async def open(cls, path: str, busy_seconds: float, max_vacuum_bytes: int) -> Self:
        """Open or create a database file and apply the pending migrations.

        A write waits up to `busy_seconds` for other processes.
        """
        connections = await asyncio.to_thread(_connect_all, path, busy_seconds)
        engine = cls(path, connections, busy_seconds, max_vacuum_bytes)
        with suppress(apsw.BusyError), engine._fork_lock:
            if execute(engine._read_connection, engine._sql, Statement("find_unpurged", {})):
                engine._purging = asyncio.create_task(engine._purge_again())
        return engine

    async def read(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:  # noqa: ARG002 - the contract
        """Run a transaction that only reads; a heavy one off the event loop."""
        if not heavy or self.is_in_memory:
            try:
                with self._fork_lock:
                    return read_work(self._read_connection, self._sql, work)
            except _NOT_HERE:
                pass
            except apsw.Error as error:
                raise translate_error(error, self._path) from error
        return await self._run_in_thread(partial(self._read_heavy, work))

    async def query(self, statement: Statement, *, tenant: str, heavy: bool = False) -> list[Row]:  # noqa: ARG002 - the contract
        """Run one statement that only reads: the same as `read`, without the body of a transaction."""
        if not heavy or self.is_in_memory:
            try:
                with self._fork_lock:
                    return execute(self._read_connection, self._sql, statement)
            except _NOT_HERE:
                pass
            except apsw.Error as error:
                raise translate_error(error, self._path) from error
        return await self._run_in_thread(partial(self._read_heavy, partial(run_query, statement)))

    async def write(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:  # noqa: ARG002 - the contract
        """Run a transaction and return once it is durable."""
        return await self._writer.write(work, heavy=heavy)

    async def purge(self, *, everything: bool = False) -> Purge:
        """Truncate the log and vacuum the file, if a user was erased and it was not done since."""
        if self.is_in_memory:
            return Purge("not_applicable", "not_applicable")
        mark = await self.query(Statement("find_unpurged", {}), tenant="")
        if not mark and not everything:
            return Purge("done", "done")
        return await self._purger.purge(mark[0][0] if mark else 0, everything=everything)

    async def _purge_again(self) -> None:
        """Do in the background what an earlier process could not."""
        with suppress(StorageError):  # it was logged, or the next start will see
            await self.purge()

    async def close(self) -> None:
        """Finish running transactions and close all connections, even if cancelled meanwhile."""
        parts = (self._end_purging, self._writer.close, self._reader.close)
        was_cancelled = [await _close_to_the_end(close) for close in parts]
        with self._fork_lock:
            for connection in (self._heavy_connection, self._read_connection, self._write_connection):
                connection.close()
        if any(was_cancelled):
            raise asyncio.CancelledError

    async def _end_purging(self) -> None:
        if self._purging is not None:
            self._purging.cancel()
            await asyncio.wait([self._purging])

    async def _run_in_thread(self, call: Callable[[], T]) -> T:
        try:
            return await self._reader.run(call)
        except ThreadStartError as error:
            raise StorageUnavailableError(
                f"{self._path}: no thread could be started ({error}); try again"
            ) from error

    def _read_heavy(self, work: Work[T]) -> T:
        try:
            return read_work(self._heavy_connection, self._sql, work)
        except apsw.Error as error:
            raise translate_error(error, self._path) from error


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
    with fork_gate, ExitStack() as opened:
        writing = prepare(path, busy_seconds=busy_seconds)
        if path == MEMORY:
            return writing, writing, writing
        opened.callback(writing.close)
        reading = connect(path, busy_seconds=busy_seconds)
        opened.callback(reading.close)
        reading.limit(apsw.SQLITE_LIMIT_LENGTH, QUICK_BYTES)
        heavy_reading = connect(path, waits_when_busy=True, busy_seconds=busy_seconds)
        opened.pop_all()
        return writing, reading, heavy_reading
