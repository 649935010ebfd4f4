"""PostgreSQL connections: where they lead, how the schema is brought up to date, and the pool."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import psycopg
from psycopg import conninfo
from psycopg_pool import AsyncConnectionPool

from recollect.errors import InvalidArgumentError
from recollect.messages import now
from recollect.storage.postgres.faults import translate
from recollect.storage.rows import to_micros
from recollect.storage.sql import Migration, load_migrations, load_statements, pending

CONNECT_SECONDS = 5
"""How long a connection may take to be made, and a caller may wait for a free one."""

if TYPE_CHECKING:
    from psycopg_pool._acompat import AQueue
    from psycopg_pool.pool_async import MaintenanceTask

_RETRY_SECONDS = 2  # the pool tries less and less often; after this it begins again with the next caller
_MIGRATION_LOCK = 0x7265636F6C6C  # any number will do, as long as all processes agree

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]
"""A connection whose rows are tuples."""

_workers: set[asyncio.Task[None]] = set()


class _TasksOfAWorker:
    """What a worker of a pool takes its tasks from; one that was cancelled gets no more."""

    def __init__(self, tasks: "AQueue[MaintenanceTask]") -> None:
        self._tasks = tasks

    async def get(self) -> "MaintenanceTask":
        worker = asyncio.current_task()
        if worker is not None and worker.cancelling():
            raise asyncio.CancelledError
        return await self._tasks.get()


class Pool(AsyncConnectionPool[Connection]):
    """The connections of one store.

    The pool's own workers pass over it when they are cancelled while they connect, and an event loop that
    ends would wait for them for ever. And nobody but the pool holds on to them: together with a store that
    was forgotten they would be thrown away before it could end them.
    """

    @classmethod
    async def worker(cls, q: "AQueue[MaintenanceTask]") -> None:
        """Do what a pool has to do beside its callers."""
        task = cast("asyncio.Task[None]", asyncio.current_task())
        # Loops of other threads may have workers too, so that this goes through a copy.
        _workers.difference_update([one for one in [*_workers] if one.get_loop().is_closed()])
        _workers.add(task)
        try:
            await super().worker(cast("AQueue[MaintenanceTask]", _TasksOfAWorker(q)))
        finally:
            _workers.discard(task)

    _ending: Sequence[asyncio.Task[None]] = ()

    async def close(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - the pool's own
        """Close the connections, then wait for the workers.

        The pool itself gathers the workers first. An event loop that ends cancels them and this call: then
        connections would stay open, and asyncio would complain that nobody looked at what was gathered.
        """
        await super().close(cast("float", None))  # without a limit: no workers are left to wait for there
        if self._ending:
            await asyncio.wait(self._ending, timeout=timeout)

    async def _signal_stop_worker(self) -> list[asyncio.Task[None]]:
        self._ending = await super()._signal_stop_worker()
        return []


def place_of(url: str) -> str:
    """Return where an address leads, without its secrets."""
    try:
        parts = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:  # its message would quote the address, password and all
        raise InvalidArgumentError("store", "is not a PostgreSQL address that libpq understands") from None
    if not all(_is_port(port) for port in str(parts.get("port") or "5432").split(",")):
        raise InvalidArgumentError(
            "store", "its port is no number from 1 to 65535; write ':' and '/' in a password as %3A and %2F"
        )
    if "@" in f"{parts.get('host')}{parts.get('dbname')}":
        raise InvalidArgumentError("store", "has one '@' too many; write '@' in a password as %40")
    return f"postgresql {parts.get('host') or 'on this machine'}/{parts.get('dbname') or ''}"


async def prepare(url: str, *, up_to: int | None = None) -> None:
    """Bring the schema up to date, or up to a version; without anything to do no privilege is needed."""
    place = place_of(url)
    try:
        async with await psycopg.AsyncConnection.connect(url, **_options(url)) as connection:
            if await _pending(connection, up_to):
                await connection.execute("SELECT pg_advisory_lock(%s)", (_MIGRATION_LOCK,))
                await _apply(connection, up_to)
    except psycopg.Error as error:
        raise translate(error, place) from error
    except UnicodeError:  # the rules for host names
        raise InvalidArgumentError("store", "its host is no valid host name") from None


def _options(url: str) -> dict[str, Any]:
    """Return what a connection is opened with, besides what its address says."""
    named = "connect_timeout" in conninfo.conninfo_to_dict(url)
    return {"autocommit": True} if named else {"autocommit": True, "connect_timeout": CONNECT_SECONDS}


def _is_port(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) <= 65535  # noqa: PLR2004 - the largest there is


async def open_pool(url: str, size: int) -> Pool:
    """Open a pool that grows up to a size."""
    pool = Pool(
        url,
        min_size=1,
        max_size=size,
        open=False,
        timeout=CONNECT_SECONDS,
        reconnect_timeout=_RETRY_SECONDS,
        kwargs=_options(url),
        connection_class=psycopg.AsyncConnection[tuple[Any, ...]],
    )
    await pool.open()
    return pool


async def _pending(connection: Connection, up_to: int | None) -> list[Migration]:
    cursor = await connection.execute("SELECT to_regclass('recollect.migrations') IS NOT NULL")
    applied: list[tuple[Any, ...]] = []
    if (await cursor.fetchall())[0][0]:
        cursor = await connection.execute(load_statements("postgres")["applied_migrations"])
        applied = await cursor.fetchall()
    todo = pending(load_migrations("postgres"), [(number, name) for number, name in applied])
    return [migration for migration in todo if up_to is None or migration.number <= up_to]


async def _apply(connection: Connection, up_to: int | None) -> None:
    """Apply what is pending once the lock is held; the lock goes with the connection."""
    statements = load_statements("postgres")
    for migration in await _pending(connection, up_to):
        async with connection.transaction():
            await connection.execute("CREATE SCHEMA IF NOT EXISTS recollect")
            await connection.execute(statements["create_migrations"])
            await connection.execute(migration.sql)
            record = {"number": migration.number, "name": migration.name, "applied_at": to_micros(now())}
            await connection.execute(statements["record_migration"], record)
