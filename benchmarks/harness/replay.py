"""Recording the statements that a store runs, so that a bare driver can run the very same ones.

The comparison stays fair by itself when the store's SQL changes: what is replayed is what was recorded.
"""

from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, TypeVar

from recollect.messages import Message
from recollect.scope import Scope
from recollect.storage.engine import Params, Results, Row, Statement, Step, StorageEngine, Work
from recollect.storage.postgres.connection import Connection
from recollect.storage.sql import load_statements
from recollect.storage.sqlite.connection import MEMORY, Database, prepare
from recollect.storage.sqlite.engine import SqliteEngine
from recollect.storage.store import Store

T = TypeVar("T")

_SET_TENANT = "SELECT set_config('recollect.tenant_id', %s, true)"


class Recorder:
    """An engine that notes the statements of each transaction that passes through it."""

    def __init__(self, engine: StorageEngine) -> None:
        """Pass everything on to another engine."""
        self.name = engine.name
        self.transactions: list[list[Statement]] = []
        self._engine = engine

    async def read(self, work: Work[T], *, tenant: int, heavy: bool = False) -> T:
        """Pass a reading transaction on."""
        return await self._engine.read(self._record(work), tenant=tenant, heavy=heavy)

    async def write(self, work: Work[T], *, tenant: int, heavy: bool = False) -> T:
        """Pass a writing transaction on."""
        return await self._engine.write(self._record(work), tenant=tenant, heavy=heavy)

    async def purge(self) -> None:
        """Pass it on."""
        await self._engine.purge()

    async def close(self) -> None:
        """Pass it on."""
        await self._engine.close()

    def _record(self, work: Work[T]) -> Work[T]:
        self.transactions.append([])
        return partial(_pass_on, work, self.transactions[-1])


def _pass_on(work: Work[T], notes: list[Statement]) -> Generator[Step, Results, T]:
    body = work()
    try:
        step = next(body)
        while True:
            notes.extend(step.statements)
            step = body.send((yield step))
    except StopIteration as done:
        return done.value


class Call(NamedTuple):
    """A statement with its values, ready for a driver; `many` runs it once for each set of values."""

    sql: LiteralString
    params: Any
    many: bool


class Recording(NamedTuple):
    """The statements of turns that were appended, and of one look at the last ten messages."""

    turns: list[list[Statement]]
    last_ten: list[Statement]


async def record(turns: Sequence[tuple[str, str]], scopes: Sequence[Scope]) -> Recording:
    """Append turns to the scopes' threads by rotation in a store of its own, and record it all."""
    recorder = Recorder(await SqliteEngine.open(MEMORY))
    async with Store(recorder) as store:
        for number, turn in enumerate(turns):
            await store.append_turn(messages_of(turn), scope=scopes[number % len(scopes)])
        await store.last_messages(10, scope=scopes[0])
    return Recording(recorder.transactions[:-1], recorder.transactions[-1])


def messages_of(turn: tuple[str, str]) -> list[Message]:
    """Return a turn's two messages."""
    return [Message("user", turn[0]), Message("assistant", turn[1])]


def calls(statements: Sequence[Statement], engine: str) -> list[Call]:
    """Prepare statements for an engine's driver; those that have nothing to run for are left out."""
    sql = load_statements(engine)
    prepared = [_call(sql[name], params) for name, params in statements]
    return [call for call in prepared if call.params or not call.many]


def _call(sql: LiteralString, params: Params | Sequence[Params]) -> Call:
    return Call(sql, params, isinstance(params, Sequence))


class BareSqlite:
    """One APSW connection that runs prepared statements: what the store's work costs without the store."""

    def __init__(self, path: Path) -> None:
        """Open a file with the store's own tables and settings."""
        self._connection: Database = prepare(str(path))

    def append(self, turn: list[Call]) -> None:
        """Run the statements of a turn and commit."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        for sql, params, many in turn:
            if many:
                connection.executemany(sql, params)
            else:
                connection.execute(sql, params).fetchall()
        connection.execute("COMMIT")

    def read(self, statements: list[Call]) -> list[list[Row]]:
        """Run the statements of a look at the last messages and return the rows of each."""
        return [self._connection.execute(sql, params).fetchall() for sql, params, _ in statements]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class BarePostgres:
    """One psycopg connection that runs prepared statements, each awaited, in one transaction."""

    def __init__(self, connection: Connection, scope: Scope) -> None:
        """Take over a connection to a database with the store's own tables."""
        self._connection = connection
        self._tenant = str(scope.tenant_key)

    async def run(self, statements: list[Call]) -> None:
        """Run statements in one transaction of the tenant."""
        connection = self._connection
        async with connection.transaction():
            await connection.execute(_SET_TENANT, (self._tenant,))
            for sql, params, many in statements:
                if many:
                    await connection.cursor().executemany(sql, params)
                    continue
                cursor = await connection.execute(sql, params, binary=True)
                if cursor.description:
                    await cursor.fetchall()
