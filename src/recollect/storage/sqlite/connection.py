"""SQLite connections: how one is opened, brought up to date, and waits for its turn to write.

WAL with `synchronous=FULL` makes every commit durable. `secure_delete` overwrites what is deleted.
"""

import os
import random
import time
import weakref
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol, cast

import apsw

from recollect.concurrency.fork import call_in_child
from recollect.errors import StorageCorruptError, StorageUnavailableError, StoreMisuseError
from recollect.messages import now
from recollect.storage.engine import Params, Row
from recollect.storage.rows import to_micros
from recollect.storage.sql import Migration, load_migrations, load_statements, pending
from recollect.storage.sqlite.faults import translate

MEMORY = ":memory:"
"""The path of a private database that is never written to disk."""

BUSY_SECONDS = 30.0
"""How long a writer waits for its turn before it gives up."""

_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16000",
)


_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"


class Rows(Protocol):
    """What a statement answers with."""

    def fetchall(self) -> list[Row]:
        """Return all rows."""
        ...


class Database(Protocol):
    """What we use of an `apsw.Connection`, whose own types need a newer Python to be complete."""

    filename: str
    in_transaction: bool

    def execute(self, statements: str, bindings: Params | None = None) -> Rows:
        """Run SQL."""
        ...

    def executemany(self, statements: str, sequenceofbindings: Iterable[Params]) -> Rows:
        """Run SQL once for each set of values."""
        ...

    def config(self, op: int, value: int) -> object:
        """Set an option of the connection."""
        ...

    def set_busy_timeout(self, milliseconds: int) -> None:
        """Wait for so long by itself."""
        ...

    def set_wal_hook(self, callable: Callable[["Database", str, int], int] | None) -> None:  # noqa: A002 - theirs
        """Be told the length of the log after each commit."""
        ...

    def wal_checkpoint(self, dbname: str | None = None, mode: int = 0) -> tuple[int, int]:
        """Copy the log into the file."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


_open_connections: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[Database] = []
_inherited_files: set[tuple[int, int]] = set()


def connect(path: str, *, patient: bool = False) -> Database:
    """Open a connection; a patient one waits for others by itself, any other says at once that it must."""
    if path != MEMORY:
        _check_folder(path)
        if _identity(path) in _inherited_files:
            raise StoreMisuseError(
                f"{path}: this file was open when the process forked, and SQLite cannot share it with a "
                "forked child; open it after forking, or start the child afresh (multiprocessing: 'spawn')"
            )
    with _closing_on_error(path) as stack:
        connection = cast("Database", apsw.Connection(path))
        stack.callback(connection.close)
        _open_connections.add(connection)
        _check_ours(connection, path)
        # Else SQLite plans again whenever the values of a query change, which ours have no use for.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for setting in _SETTINGS:
            _insist(connection, setting, BUSY_SECONDS)
        connection.set_busy_timeout(int(BUSY_SECONDS * 1000) if patient else 0)
        stack.pop_all()
    return connection


def _check_folder(path: str) -> None:
    try:
        exists = Path(path).absolute().parent.is_dir()
    except OSError as error:
        raise StorageUnavailableError(f"{path}: its folder cannot be opened ({error.strerror})") from error
    if not exists:
        raise StorageUnavailableError(f"{path}: its folder does not exist; create it first")


def _check_ours(connection: Database, path: str) -> None:
    """Reject another program's database, before any setting changes it."""
    tables = {row[0] for row in _insist(connection, _TABLES, BUSY_SECONDS)}
    if tables and "recollect_migrations" not in tables:
        raise StorageCorruptError(f"{path}: this is the database of another program; choose another file")


def prepare(path: str, *, up_to: int | None = None) -> Database:
    """Open a connection and bring the schema up to date, or up to a version."""
    with _closing_on_error(path) as stack:
        connection = connect(path)
        stack.callback(connection.close)
        while todo := _pending(connection, up_to):
            _apply_next(connection, todo[0].number)
        stack.pop_all()
    return connection


def _always() -> bool:
    return True


@contextmanager
def _closing_on_error(path: str) -> Generator[ExitStack]:
    """Close what the stack holds and translate the error, unless the block empties the stack."""
    try:
        with ExitStack() as stack:
            yield stack
    except apsw.Error as error:
        raise translate(error, path) from error


def begin_writing(connection: Database, seconds: float, is_wanted: Callable[[], bool] = _always) -> None:
    """Begin a write transaction, trying for so long until the other writers let it, or nobody wants it."""
    _insist(connection, "BEGIN IMMEDIATE", seconds, is_wanted)


def _insist(
    connection: Database, statement: str, seconds: float, is_wanted: Callable[[], bool] = _always
) -> list[Row]:
    """Run a statement again and again while the file is busy, and return its rows.

    SQLite's own waiting makes longer and longer pauses, so that whoever waits long waits longer
    still. Short random pauses give every process the same chance.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return connection.execute(statement).fetchall()
        except apsw.BusyError:
            if time.monotonic() >= deadline or not is_wanted():
                raise
            time.sleep(random.uniform(0.0002, 0.002))  # noqa: S311 - fairness, not secrecy


def _pending(connection: Database, up_to: int | None = None) -> list[Migration]:
    statements = load_statements("sqlite")
    tables = _insist(connection, _TABLES, BUSY_SECONDS)
    applied = _insist(connection, statements["applied_migrations"], BUSY_SECONDS) if tables else []
    todo = pending(load_migrations("sqlite"), applied)
    return [migration for migration in todo if up_to is None or migration.number <= up_to]


def _apply_next(connection: Database, number: int) -> None:
    statements = load_statements("sqlite")
    begin_writing(connection, BUSY_SECONDS)
    try:
        connection.execute(statements["create_migrations"])
        todo = pending(
            load_migrations("sqlite"), connection.execute(statements["applied_migrations"]).fetchall()
        )
        if todo and todo[0].number == number:  # else another process was quicker
            connection.execute(todo[0].sql)
            record = {"number": number, "name": todo[0].name, "applied_at": to_micros(now())}
            connection.execute(statements["record_migration"], record)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _leave_to_parent() -> None:
    """Keep a forked child away from the files that its parent has open.

    Closing a connection there would tidy up under the parent's hands, so the child holds on to them. And
    SQLite remembers the locks of a file by process: in the child it believes to have what only the parent
    has, and what the child writes could be lost. So the child may not open these files again either.
    """
    _inherited.extend(_open_connections)
    for connection in _open_connections:
        try:
            identity = _identity(connection.filename)
        except apsw.ConnectionClosedError:
            continue
        if identity is not None:
            _inherited_files.add(identity)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - also for the empty path of a database in memory
    except OSError:
        return None
    return status.st_dev, status.st_ino


call_in_child(_leave_to_parent)
