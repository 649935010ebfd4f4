"""The PostgreSQL engine: a pool of connections; every transaction sets its tenant."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, LiteralString, Self, TypeVar

import psycopg
from psycopg.errors import LockNotAvailable, QueryCanceled
from psycopg_pool import PoolClosed, PoolTimeout

from recollect.concurrency.tasks import retrieve_exception
from recollect.storage.engine import Row, Statement, Work, run_query
from recollect.storage.postgres.connection import Pool, describe_url, open_pool, prepare
from recollect.storage.postgres.faults import translate_error
from recollect.storage.postgres.transactions import READ, WRITE, Attempt
from recollect.storage.sql import load_statements

T = TypeVar("T")


class PostgresEngine:
    """A store's data in the schema `recollect` of a PostgreSQL database."""

    name = "postgresql"
    is_in_memory = False

    def __init__(
        self, pool: Pool, sql: dict[str, LiteralString], place: str, *, is_on_citus: bool = False
    ) -> None:
        self._pool = pool
        self._is_on_citus = is_on_citus
        self._sql = sql
        self._place = place
        self._running: set[asyncio.Task[Any]] = set()

    @classmethod
    async def open(cls, url: str, pool_size: int, busy_seconds: float | None = None) -> Self:
        """Connect to a server and apply the pending migrations.

        A transaction waits up to `busy_seconds` for a connection, and for a lock.
        """
        is_on_citus = await prepare(url)
        pool = await open_pool(url, pool_size, busy_seconds, is_on_citus=is_on_citus)
        return cls(pool, load_statements("postgres"), describe_url(url), is_on_citus=is_on_citus)

    async def read(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:  # noqa: ARG002 - the contract
        """Run a transaction that only reads, on one snapshot of the database."""
        return await self._run_to_the_end(self._run_with_retry(work, tenant, begin=READ))

    async def query(self, statement: Statement, *, tenant: str, heavy: bool = False) -> list[Row]:
        """Run one statement that only reads."""
        return await self.read(partial(run_query, statement), tenant=tenant, heavy=heavy)

    async def write(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:  # noqa: ARG002 - the contract
        """Run a transaction and return once it is durable."""
        return await self._run_to_the_end(self._run_with_retry(work, tenant, begin=WRITE))

    async def purge(self) -> None:
        """Do nothing: the server's own vacuum removes deleted rows."""

    async def close(self) -> None:
        """Finish running transactions and close all connections."""
        if self._running:
            await asyncio.wait(self._running)
        await self._pool.close()

    async def _run_with_retry(self, work: Work[T], tenant: str, begin: LiteralString) -> T:
        """Run a transaction, and retry it once if the connection was lost.

        A write is not retried once its commit was sent: it may be stored.
        """
        attempt = Attempt(work, tenant, self._sql, begin, self._is_on_citus)
        try:
            return await self._run(attempt)
        except (PoolTimeout, LockNotAvailable, QueryCanceled) as error:  # the connection is not to blame
            raise translate_error(error, self._place) from error
        except psycopg.OperationalError as error:
            if attempt.commit_was_sent and begin == WRITE:
                raise translate_error(error, self._place) from error
        except (psycopg.Error, PoolClosed) as error:
            raise translate_error(error, self._place) from error
        try:
            await self._pool.check()  # what broke one connection has probably broken the others too
            return await self._run(Attempt(work, tenant, self._sql, begin, self._is_on_citus))
        except (psycopg.Error, PoolTimeout, PoolClosed) as error:
            raise translate_error(error, self._place) from error

    async def _run(self, attempt: Attempt[T]) -> T:
        async with self._pool.connection() as connection:
            return await attempt.run_on(connection)

    async def _run_to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something that continues in the background if its caller is cancelled; `close` waits for it.

        Cancelled half-way, nobody would know whether a write was committed, and client and server could
        disagree on the prepared statements.
        """
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        retrieve_exception(task)
