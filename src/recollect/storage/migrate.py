"""Bringing a database up to date: which numbered migrations are still to be applied.

The engines apply them under a lock, each with its record in one transaction, so that two processes
that start at once both succeed and a failed step leaves the database as it was.
"""

from collections.abc import Sequence

from recollect.errors import NewerDatabaseError, StorageCorruptError
from recollect.storage.sql import Migration


def pending(migrations: Sequence[Migration], applied: Sequence[tuple[int, str]]) -> list[Migration]:
    """Return what is left to apply; refuse a database that this version does not know."""
    if len(applied) > len(migrations):
        raise NewerDatabaseError(
            f"the database is at version {len(applied)} ({applied[-1][1]}), but this recollect knows only "
            f"version {len(migrations)}; install a newer recollect"
        )
    for migration, (number, name) in zip(migrations, applied, strict=False):
        if (migration.number, migration.name) != (number, name):
            raise StorageCorruptError(
                f"migration {number} of the database is {name!r}, but here it is {migration.name!r}"
            )
    return list(migrations[len(applied) :])
