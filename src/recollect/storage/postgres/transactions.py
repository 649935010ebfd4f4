"""Running transactions on PostgreSQL.

Pipeline mode sends the statements of a step together, with BEGIN and the tenant before the first step
and COMMIT after the last. So a transaction takes as many round trips as it has steps.
"""

from dataclasses import dataclass, field
from typing import Generic, LiteralString, TypeVar

import psycopg

from recollect.storage.engine import Results, Row, Statement, Step, Work
from recollect.storage.postgres.connection import Connection

T = TypeVar("T")

READ: LiteralString = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
"""Begins a transaction that reads one snapshot of the database."""

WRITE: LiteralString = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Begins a transaction that writes; its statements see what others committed while it waited for a lock."""

_SET_TENANT = "SELECT set_config('recollect.tenant_id', %s, true)"  # true: until the transaction ends


@dataclass(slots=True)
class Attempt(Generic[T]):
    """One attempt at a transaction; after `commit_was_sent` it may have succeeded in spite of an error."""

    work: Work[T]
    tenant: int
    sql: dict[str, LiteralString]
    begin: LiteralString
    commit_was_sent: bool = field(default=False, init=False)
    _begun: bool = field(default=False, init=False)

    async def run_on(self, connection: Connection) -> T:
        """Run the body to its end on a connection and return its value."""
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
        """Run the only query of a body; the pipeline is its transaction. Longer bodies restart in a block."""
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
            # Binary results take half the time of parsed text where there are many rows, as in search.
            return await connection.execute(text, params, binary=True)
        cursor = connection.cursor()
        await cursor.executemany(text, params)
        return cursor


async def _rows(cursor: psycopg.AsyncCursor[Row]) -> list[Row]:
    return await cursor.fetchall() if cursor.description else []
