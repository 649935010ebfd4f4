"""The PostgreSQL engine: a pool of connections; every transaction sets its tenant.

A call ends within `busy_seconds`, whatever the server does: it waits that long for a connection, the server
limits its statements and locks, and a connection that stays silent is cut. A heavy call may take longer once
the server has answered it. After a call has waited in vain, others fail at once: see `Breaker`.
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, LiteralString, Self, TypeVar

import psycopg
from psycopg.errors import LockNotAvailable, QueryCanceled
from psycopg_pool import PoolClosed, PoolTimeout

from recollect.concurrency.tasks import retrieve_exception
from recollect.errors import StorageUnavailableError
from recollect.storage.breaker import Breaker
from recollect.storage.engine import BUSY_SECONDS, Row, Statement, Work, run_query
from recollect.storage.postgres.connection import (
    Connection,
    Pool,
    answering_within,
    connect,
    cut,
    describe_url,
    open_pool,
    prepare,
)
from recollect.storage.postgres.faults import translate_error
from recollect.storage.postgres.transactions import READ, WRITE, Attempt
from recollect.storage.records import Purge
from recollect.storage.sql import load_statements

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Call(Generic[T]):
    """A transaction to run, and its time limit."""

    work: Work[T]
    tenant: str
    begin: LiteralString
    heavy: bool
    deadline: float
    connection: Connection | None = field(default=None, init=False)
    is_cut: bool = field(default=False, init=False)


class PostgresEngine:
    """A store's data in the schema `recollect` of a PostgreSQL database."""

    name = "postgresql"
    is_in_memory = False

    def __init__(
        self, pool: Pool, url: str, busy_seconds: float = BUSY_SECONDS, *, is_on_citus: bool = False
    ) -> None:
        self._pool = pool
        self._url = url
        self._busy_seconds = busy_seconds
        self._is_on_citus = is_on_citus
        self._sql = load_statements("postgres")
        self._place = describe_url(url)
        self._loop = asyncio.get_running_loop()
        self._breaker = Breaker(self._probe)
        self._running: dict[asyncio.Task[Any], _Call[Any]] = {}
        self._answered_at = float("-inf")

    @classmethod
    async def open(cls, url: str, pool_size: int, busy_seconds: float) -> Self:
        """Connect to a server and apply the pending migrations."""
        is_on_citus = await prepare(url, busy_seconds)
        pool = await open_pool(url, pool_size, busy_seconds, is_on_citus=is_on_citus)
        return cls(pool, url, busy_seconds, is_on_citus=is_on_citus)

    async def read(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:
        """Run a transaction that only reads, on one snapshot of the database."""
        return await self._run_to_the_end(work, tenant, READ, heavy=heavy)

    async def query(self, statement: Statement, *, tenant: str, heavy: bool = False) -> list[Row]:
        """Run one statement that only reads."""
        return await self.read(partial(run_query, statement), tenant=tenant, heavy=heavy)

    async def write(self, work: Work[T], *, tenant: str, heavy: bool = False) -> T:
        """Run a transaction and return once it is durable."""
        return await self._run_to_the_end(work, tenant, WRITE, heavy=heavy)

    async def purge(self, *, everything: bool = False) -> Purge:  # noqa: ARG002 - the contract
        """Do nothing: the server's own vacuum removes deleted rows."""
        return Purge("not_applicable", "not_applicable")

    async def close(self) -> None:
        """Finish running transactions and close all connections."""
        await self._breaker.stop()
        if self._running:
            await asyncio.wait(self._running)
        await self._pool.close()

    async def _run_to_the_end(self, work: Work[T], tenant: str, begin: LiteralString, *, heavy: bool) -> T:
        """Run something that continues in the background if its caller is cancelled; `close` waits for it.

        Cancelled half-way, nobody would know whether a write was committed, and client and server could
        disagree on the prepared statements.
        """
        await self._breaker.check()
        call = _Call(work, tenant, begin, heavy, self._loop.time() + self._busy_seconds)
        task = asyncio.ensure_future(self._run_in_time(call))
        self._running[task] = call
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]
        retrieve_exception(task)

    async def _run_in_time(self, call: _Call[T]) -> T:
        started = self._loop.time()
        try:
            value = await self._run_with_retry(call)
        except StorageUnavailableError as error:
            raise self._note_failure(call, error, started) from error.__cause__
        except Exception:  # an answer too, such as a lock that is held
            self._answered_at = self._loop.time()
            raise
        self._answered_at = self._loop.time()
        return value

    def _note_failure(
        self, call: _Call[Any], error: StorageUnavailableError, started: float
    ) -> StorageUnavailableError:
        if call.is_cut:
            advice = "; what was sent to it may still be stored" if call.begin == WRITE else ""
            error = StorageUnavailableError(
                f"{self._place}: the server did not answer within {self._busy_seconds:g} s "
                f"(busy_seconds){advice}"
            )
        if self._answered_at < started:  # else it is slow, or its connections are taken, but it is there
            self._breaker.open(error, self._loop.time() - started)
            self._cut_idle()
        return error

    def _cut_idle(self) -> None:
        """Cut the idle connections, whose server is probably as silent as that of the one that was tried."""
        in_use = {call.connection for call in self._running.values()}
        for connection in [*self._pool.known]:
            if connection not in in_use:
                cut(connection)

    async def _probe(self) -> None:
        async with await connect(self._url, self._busy_seconds) as connection:
            with answering_within(self._busy_seconds, connection):
                await connection.execute("")

    async def _run_with_retry(self, call: _Call[T]) -> T:
        """Run a transaction, and retry it once if the connection was lost.

        A write is not retried once its commit was sent: it may be stored.
        """
        attempt = self._make_attempt(call)
        try:
            return await self._run(call, attempt)
        except (PoolTimeout, LockNotAvailable, QueryCanceled) as error:  # the connection is not to blame
            raise translate_error(error, self._place) from error
        except psycopg.OperationalError as error:
            if call.is_cut or (attempt.commit_was_sent and call.begin == WRITE):
                raise translate_error(error, self._place) from error
        except (psycopg.Error, PoolClosed) as error:
            raise translate_error(error, self._place) from error
        if call.heavy:  # its work may have taken long
            call.deadline = self._loop.time() + self._busy_seconds
        timer = self._loop.call_at(call.deadline, self._cut_idle)
        try:
            await self._pool.check()  # what broke one connection has probably broken the others too
            timer.cancel()
            return await self._run(call, self._make_attempt(call))
        except (psycopg.Error, PoolTimeout, PoolClosed) as error:
            raise translate_error(error, self._place) from error
        finally:
            timer.cancel()

    def _make_attempt(self, call: _Call[T]) -> Attempt[T]:
        return Attempt(call.work, call.tenant, self._sql, call.begin, self._is_on_citus, call.heavy)

    async def _run(self, call: _Call[T], attempt: Attempt[T]) -> T:
        async with self._pool.connection(max(0.0, call.deadline - self._loop.time())) as connection:
            call.connection = connection
            timer = self._loop.call_at(call.deadline, self._cut, call)
            try:
                if call.heavy:
                    await connection.execute("")  # the server is there; its work may take long
                    timer.cancel()
                return await attempt.run_on(connection)
            finally:
                timer.cancel()
                call.connection = None

    def _cut(self, call: _Call[Any]) -> None:
        call.is_cut = True
        if call.connection is not None:
            cut(call.connection)
