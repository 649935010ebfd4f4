"""The PostgreSQL engine: a pool of connections, every transaction under its tenant."""

import asyncio
from collections.abc import Coroutine
from typing import Any, LiteralString, Self, TypeVar

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from recollect.storage.engine import Work
from recollect.storage.postgres.connection import Pool, open_pool, place_of, prepare
from recollect.storage.postgres.faults import translate
from recollect.storage.postgres.transactions import READ, WRITE, Run
from recollect.storage.sql import load_statements

T = TypeVar("T")


class PostgresEngine:
    """A store's data in the schema `recollect` of a PostgreSQL database."""

    name = "postgresql"
    is_in_memory = False

    def __init__(self, pool: Pool, sql: dict[str, LiteralString], place: str) -> None:
        """Take over an opened pool."""
        self._pool = pool
        self._sql = sql
        self._place = place
        self._running: set[asyncio.Task[Any]] = set()

    @classmethod
    async def open(cls, url: str, pool_size: int) -> Self:
        """Connect to a server and bring its schema up to date."""
        await prepare(url)
        return cls(await open_pool(url, pool_size), load_statements("postgres"), place_of(url))

    async def read(self, work: Work[T], *, tenant: int, heavy: bool = False) -> T:  # noqa: ARG002 - the contract
        """Run a transaction that changes nothing, on one state of the database."""
        return await self._to_the_end(self._attempt(work, tenant, begin=READ))

    async def write(self, work: Work[T], *, tenant: int, heavy: bool = False) -> T:  # noqa: ARG002 - the contract
        """Run a transaction and return once it is durable."""
        return await self._to_the_end(self._attempt(work, tenant, begin=WRITE))

    async def purge(self) -> None:
        """Nothing to do: the server's own vacuum overwrites what was deleted."""

    async def close(self) -> None:
        """Finish what is under way and close all connections."""
        if self._running:
            await asyncio.wait(self._running)
        await self._pool.close()

    async def _attempt(self, work: Work[T], tenant: int, begin: LiteralString) -> T:
        """Run a transaction, and once more if the connection had died before it could commit."""
        run = Run(work, tenant, self._sql, begin)
        try:
            return await self._run(run)
        except PoolTimeout as error:
            raise translate(error, self._place) from error
        except psycopg.OperationalError as error:
            if run.commit_was_sent and begin == WRITE:
                raise translate(error, self._place) from error
        except (psycopg.Error, PoolClosed) as error:
            raise translate(error, self._place) from error
        try:
            await self._pool.check()  # what killed one connection has mostly killed the others too
            return await self._run(Run(work, tenant, self._sql, begin))
        except (psycopg.Error, PoolTimeout, PoolClosed) as error:
            raise translate(error, self._place) from error

    async def _run(self, run: Run[T]) -> T:
        async with self._pool.connection() as connection:
            return await run.on(connection)

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something that goes on beside when its caller is cancelled; `close` waits for it.

        Cut off half-way, a write would be in doubt, and both sides could disagree on what was prepared.
        """
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._finished)
        return await asyncio.shield(task)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that nobody misses it when the caller was cancelled
