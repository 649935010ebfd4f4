"""Translates APSW's exceptions to recollect's, whose messages say what to do."""

import apsw

from recollect.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from recollect.storage.engine import DuplicateRow

_DUPLICATES = (apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY)

_KNOWN: tuple[tuple[type[Exception], type[StorageError], str], ...] = (
    (apsw.BusyError, StorageBusyError, "other processes kept the database busy; try again"),
    (apsw.LockedError, StorageBusyError, "the database is locked by another connection; try again"),
    (
        apsw.ReadOnlyError,
        StorageReadOnlyError,
        "the database cannot be written; check the file's permissions",
    ),
    (apsw.FullError, StorageFullError, "no space is left for the database; free some and try again"),
    (apsw.NotADBError, StorageCorruptError, "the file is not a SQLite database"),
    (apsw.CorruptError, StorageCorruptError, "the database file is damaged; restore it from a backup"),
    (
        apsw.CantOpenError,
        StorageUnavailableError,
        "the file cannot be opened; check its folder and its permissions",
    ),
    (apsw.PermissionsError, StorageUnavailableError, "the file may not be accessed; check its permissions"),
    (apsw.IOError, StorageUnavailableError, "reading or writing the file failed; check the disk"),
    (apsw.TooBigError, StorageError, "the value is too large for the database"),
)


def translate_error(error: apsw.Error, place: str) -> StorageError:
    """Return recollect's error for one of APSW's."""
    if getattr(error, "extendedresult", None) in _DUPLICATES:
        return DuplicateRow(f"{place}: {error}")
    for kind, ours, advice in _KNOWN:
        if isinstance(error, kind):
            return ours(f"{place}: {advice} ({error})")
    return StorageError(f"{place}: {error}")
