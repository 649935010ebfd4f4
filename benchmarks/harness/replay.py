"""Recording the statements of a store, so that a bare driver can run exactly the same ones.

So the comparison stays fair when the store's SQL changes.
"""

from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, TypeVar, cast

from recollect.messages import Message
from recollect.scope import Scope
from recollect.storage.engine import BUSY_SECONDS, Results, Row, Statement, Step, StorageEngine, Work
from recollect.storage.postgres.connection import Connection
from recollect.storage.records import Purge
from recollect.storage.sql import load_statements
from recollect.storage.sqlite.connection import MEMORY, Database, prepare
from recollect.storage.sqlite.engine import SqliteEngine
from recollect.storage.sqlite.transactions import load_prepared
from recollect.storage.store import Store

T = TypeVar("T")

_SET_TENANT = "SELECT set_config('recollect.tenant_id', %s, true)"


class Recorder:
    """An engine that records the statements of each transaction."""

    def __init__(self, engine: StorageEngine) -> None:
        self.name = engine.name
        self.is_in_memory = engine.is_in_memory
        self.transactions: list[list[Statement]] = []
        self._engine = engine

    async def read(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:
        """Record and run a reading transaction."""
        return await self._engine.read(self._record(work), tenant=tenant, heavy=heavy)

    async def query(self, statement: Statement, *, tenant: str, heavy: bool = False) -> list[Row]:
        """Record and run one reading statement."""
        self.transactions.append([statement])
        return await self._engine.query(statement, tenant=tenant, heavy=heavy)

    async def write(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:
        """Record and run a writing transaction."""
        return await self._engine.write(self._record(work), tenant=tenant, heavy=heavy)

    async def purge(self, *, everything: bool = False) -> Purge:
        """Call the engine."""
        return await self._engine.purge(everything=everything)

    async def close(self) -> None:
        """Close the engine."""
        await self._engine.close()

    def _record(self, work: Work[T]) -> Work[T]:
        self.transactions.append([])
        return partial(_record_steps, work, self.transactions[-1])


def _record_steps(work: Work[T], notes: list[Statement]) -> Generator[Step, Results, T]:
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

    sql: str
    params: Any
    many: bool


class Recording(NamedTuple):
    """The statements of appended turns, and of one read of the last ten messages."""

    turns: list[list[Statement]]
    last_ten: list[Statement]


async def record(turns: Sequence[tuple[str, str]], scopes: Sequence[Scope]) -> Recording:
    """Append turns to the scopes' threads in rotation in a new store, and record all statements."""
    recorder = Recorder(await SqliteEngine.open(MEMORY, BUSY_SECONDS, max_vacuum_bytes=0))
    async with Store(recorder) as store:
        for number, turn in enumerate(turns):
            await store.append_turn(messages_of(turn), scope=scopes[number % len(scopes)])
        await store.last_messages(10, scope=scopes[0])
    return Recording(recorder.transactions[:-1], recorder.transactions[-1])


def messages_of(turn: tuple[str, str]) -> list[Message]:
    """Return a turn's two messages."""
    return [Message("user", turn[0]), Message("assistant", turn[1])]


def prepare_calls(statements: Sequence[Statement], engine: str) -> list[Call]:
    """Prepare statements for an engine's driver; empty ones and batches without values are left out."""
    prepare_call = _prepare_for_sqlite if engine == "sqlite" else _prepare_for_postgres
    prepared = [prepare_call(statement) for statement in statements]
    return [call for call in prepared if call.sql and (call.params or not call.many)]


def _prepare_for_sqlite(statement: Statement) -> Call:
    text, bind = load_prepared()[statement.name]
    params = statement.params
    if isinstance(params, list):
        return Call(text, [bind(some) for some in params], many=True)
    return Call(text, bind(params), many=False)


def _prepare_for_postgres(statement: Statement) -> Call:
    text = load_statements("postgres")[statement.name]
    return Call(text, statement.params, isinstance(statement.params, list))


class BareSqlite:
    """One APSW connection that runs prepared statements: what the store's work costs without the store."""

    def __init__(self, path: Path) -> None:
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
        """Run reading statements and return the rows of each."""
        return [self._connection.execute(sql, params).fetchall() for sql, params, _ in statements]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class BarePostgres:
    """One psycopg connection that runs prepared statements, each awaited, in one transaction."""

    def __init__(self, connection: Connection, scope: Scope) -> None:
        self._connection = connection
        self._tenant = scope.tenant_key

    async def run(self, statements: list[Call]) -> None:
        """Run statements in one transaction of the tenant."""
        connection = self._connection
        async with connection.transaction():
            await connection.execute(_SET_TENANT, (self._tenant,))
            for sql, params, many in statements:
                if many:
                    await connection.cursor().executemany(cast("LiteralString", sql), params)
                    continue
                cursor = await connection.execute(cast("LiteralString", sql), params, binary=True)
                if cursor.description:
                    await cursor.fetchall()
