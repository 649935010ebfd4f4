"""Converts a SQLite file of the layout before the first release, once and in one transaction."""

import logging

import apsw

from recollect.errors import StorageCorruptError
from recollect.messages import now
from recollect.storage.rows import to_micros
from recollect.storage.sql import check_convertible, find_old_layout, load_migrations, load_statements
from recollect.storage.sqlite.connection import (
    DAMAGED_TEXT,
    MIGRATION_SECONDS,
    Database,
    begin_writing,
    connect,
)
from recollect.storage.sqlite.faults import translate_error

_log = logging.getLogger(__name__)


def convert(path: str) -> bool:
    """Convert a file if it has the old layout; return whether it had."""
    connection = connect(path)
    try:
        begin_writing(connection, MIGRATION_SECONDS)
        if not _has_old_layout(connection):
            return False
        _convert(connection)
        connection.execute("COMMIT")
        _vacuum(connection, path)
    except apsw.Error as error:
        raise translate_error(error, path) from error
    except UnicodeDecodeError as error:
        raise StorageCorruptError(f"{path}: {DAMAGED_TEXT}") from error
    else:
        return True
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.close()


def _has_old_layout(connection: Database) -> bool:
    tables = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'recollect_migrations'").fetchall()
    statements = load_statements("sqlite")
    return bool(tables) and find_old_layout(connection.execute(statements["applied_migrations"]).fetchall())


def _convert(connection: Database) -> None:
    statements = load_statements("sqlite")
    check_convertible(connection.execute(statements["longest_position"]).fetchall()[0][0])
    connection.execute(statements["set_old_tables_aside"])
    for migration in load_migrations("sqlite"):
        connection.execute(migration.sql)
        record = {"number": migration.number, "name": migration.name, "applied_at": to_micros(now())}
        connection.execute(statements["record_migration"], record)
    connection.execute(statements["copy_old_rows"])


def _vacuum(connection: Database, path: str) -> None:
    try:
        connection.execute("PRAGMA temp_store = FILE; VACUUM").fetchall()
    except apsw.Error as error:  # the conversion itself is committed
        _log.warning("%s is converted, but not compacted; run VACUUM when there is space: %s", path, error)
