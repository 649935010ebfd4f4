"""Running transactions on PostgreSQL.

The statements of a step travel together (pipeline mode), with BEGIN and the tenant before the first
and COMMIT behind the last, so that a transaction costs as many round trips as it has steps.
"""

from dataclasses import dataclass, field
from typing import Generic, LiteralString, TypeVar

import psycopg

from recollect.storage.engine import Results, Row, Statement, Step, Work
from recollect.storage.postgres.connection import Connection

T = TypeVar("T")

READ: LiteralString = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
"""Begins a transaction that sees one state of the database."""

WRITE: LiteralString = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Begins a transaction that writes; each statement sees what was committed while the lock was waited for."""

_SET_TENANT = "SELECT set_config('recollect.tenant_id', %s, true)"  # true: until the transaction ends


@dataclass(slots=True)
class Run(Generic[T]):
    """One try at a transaction; `commit_was_sent` says whether it may have succeeded in spite of an error."""

    work: Work[T]
    tenant: int
    sql: dict[str, LiteralString]
    begin: LiteralString
    commit_was_sent: bool = field(default=False, init=False)
    _begun: bool = field(default=False, init=False)

    async def on(self, connection: Connection) -> T:
        """Drive the body to its end on a connection and return its value."""
        if self.begin == READ:
            body = self.work()
            step = next(body)
            if len(step.statements) == 1:
                try:
                    body.send(await self._run_query(connection, step.statements[0]))
                except StopIteration as done:
                    return done.value
        return await self._run_block(connection)

    async def _run_query(self, connection: Connection, statement: Statement) -> Results:
        """Run a single query; the pipeline is its transaction. What needs more begins again in a block."""
        async with connection.pipeline():
            await connection.execute(_SET_TENANT, (str(self.tenant),))
            cursor = await self._send(connection, statement)
        return [await _rows(cursor)]

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
        async with connection.pipeline():
            if not self._begun:
                self._begun = True
                await connection.execute(self.begin)
                await connection.execute(_SET_TENANT, (str(self.tenant),))
            cursors = [await self._send(connection, statement) for statement in step.statements]
            if step.last:
                self.commit_was_sent = True
                await connection.execute("COMMIT")
        return [await _rows(cursor) for cursor in cursors]

    async def _send(self, connection: Connection, statement: Statement) -> psycopg.AsyncCursor[Row]:
        text, params = self.sql[statement.name], statement.params
        if not isinstance(params, list):
            # As bytes, not as text to be read: half the time where there are many rows, as for search.
            return await connection.execute(text, params, binary=True)
        cursor = connection.cursor()
        await cursor.executemany(text, params)
        return cursor


async def _rows(cursor: psycopg.AsyncCursor[Row]) -> list[Row]:
    return await cursor.fetchall() if cursor.description else []
