"""SQLite connections: opening them, migrating the schema, and waiting for other writers.

WAL with `synchronous=FULL` makes every commit durable. `secure_delete` overwrites deleted rows.
"""

import os
import random
import time
import weakref
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol, cast

import apsw

from recollect.concurrency.fork import call_in_child
from recollect.errors import StorageCorruptError, StorageUnavailableError, StoreMisuseError
from recollect.messages import now
from recollect.storage.engine import BUSY_SECONDS, Params, Row
from recollect.storage.rows import to_micros
from recollect.storage.sql import Migration, find_pending, load_migrations, load_statements
from recollect.storage.sqlite.faults import translate_error

MEMORY = ":memory:"
"""The path of a private database that is never written to disk."""

MIGRATION_SECONDS = 30.0
"""How long migrations and conversions wait for other processes, which may be migrating the file."""

_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16000",
)

DAMAGED_TEXT = "text is not UTF-8; delete it, or restore the database from a backup"
"""What is wrong with text that is not UTF-8."""

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"


class Rows(Protocol):
    """The cursor of a statement."""

    def fetchall(self) -> list[Row]:
        """Return all rows."""
        ...

    def __next__(self) -> Row: ...


class Database(Protocol):
    """The parts of `apsw.Connection` that we use; its own types are complete only on a newer Python."""

    filename: str
    in_transaction: bool

    def execute(self, statements: str, bindings: Params | tuple[object, ...] | None = None) -> Rows:
        """Run SQL."""
        ...

    def executemany(
        self, statements: str, sequenceofbindings: Iterable[Params] | Iterable[tuple[object, ...]]
    ) -> Rows:
        """Run SQL once for each set of values."""
        ...

    def total_changes(self) -> int:
        """Return how many rows were changed since the connection was opened."""
        ...

    def config(self, op: int, value: int) -> object:
        """Set an option (`SQLITE_DBCONFIG_…`)."""
        ...

    def limit(self, id: int, newval: int) -> int:  # noqa: A002 - theirs
        """Set a limit (`SQLITE_LIMIT_…`)."""
        ...

    def set_busy_timeout(self, milliseconds: int) -> None:
        """Have SQLite itself wait for locks, up to this time."""
        ...

    def set_wal_hook(self, callable: Callable[["Database", str, int], int] | None) -> None:  # noqa: A002 - theirs
        """Call a function with the pages of the log after each commit."""
        ...

    def wal_checkpoint(self, dbname: str | None = None, mode: int = 0) -> tuple[int, int]:
        """Copy the log into the file."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


_open_connections: weakref.WeakKeyDictionary[Database, str] = weakref.WeakKeyDictionary()  # with their paths
_inherited: list[Database] = []
_inherited_files: set[tuple[int, int]] = set()


def connect(path: str, *, waits_when_busy: bool = False, busy_seconds: float = BUSY_SECONDS) -> Database:
    """Open a connection; where the file is busy it raises `BusyError` at once, unless `waits_when_busy`."""
    if path != MEMORY:
        _check_folder(path)
        if _identity(path) in _inherited_files:
            raise StoreMisuseError(
                f"{path}: this file was open when the process forked, and SQLite cannot share it with a "
                "forked child; open it after forking, or start the child with 'spawn' (multiprocessing)"
            )
        _create_private(path)
    with _closing_on_error(path) as stack:
        connection = cast("Database", apsw.Connection(path))
        stack.callback(connection.close)
        _open_connections[connection] = path
        _check_ours(connection, path, busy_seconds)
        # Stable query plans: else SQLite plans a query again whenever its values change.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for setting in _SETTINGS:
            _retry_while_busy(connection, setting, busy_seconds)
        connection.set_busy_timeout(int(busy_seconds * 1000) if waits_when_busy else 0)
        stack.pop_all()
    return connection


def _create_private(path: str) -> None:
    """Create the file, unless it is there, for its owner alone; SQLite gives its log the same mode."""
    with suppress(OSError):  # SQLite's own error says more
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _check_folder(path: str) -> None:
    try:
        exists = Path(path).absolute().parent.is_dir()
    except OSError as error:
        raise StorageUnavailableError(f"{path}: its folder cannot be opened ({error.strerror})") from error
    if not exists:
        raise StorageUnavailableError(f"{path}: its folder does not exist; create it first")


def _check_ours(connection: Database, path: str, busy_seconds: float) -> None:
    """Raise on another program's database, before any setting changes it."""
    tables = {row[0] for row in _retry_while_busy(connection, _TABLES, busy_seconds)}
    if tables and "recollect_migrations" not in tables:
        raise StorageCorruptError(f"{path}: this database belongs to another program; choose another file")


def prepare(path: str, *, up_to: int | None = None, busy_seconds: float = BUSY_SECONDS) -> Database:
    """Open a connection and apply the pending migrations, up to a number if given."""
    with _closing_on_error(path) as stack:
        connection = connect(path, busy_seconds=busy_seconds)
        stack.callback(connection.close)
        while todo := _find_pending(connection, up_to):
            _apply_next(connection, todo[0].number)
        stack.pop_all()
    return connection


def _always() -> bool:
    return True


@contextmanager
def _closing_on_error(path: str) -> Generator[ExitStack]:
    """Close what the stack holds, unless the block empties it; translate errors of SQLite."""
    try:
        with ExitStack() as stack:
            yield stack
    except apsw.Error as error:
        raise translate_error(error, path) from error
    except UnicodeDecodeError as error:  # the names of tables and migrations are text too
        raise StorageCorruptError(f"{path}: {DAMAGED_TEXT}") from error


def begin_writing(connection: Database, seconds: float, is_wanted: Callable[[], bool] = _always) -> None:
    """Begin a write transaction; retry for some seconds while others write, as long as it is wanted."""
    _retry_while_busy(connection, "BEGIN IMMEDIATE", seconds, is_wanted)


def _retry_while_busy(
    connection: Database, statement: str, seconds: float, is_wanted: Callable[[], bool] = _always
) -> list[Row]:
    """Run a statement, retrying while the file is busy, and return its rows.

    SQLite's own waiting makes longer and longer pauses, so that a process that has waited long falls behind
    newer ones. Short random pauses give every process the same chance.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return connection.execute(statement).fetchall()
        except apsw.BusyError:
            if time.monotonic() >= deadline or not is_wanted():
                raise
            time.sleep(random.uniform(0.0002, 0.002))  # noqa: S311 - fairness, not secrecy


def _find_pending(connection: Database, up_to: int | None = None) -> list[Migration]:
    statements = load_statements("sqlite")
    tables = _retry_while_busy(connection, _TABLES, MIGRATION_SECONDS)
    applied = (
        _retry_while_busy(connection, statements["applied_migrations"], MIGRATION_SECONDS) if tables else []
    )
    todo = find_pending(load_migrations("sqlite"), applied)
    return [migration for migration in todo if up_to is None or migration.number <= up_to]


def _apply_next(connection: Database, number: int) -> None:
    statements = load_statements("sqlite")
    begin_writing(connection, MIGRATION_SECONDS)
    try:
        connection.execute(statements["create_migrations"])
        todo = find_pending(
            load_migrations("sqlite"), connection.execute(statements["applied_migrations"]).fetchall()
        )
        if todo and todo[0].number == number:  # else another process was faster
            connection.execute(todo[0].sql)
            record = {"number": number, "name": todo[0].name, "applied_at": to_micros(now())}
            connection.execute(statements["record_migration"], record)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _leave_to_parent() -> None:
    """Keep a forked child away from the files that its parent has open.

    Closing a connection in the child could delete the log that the parent still uses, so the child keeps all
    of them. SQLite also records locks by process: the child would believe that it holds the parent's locks,
    and its writes could be lost. So the child may not open these files again either.
    """
    _inherited.extend(_open_connections)
    for connection, path in _open_connections.items():
        try:
            _ = connection.filename
        except apsw.ConnectionClosedError:
            continue
        except apsw.ThreadingViolationError:  # another thread was using it when the process forked
            pass
        identity = _identity(path)
        if identity is not None:
            _inherited_files.add(identity)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - accepts the empty path of a database in memory
    except OSError:
        return None
    return status.st_dev, status.st_ino


call_in_child(_leave_to_parent)
