"""The interface between a transaction and the engine that runs it.

A transaction is a generator that yields the statements to run and receives their rows. It contains
no SQL and knows no driver. The SQLite engine runs it synchronously on one connection. The PostgreSQL
engine awaits each step and sends its statements in one round trip. So both engines do the same thing
by construction, and only the SQL files differ. For example

    def delete_state(keys: Params) -> Transaction[bool]:
        _, deleted = yield Step((Statement("lock_user", keys), Statement("delete_user_state", keys)))
        if not deleted:
            raise Unchanged(value=False)  # roll back, and return False
        yield from raise_epoch(keys)  # another transaction, as a part of this one
        return True
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from recollect.errors import StorageError
from recollect.storage.records import Purge

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

BUSY_SECONDS = 5.0
"""How long a call waits for a server, a connection or other writers, unless the caller says otherwise."""

QUICK_BYTES = 256 * 1024
"""How much is read or written on the event loop's thread; more would hold up everybody."""

Params: TypeAlias = Mapping[str, object]
"""The values bound to one statement, by name."""

Row: TypeAlias = tuple[Any, ...]
"""One row of a result; a statement returns the same columns on both engines."""

Results: TypeAlias = list[list[Row]]
"""The rows of each statement of a step, in order."""


class Statement(NamedTuple):
    """A statement of the SQL files by name; with a list of params it runs once for each.

    Where an engine has nothing to do, its SQL is empty: the statement is skipped and returns no rows.
    """

    name: str
    params: Params | list[Params]


class Step(NamedTuple):
    """Statements that do not need each other's rows; with `last` the commit is sent along."""

    statements: Sequence[Statement]
    last: bool = False


Transaction: TypeAlias = Generator[Step, Results, T]
"""The body of one transaction; an exception inside it rolls everything back."""

Work: TypeAlias = Callable[[], Generator[Step, Results, T]]
"""Creates the body. An engine calls it again to retry after a lost connection or a busy file."""


class Unchanged(Exception):  # noqa: N818 - not an error
    """Raised by a transaction that has nothing to do: it rolls back, and the caller gets the value."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


class DuplicateRow(StorageError):  # noqa: N818 - the store catches it
    """Raised by an engine for a row whose key is stored already, and by a transaction that found one."""


def query(name: str, params: Params, *, last: bool = False) -> Transaction[list[Row]]:
    """Run one statement within a transaction and return its rows."""
    (rows,) = yield Step((Statement(name, params),), last)
    return rows


def run_query(statement: Statement) -> Transaction[list[Row]]:
    """Run one statement as a whole transaction."""
    (rows,) = yield Step((statement,), last=True)
    return rows


class StorageEngine(Protocol):
    """What a `Store` needs of a database."""

    name: str

    @property
    def is_in_memory(self) -> bool:
        """Whether the data goes with the process: no other can open it."""
        ...

    async def read(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:
        """Run a transaction that only reads; a `heavy` one may take long.

        `tenant` is for engines with row-level security. A `heavy` one does not block the event loop, and has
        no time limit once it has begun.
        """
        ...

    async def query(self, statement: Statement, *, tenant: str, heavy: bool = False) -> list[Row]:
        """Run one statement that only reads, and return its rows."""
        ...

    async def write(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:
        """Run a transaction and return once it is durable."""
        ...

    async def purge(self, *, everything: bool = False) -> Purge:
        """Remove the traces of erased users from the engine's files, as far as it can.

        With `everything` it removes those of all deleted rows, however large the file is.
        """
        ...

    async def close(self) -> None:
        """Finish running transactions and close files, threads and connections."""
        ...
