"""Running transactions on PostgreSQL.

Pipeline mode sends the statements of a step together, with BEGIN and the tenant before the first step
and COMMIT after the last. So a transaction takes as many round trips as it has steps.

Citus does not forward `set_config` to its workers, where row-level security would then hide every row. It
does forward SET LOCAL, which takes no bound value: there the tenant is the one value that is written into
SQL, as a literal that psycopg quotes.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, LiteralString, TypeVar

import psycopg
from psycopg import sql as composing

from recollect.errors import StorageCorruptError
from recollect.storage.engine import Results, Row, Statement, Step, Work
from recollect.storage.postgres.connection import Connection

T = TypeVar("T")

READ: LiteralString = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
"""Begins a transaction that reads one snapshot of the database."""

WRITE: LiteralString = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Begins a transaction that writes; its statements see what others committed while it waited for a lock."""

_SET_TENANT = "SELECT set_config('recollect.tenant_id', %s, true)"  # true: until the transaction ends
_NO_LIMIT: LiteralString = "SET LOCAL statement_timeout = 0"
_SET_LOCAL_TENANT = composing.SQL("SET LOCAL recollect.tenant_id = {}")


@dataclass(slots=True)
class Attempt(Generic[T]):
    """One attempt at a transaction; after `commit_was_sent` it may have succeeded in spite of an error."""

    work: Work[T]
    tenant: str
    sql: dict[str, LiteralString]
    begin: LiteralString
    is_on_citus: bool
    heavy: bool = False
    commit_was_sent: bool = field(default=False, init=False)
    _begun: bool = field(default=False, init=False)

    async def run_on(self, connection: Connection) -> T:
        """Run the body to its end on a connection and return its value."""
        # On Citus a tenant is set for a block, and so is that heavy work has no limit.
        if self.begin == READ and not self.is_on_citus and not self.heavy:
            body = self.work()
            step = next(body)
            if len(step.statements) == 1:
                try:
                    body.send(await self._run_query(connection, step.statements[0]))
                except StopIteration as done:
                    return done.value
        return await self._run_block(connection)

    async def _run_query(self, connection: Connection, statement: Statement) -> Results:
        """Run the only query of a body; the pipeline is its transaction. Longer bodies restart in a block."""
        async with _pipeline(connection):
            await self._set_tenant(connection)
            cursor = await self._send(connection, statement)
        return [await _rows(cursor)]

    async def _set_tenant(self, connection: Connection) -> None:
        if self.is_on_citus:
            literal = _SET_LOCAL_TENANT.format(composing.Literal(self.tenant))
            await connection.execute(literal, prepare=False)
        else:
            await connection.execute(_SET_TENANT, (self.tenant,))

    async def _run_block(self, connection: Connection) -> T:
        body = self.work()
        try:
            step = next(body)
            while True:
                step = body.send(await self._run_step(connection, step))
        except StopIteration as done:
            if not self.commit_was_sent:
                self.commit_was_sent = True
                await connection.execute("COMMIT")
            return done.value
        except Exception:
            if not connection.closed:
                await connection.rollback()
            raise

    async def _run_step(self, connection: Connection, step: Step) -> Results:
        async with _pipeline(connection):
            if not self._begun:
                self._begun = True
                await connection.execute(self.begin)
                if self.heavy:
                    await connection.execute(_NO_LIMIT)
                await self._set_tenant(connection)
            cursors = [await self._send(connection, statement) for statement in step.statements]
            if step.last:
                self.commit_was_sent = True
                await connection.execute("COMMIT")
        return [await _rows(cursor) for cursor in cursors]

    async def _send(self, connection: Connection, statement: Statement) -> psycopg.AsyncCursor[Row] | None:
        text, params = self.sql[statement.name], statement.params
        if not text:
            return None
        if not isinstance(params, list):
            # Binary results take half the time of parsed text where there are many rows, as in search.
            return await connection.execute(text, params, binary=True)
        cursor = connection.cursor()
        await cursor.executemany(text, params)
        return cursor


@asynccontextmanager
async def _pipeline(connection: Connection) -> AsyncGenerator[None]:
    """Send statements together, and raise the error of the first one that fails.

    Where that comes back before the last statement was sent, psycopg's own block would log a warning for each
    statement after it. A turn that is sent again fails in this way, and is no reason for a warning.
    """
    failed: psycopg.Error | None = None
    try:
        async with connection.pipeline():
            try:
                yield
            except psycopg.Error as error:
                failed = error
    except psycopg.Error:
        if failed is None:
            raise
    if failed is not None:
        raise failed


async def _rows(cursor: psycopg.AsyncCursor[Row] | None) -> list[Row]:
    if cursor is None or not cursor.description:
        return []
    try:
        return await cursor.fetchall()
    except UnicodeDecodeError as error:
        raise StorageCorruptError("stored text is not UTF-8; restore the database from a backup") from error
