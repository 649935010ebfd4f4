"""Translates psycopg's exceptions to recollect's, whose messages say what to do.

Only the server's primary message is passed on: its details can quote the data of a row.
"""

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout

from recollect.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StoreMisuseError,
)
from recollect.storage.engine import DuplicateRow

_KNOWN: tuple[tuple[type[Exception], type[StorageError], str], ...] = (
    (
        PoolTimeout,
        StorageUnavailableError,
        "no connection became free in time; the server is down or overloaded",
    ),
    (PoolClosed, StoreMisuseError, "the store is closed"),
    (pg.DiskFull, StorageFullError, "the server has no space left"),
    (pg.ReadOnlySqlTransaction, StorageReadOnlyError, "the server is read-only, perhaps a standby"),
    (
        pg.InsufficientPrivilege,
        StorageReadOnlyError,
        "the role lacks a privilege; see docs/storage.md for the grants",
    ),
    (pg.LockNotAvailable, StorageBusyError, "another transaction holds a lock; try again"),
    (
        pg.QueryCanceled,
        StorageBusyError,
        "the server cancelled the statement, perhaps because it took longer than busy_seconds; try again",
    ),
    (pg.DataCorrupted, StorageCorruptError, "the server reports damaged data; restore from a backup"),
    (pg.IndexCorrupted, StorageCorruptError, "the server reports a damaged index; reindex it"),
    (psycopg.OperationalError, StorageUnavailableError, "the server cannot be reached"),
)


def translate_error(error: Exception, place: str) -> StorageError:
    """Return recollect's error for one of psycopg or its pool."""
    if isinstance(error, pg.UniqueViolation):
        return DuplicateRow(f"{place}: {_get_message(error)}")
    for kind, ours, advice in _KNOWN:
        if isinstance(error, kind):
            return ours(f"{place}: {advice} ({_get_message(error)})")
    return StorageError(f"{place}: {_get_message(error)}")


def _get_message(error: Exception) -> str:
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    return str(error).strip()
