"""The border between what is done and how a database does it.

A transaction is written once, as a generator that yields the statements it wants run and is
sent their rows; it knows no driver and no SQL. An engine drives it: SQLite synchronously on
one connection, PostgreSQL by awaiting, with the statements of a step sent in one go. So both
engines do the same thing by construction, and only the SQL files differ.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Params: TypeAlias = Mapping[str, object]
"""The values bound to one statement, by name."""

Row: TypeAlias = tuple[Any, ...]
"""One row of a result; each statement's columns are the same on both engines."""

Results: TypeAlias = list[list[Row]]
"""The rows of each statement of a step."""


class Statement(NamedTuple):
    """A statement of the SQL files by name; a list of params runs it once for each."""

    name: str
    params: Params | list[Params]


class Step(NamedTuple):
    """Statements that need no answer from one another; `last` lets the commit travel with them."""

    statements: Sequence[Statement]
    last: bool = False


Transaction: TypeAlias = Generator[Step, Results, T]
"""The body of one transaction; raising inside it rolls everything back."""

Work: TypeAlias = Callable[[], Generator[Step, Results, T]]
"""Makes the body anew, so that an engine can try again after a lost connection or a busy file."""


class Unchanged(Exception):  # noqa: N818 - not an error
    """Raised by a transaction that found nothing to do: it is rolled back, and the value returned."""

    def __init__(self, value: object) -> None:
        """Take what the caller is to get."""
        super().__init__()
        self.value = value


def query(name: str, params: Params, *, last: bool = False) -> Transaction[list[Row]]:
    """Run one statement within a transaction and return its rows."""
    (rows,) = yield Step((Statement(name, params),), last)
    return rows


class Engine(Protocol):
    """What a database must offer to carry a `Store`."""

    name: str

    @property
    def is_in_memory(self) -> bool:
        """Whether the data goes with the process: no other can open it."""
        ...

    async def read(self, work: Work[T], *, tenant: int, heavy: bool = False) -> T:
        """Run a transaction that changes nothing; `heavy` says that it may take long.

        The tenant is there for engines that guard rows themselves, `heavy` for those that block.
        """
        ...

    async def write(self, work: Work[T], *, tenant: int, heavy: bool = False) -> T:
        """Run a transaction and return once it is durable."""
        ...

    async def purge(self) -> None:
        """Leave no trace of deleted rows in the engine's files, as far as it can."""
        ...

    async def close(self) -> None:
        """Finish what is under way and let go of files, threads and connections."""
        ...
