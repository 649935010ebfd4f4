"""PostgreSQL connections: checking the URL, migrating the schema, and the pool."""

import asyncio
import math
import socket
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import psycopg
from psycopg import conninfo
from psycopg_pool import AsyncConnectionPool

from recollect.errors import InvalidArgumentError, StorageUnavailableError
from recollect.messages import now
from recollect.storage.engine import BUSY_SECONDS
from recollect.storage.postgres.faults import translate_error
from recollect.storage.rows import to_micros
from recollect.storage.sql import Migration, find_pending, load_migrations, load_statements

if TYPE_CHECKING:
    from psycopg_pool._acompat import AQueue
    from psycopg_pool.pool_async import MaintenanceTask

_RETRY_SECONDS = 2  # the pool retries ever more slowly; after this time it starts over with the next caller
_MAX_SECONDS = 86_400  # for settings that are small integers
# Parts of a call's time: the server's error comes before ours, and that of a lock, which says more, first.
_LOCK_SHARE, _STATEMENT_SHARE = 0.8, 0.9
_SET_LIMITS = "SELECT set_config('lock_timeout', %s, false), set_config('statement_timeout', %s, false)"
MIGRATION_LOCK = 0x7265636F6C6C
"""The advisory lock of migrations: an arbitrary number, the same in all processes."""

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]
"""A connection whose rows are tuples."""

_workers: set[asyncio.Task[None]] = set()


class _WorkerQueue:
    """The task queue of a pool's worker, which ends a cancelled worker."""

    def __init__(self, tasks: "AQueue[MaintenanceTask]") -> None:
        self._tasks = tasks

    async def get(self) -> "MaintenanceTask":
        worker = asyncio.current_task()
        if worker is not None and worker.cancelling():
            raise asyncio.CancelledError
        return await self._tasks.get()


class Pool(AsyncConnectionPool[Connection]):
    """The connections of one store.

    It changes two things of its base class. Workers there ignore being cancelled while they connect, so an
    ending event loop would wait for them forever. And only the pool refers to its workers: they would be
    garbage-collected with an abandoned store, before it could stop them.
    """

    @classmethod
    async def worker(cls, q: "AQueue[MaintenanceTask]") -> None:
        """Run the pool's maintenance tasks."""
        task = cast("asyncio.Task[None]", asyncio.current_task())
        # A copy: event loops in other threads may add workers meanwhile.
        _workers.difference_update([one for one in [*_workers] if one.get_loop().is_closed()])
        _workers.add(task)
        try:
            await super().worker(cast("AQueue[MaintenanceTask]", _WorkerQueue(q)))
        finally:
            _workers.discard(task)

    _ending: Sequence[asyncio.Task[None]] = ()
    known: weakref.WeakSet[Connection]
    """The connections that the pool has made, idle or in use."""

    async def close(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - the pool's own
        """Close the connections, then wait for the workers.

        The base class gathers the workers first. An ending event loop cancels them and this call: then
        connections would stay open, and asyncio would report an exception that was never retrieved.
        """
        await super().close(cast("float", None))  # no timeout: the base class has no workers to wait for
        if self._ending:
            await asyncio.wait(self._ending, timeout=timeout)

    async def _signal_stop_worker(self) -> list[asyncio.Task[None]]:
        self._ending = await super()._signal_stop_worker()
        return []


def describe_url(url: str) -> str:
    """Return the host and database of a URL, without secrets, for messages; raise if it is malformed."""
    try:
        parts = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:  # its message would quote the URL with the password
        raise InvalidArgumentError("store", "is not a PostgreSQL URL that libpq understands") from None
    if not all(_is_port(port) for port in str(parts.get("port") or "5432").split(",")):
        raise InvalidArgumentError(
            "store",
            "its port must be a number from 1 to 65535; write ':' and '/' in a password as %3A and %2F",
        )
    if "@" in f"{parts.get('host')}{parts.get('dbname')}":
        raise InvalidArgumentError("store", "has one '@' too many; write '@' in a password as %40")
    return f"postgresql {parts.get('host') or 'on this machine'}/{parts.get('dbname') or ''}"


async def prepare(url: str, busy_seconds: float = BUSY_SECONDS, *, up_to: int | None = None) -> bool:
    """Apply the pending migrations, up to a number if given, and return whether the database has Citus.

    If there are none, no privilege is needed. The server must answer within `busy_seconds`; the migrations
    themselves may take as long as they need.
    """
    place = describe_url(url)
    try:
        async with await connect(url, busy_seconds) as connection:
            with answering_within(busy_seconds, connection):
                is_on_citus = await _find_citus(connection, place)
                pending = await _find_pending(connection, up_to)
            if pending:
                await connection.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
                await _apply_pending(connection, up_to)
            return is_on_citus
    except psycopg.Error as error:
        raise translate_error(error, place) from error
    except UnicodeError:  # from encoding the host name as IDNA
        raise InvalidArgumentError("store", "its host is not a valid host name") from None


async def _find_citus(connection: Connection, place: str) -> bool:
    """Whether the extension Citus is installed; raise on one of its workers, which have a part of the data.

    It looks for the extension, not for distributed tables: an open store must survive the distribution.
    """
    cursor = await connection.execute(
        "SELECT to_regclass('pg_dist_local_group') IS NOT NULL FROM pg_extension WHERE extname = 'citus'"
    )
    found = await cursor.fetchall()
    if found and found[0][0]:
        cursor = await connection.execute("SELECT groupid FROM pg_dist_local_group")
        if any(group for (group,) in await cursor.fetchall()):
            raise StorageUnavailableError(f"{place}: this is a Citus worker; connect to the coordinator")
    return bool(found)


async def connect(url: str, busy_seconds: float) -> Connection:
    """Connect within `busy_seconds`, over all addresses of the host; a timeout in the URL wins."""
    limit = None if "connect_timeout" in conninfo.conninfo_to_dict(url) else busy_seconds
    try:
        async with asyncio.timeout(limit):
            return await psycopg.AsyncConnection.connect(url, **make_options(url, busy_seconds))
    except TimeoutError as error:
        raise psycopg.OperationalError(f"no connection within {busy_seconds:g} s") from error


def make_options(url: str, busy_seconds: float) -> dict[str, Any]:
    """Return the options of a connection; what the URL says of time wins.

    A network that swallows packets is noticed by the system: when sent data is not acknowledged
    (`tcp_user_timeout`), and when a silent peer does not react to keepalives.
    """
    seconds = math.ceil(_to_milliseconds(busy_seconds) / 1000)
    wanted = {
        "connect_timeout": seconds,
        "tcp_user_timeout": _to_milliseconds(busy_seconds),
        "keepalives_idle": seconds,
        "keepalives_interval": 1,
        "keepalives_count": 3,
    }
    named = conninfo.conninfo_to_dict(url)
    options = {name: value for name, value in wanted.items() if name not in named}
    # The encoding: else PGCLIENTENCODING would decide which characters can be stored.
    return {"autocommit": True, "client_encoding": "utf8", **options}


def _to_milliseconds(seconds: float) -> int:
    return math.ceil(min(seconds, _MAX_SECONDS) * 1000)


def cut(connection: Connection) -> None:
    """End a connection whose server does not answer: what waits for it gets an error at once.

    Cancelling would not do: psycopg then asks the server to cancel the statement, and waits for the answer.
    """
    with (
        suppress(OSError, psycopg.Error),  # it has ended meanwhile
        socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)


@contextmanager
def answering_within(seconds: float, connection: Connection) -> Generator[None]:
    """Cut a connection unless the block ends in time."""
    timer = asyncio.get_running_loop().call_later(seconds, cut, connection)
    try:
        yield
    finally:
        timer.cancel()


def _is_port(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) <= 65535  # noqa: PLR2004 - the largest port


async def open_pool(
    url: str, size: int, busy_seconds: float = BUSY_SECONDS, *, is_on_citus: bool = False
) -> Pool:
    """Open a pool of up to `size` connections, whose statements and locks end before `busy_seconds`."""
    milliseconds = _to_milliseconds(busy_seconds)
    limits = [str(max(1, round(milliseconds * share))) for share in (_LOCK_SHARE, _STATEMENT_SHARE)]

    async def configure(connection: Connection) -> None:
        pool.known.add(connection)
        # An ending loop cancels the worker that runs this, which then ends by itself: see `_WorkerQueue`.
        with answering_within(busy_seconds, connection), suppress(asyncio.CancelledError):
            if is_on_citus:
                await connection.execute("SET citus.propagate_set_commands = 'local'")
            await connection.execute(_SET_LIMITS, limits)

    pool = Pool(
        url,
        min_size=1,
        max_size=size,
        open=False,
        configure=configure,
        timeout=busy_seconds,
        reconnect_timeout=_RETRY_SECONDS,
        kwargs=make_options(url, busy_seconds),
        connection_class=psycopg.AsyncConnection[tuple[Any, ...]],
    )
    pool.known = weakref.WeakSet()
    await pool.open()
    return pool


async def _find_pending(connection: Connection, up_to: int | None) -> list[Migration]:
    cursor = await connection.execute("SELECT to_regclass('recollect.migrations') IS NOT NULL")
    applied: list[tuple[Any, ...]] = []
    if (await cursor.fetchall())[0][0]:
        cursor = await connection.execute(load_statements("postgres")["applied_migrations"])
        applied = await cursor.fetchall()
    todo = find_pending(load_migrations("postgres"), [(number, name) for number, name in applied])
    return [migration for migration in todo if up_to is None or migration.number <= up_to]


async def _apply_pending(connection: Connection, up_to: int | None) -> None:
    """Apply the pending migrations, with the lock held; closing the connection releases the lock."""
    statements = load_statements("postgres")
    for migration in await _find_pending(connection, up_to):
        async with connection.transaction():
            await connection.execute("CREATE SCHEMA IF NOT EXISTS recollect")
            await connection.execute(statements["create_migrations"])
            await connection.execute(migration.sql)
            record = {"number": migration.number, "name": migration.name, "applied_at": to_micros(now())}
            await connection.execute(statements["record_migration"], record)
