"""Removes the traces that deleted rows leave in a SQLite file and its log.

`secure_delete` overwrites deleted rows, but the log holds them until it is truncated, and SQLite leaves
copies in the unused parts of pages when it moves rows. Only a vacuum removes those. It takes about 8 ms for
each MB, and nobody can write meanwhile, so a large file is vacuumed only on request. What could not be done
is remembered in the database (`unpurged`) and tried again.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw

from recollect.errors import StorageBusyError, StorageError
from recollect.storage.engine import Statement, run_query
from recollect.storage.records import Purge, PurgeState
from recollect.storage.sqlite.connection import Database
from recollect.storage.sqlite.writer import Writer

_log = logging.getLogger(__name__)


class Purger:
    """Purges a file on the connection of its writer, between transactions."""

    def __init__(self, writer: Writer, path: str, busy_seconds: float, max_vacuum_bytes: int) -> None:
        self._writer = writer
        self._path = path
        self._busy_seconds = busy_seconds
        self._max_vacuum_bytes = max_vacuum_bytes

    async def purge(self, mark: int, *, everything: bool) -> Purge:
        """Truncate the log, then vacuum the file unless it is too large; forget the mark if both are done."""
        log = await self._try_until_free(_truncate_log)
        file: PurgeState = "pending"
        if log == "done" and (everything or self._is_small()):
            file = await self._try_until_free(_vacuum)
            if file == "done":
                file = await self._try_until_free(_truncate_log)  # a vacuum writes the file by way of the log
        if file == "done":
            clear = partial(run_query, Statement("clear_unpurged", {"value": mark}))
            await self._writer.write(clear, heavy=False)
        else:
            _log.warning(
                "%s: traces of erased data are left (log: %s, file: %s); the next start tries again, "
                "`recollect db vacuum` removes them in any case",
                self._path,
                log,
                file,
            )
        return Purge(log, file)

    def _is_small(self) -> bool:
        try:
            return Path(self._path).stat().st_size <= self._max_vacuum_bytes
        except OSError:  # it was moved or deleted meanwhile
            return False

    async def _try_until_free(self, step: Callable[[Database], None]) -> PurgeState:
        """Run a step; retry for some seconds while others read or write, and let writes go in between."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                await self._writer.run_alone(step)
            except StorageBusyError:
                if time.monotonic() >= deadline:
                    return "pending"
                await asyncio.sleep(random.uniform(0.002, 0.02))  # noqa: S311 - fairness, not secrecy
            except StorageError as error:  # the erasure itself is committed, and no query finds the rows
                _log.warning("%s: %s", self._path, error)
                return "failed"
            else:
                return "done"


def _truncate_log(connection: Database) -> None:
    # The first copies what it can without keeping other processes waiting, so that the second is short.
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    left = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    if left != (0, 0):
        raise apsw.BusyError("the log was not truncated")


def _vacuum(connection: Database) -> None:
    connection.execute("PRAGMA temp_store = FILE")  # the copy of a large file is too large for memory
    try:
        connection.execute("VACUUM").fetchall()
    finally:
        connection.execute("PRAGMA temp_store = MEMORY")
