"""The SQLite engine: quick reads on the event loop's thread, long ones beside it, one writer."""

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import LiteralString, Self, TypeVar

import apsw

from recollect.storage.engine import Work
from recollect.storage.sql import load_statements
from recollect.storage.sqlite.connection import MEMORY, Database, connect, prepare
from recollect.storage.sqlite.faults import translate
from recollect.storage.sqlite.transactions import Writer, read_work
from recollect.storage.worker import Worker

T = TypeVar("T")

_log = logging.getLogger(__name__)

_LARGEST_SCRUBBED = 256 * 1024 * 1024


class SqliteEngine:
    """A store's data in one SQLite file, or in memory."""

    name = "sqlite"

    def __init__(self, path: str, connection: Database, sql: dict[str, LiteralString]) -> None:
        """Take over a prepared connection, in the event loop that will use it."""
        self._path = path
        self._sql = sql
        self._in_memory = path == MEMORY
        self._write_connection = connection
        self._read_connection = connection if self._in_memory else connect(path)
        self._long_connection = connection if self._in_memory else connect(path, patient=True)
        self._writer = Writer(connection, sql, path)
        self._reader = Worker("recollect-reader")

    @classmethod
    async def open(cls, path: str) -> Self:
        """Open or create a database file and bring it up to date."""
        connection = await asyncio.to_thread(prepare, path)
        return cls(path, connection, load_statements("sqlite"))

    async def read(self, work: Work[T], *, tenant: int, heavy: bool = False) -> T:  # noqa: ARG002 - the contract
        """Run a transaction that changes nothing; a heavy one off the event loop."""
        if not heavy or self._in_memory:
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
        """Write the file anew and empty its log: both still hold traces of what was deleted.

        A large file is not written anew, because nobody else can write meanwhile; VACUUM does it any time.
        """
        if not self._in_memory:
            await self._reader.run(self._scrub)

    async def close(self) -> None:
        """Finish what is under way and close all connections."""
        await self._writer.close()
        await self._reader.close()
        for connection in (self._long_connection, self._read_connection, self._write_connection):
            connection.close()

    def _read_long(self, work: Work[T]) -> T:
        try:
            return read_work(self._long_connection, self._sql, work)
        except apsw.Error as error:
            raise translate(error, self._path) from error

    def _scrub(self) -> None:
        try:
            # Deleted rows are overwritten, but not the copies that SQLite makes when it moves rows about.
            if Path(self._path).stat().st_size <= _LARGEST_SCRUBBED:
                self._long_connection.execute("VACUUM").fetchall()
            self._long_connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.FullError) as error:
            _log.warning("%s: what was erased may be found in the file until VACUUM: %s", self._path, error)
        except apsw.Error as error:
            raise translate(error, self._path) from error
