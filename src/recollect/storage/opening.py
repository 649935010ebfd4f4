"""Opening a store by its URL; and `StoreHandle`, which opens one lazily for each event loop."""

import asyncio
import os
import re
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from types import AsyncGeneratorType
from typing import TypeAlias, cast
from urllib.parse import unquote, urlsplit

from recollect.concurrency.fork import PerProcess
from recollect.concurrency.tasks import retrieve_exception
from recollect.concurrency.threads import call_in_loop
from recollect.errors import InvalidArgumentError, StorageUnavailableError, WrongOwnerError, requires_extra
from recollect.messages import now
from recollect.storage.breaker import Breaker
from recollect.storage.engine import BUSY_SECONDS, StorageEngine
from recollect.storage.store import Store
from recollect.validation import check_int, check_seconds, check_text

DATABASE_VARIABLE = "RECOLLECT_DATABASE_URL"
"""The environment variable that holds the database URL where none is given."""

MAX_VACUUM_BYTES = 256 * 1024 * 1024
"""The largest SQLite file that an erasure vacuums, unless the caller says otherwise."""

_FORMS = "file.db, sqlite:///file.db, sqlite:// (in memory) or postgresql://user@host/database"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # a single letter is a drive of Windows
_MEMORY = ":memory:"
# Characters of a path that mean something else in a URL, or that `urlsplit` drops.
_URL_ESCAPES = {ord(char): f"%{ord(char):02X}" for char in "%?#\n\r\t"}

StoreLocation: TypeAlias = Store | str | os.PathLike[str]
"""Where data is kept: a store that somebody opened, the URL of a database, or the path of a SQLite file."""

Clock: TypeAlias = Callable[[], datetime]
"""Returns the time, with a time zone."""


class Opening(Awaitable[Store]):
    """What `open_store` returns: `await` it, or enter it with `async with`."""

    def __init__(
        self, url: str, *, pool_size: int, busy_seconds: float, max_vacuum_bytes: int, clock: Clock
    ) -> None:
        self._url = url
        self._pool_size = pool_size
        self._busy_seconds = busy_seconds
        self._max_vacuum_bytes = max_vacuum_bytes
        self._clock = clock
        self._store: Store | None = None

    @property
    def url(self) -> str:
        """The URL of the database."""
        return self._url

    @property
    def is_in_memory(self) -> bool:
        """Whether the data will go with the process: no other can open it."""
        return self._url.partition("://")[0].lower() == "sqlite" and sqlite_path(self._url) == _MEMORY

    def __await__(self) -> Generator[object, None, Store]:
        return self._open().__await__()

    async def __aenter__(self) -> Store:
        self._store = await self._open()
        return self._store

    async def __aexit__(self, *_: object) -> None:
        if self._store is not None:
            await self._store.close()

    async def _open(self) -> Store:
        return Store(await self._open_engine(), clock=self._clock)

    async def _open_engine(self) -> StorageEngine:
        if _get_scheme(self._url) == "sqlite":
            from recollect.storage.sqlite.engine import SqliteEngine

            return await SqliteEngine.open(sqlite_path(self._url), self._busy_seconds, self._max_vacuum_bytes)
        with requires_extra("postgres"):
            from recollect.storage.postgres.engine import PostgresEngine
        return await PostgresEngine.open(self._url, self._pool_size, self._busy_seconds)


def open_store(
    store: str | os.PathLike[str] | None = None,
    *,
    pool_size: int = 10,
    busy_seconds: float | None = None,
    max_vacuum_bytes: int = MAX_VACUUM_BYTES,
    clock: Clock = now,
) -> Opening:
    """Open the store at a URL or a path, and create or update its tables.

    Use it as `store = await open_store(url)` or `async with open_store(url) as store`. URLs are
    `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://` (private, in memory) and
    `postgresql://…`; the default is the environment variable RECOLLECT_DATABASE_URL.
    `pool_size` is the maximum number of connections to PostgreSQL. `busy_seconds` (default 5) is how long a
    call waits: a write on SQLite for other processes, any call on PostgreSQL for a connection, an answer and
    locks. Then it raises `StorageBusyError` or, where the server does not answer, `StorageUnavailableError`.
    Long work (export, import, erase, prune, reindex, migrations) is not cut once it has begun.
    After an erasure a SQLite file of up to `max_vacuum_bytes` is vacuumed; larger ones wait for `purge`.
    """
    size = check_int(pool_size, "pool_size", minimum=1, maximum=1000)
    seconds = BUSY_SECONDS if busy_seconds is None else check_seconds(busy_seconds, "busy_seconds")
    largest = check_int(max_vacuum_bytes, "max_vacuum_bytes")
    url = database_url(store)
    return Opening(url, pool_size=size, busy_seconds=seconds, max_vacuum_bytes=largest, clock=clock)


def database_url(store: str | os.PathLike[str] | None) -> str:
    """Return the URL of a database that a URL names, the path of a SQLite file, or the environment."""
    found = store if store is not None else os.environ.get(DATABASE_VARIABLE)
    if not found:
        raise InvalidArgumentError("store", f"give a path or a URL ({_FORMS}), or set {DATABASE_VARIABLE}")
    if isinstance(found, os.PathLike):
        return sqlite_url(Path(found))
    check_text(found, "store")
    if found == _MEMORY:
        return "sqlite://"
    if "://" not in found and _SCHEME.match(found):
        raise InvalidArgumentError("store", f"must look like {_FORMS}")
    return found if "://" in found else sqlite_url(Path(found))


async def convert_store(store: str | os.PathLike[str] | None = None) -> bool:
    """Convert a database of an earlier layout to the present one, once; return whether it had one.

    It is one transaction: a conversion that fails leaves the database as it was.
    """
    url = database_url(store)
    scheme = _get_scheme(url)
    if scheme == "sqlite":
        from recollect.storage.sqlite.conversion import convert as convert_file

        return await asyncio.to_thread(convert_file, sqlite_path(url))
    with requires_extra("postgres"):
        from recollect.storage.postgres.conversion import convert as convert_server
    return await convert_server(url)


def _get_scheme(url: str) -> str:
    """Return `sqlite` or `postgresql`."""
    scheme = url.partition("://")[0].lower()
    if scheme in ("sqlite", "postgresql", "postgres"):
        return "sqlite" if scheme == "sqlite" else "postgresql"
    raise InvalidArgumentError("store", f"must look like {_FORMS}")


def sqlite_path(url: str) -> str:
    """Return the path in a SQLite URL, or `:memory:` if it has none."""
    try:
        parts = urlsplit(url)
    except ValueError:  # its message would quote the URL
        raise InvalidArgumentError("store", f"must look like {_FORMS}") from None
    if parts.netloc:
        raise InvalidArgumentError("store", "a file needs three slashes: sqlite:///file.db")
    if parts.query or parts.fragment:
        raise InvalidArgumentError(
            "store", "a SQLite URL takes no '?' or '#'; write %3F or %23 in a file name"
        )
    path = unquote(parts.path.removeprefix("/"))
    check_text(path, "store")
    return path or _MEMORY


def sqlite_url(path: Path) -> str:
    """Return the URL of a file; special characters in its path are escaped."""
    return f"sqlite:///{str(path.absolute()).translate(_URL_ESCAPES)}"


_Loop: TypeAlias = asyncio.AbstractEventLoop

Prepare: TypeAlias = Callable[[Store], Awaitable[None]]
"""Called with each store right after it was opened."""


@dataclass(slots=True)
class _Opened:
    """A store of one event loop, whether we opened it, and the generator that closes it with the loop."""

    store: Store
    is_ours: bool
    closing: AsyncGeneratorType[None, None] | None

    @property
    def was_shut_down(self) -> bool:
        """Whether the loop has closed its generators, and goes on nevertheless."""
        return self.closing is not None and self.closing.ag_frame is None


class StoreHandle:
    """The database of a `Memory`: a store that the caller has opened, a URL or a path."""

    def __init__(self, store: StoreLocation | None = None, *, prepare: Prepare | None = None) -> None:
        """Remember what to open, and what to do with it first; without a place it is a private store."""
        self._prepare = prepare
        self._source = _check_source(store)
        self._opened: dict[_Loop, _Opened] = {}
        self._opening: dict[_Loop, asyncio.Task[_Opened]] = {}
        self._breakers: dict[_Loop, Breaker] = {}  # while a server is away, only the first call waits for it
        self._lock = PerProcess(threading.Lock)  # several threads may each have a loop
        # The finalizer refers to the open stores, so that they outlive the handle. A loop that ends just when
        # the handle becomes garbage would not see their generators, and leave the stores open.
        weakref.finalize(self, _close_abandoned, self._opened).atexit = False

    @property
    def is_in_memory(self) -> bool:
        """Whether the data goes with the process: no other can open it."""
        return self._source.is_in_memory

    @property
    def database(self) -> Hashable:
        """A value that handles of one database have in common, if they were given the same URL or store."""
        source = self._source
        return source if isinstance(source, Store) or source.is_in_memory else source.url

    async def get(self) -> Store:
        """Return the store for the running event loop."""
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is not None and not opened.was_shut_down:
            return opened.store
        with self._lock.value:
            self._check_new_loop(loop)
            self._forget_closed_loops()
            breaker = self._breakers.setdefault(loop, Breaker(partial(self._open_once, loop)))
        await breaker.check()
        return (await self._open_once(loop)).store

    async def _open_once(self, loop: _Loop) -> _Opened:
        with self._lock.value:
            opened = self._opened.get(loop)
            if opened is not None and not opened.was_shut_down:
                return opened
            if loop not in self._opening:
                self._opening[loop] = loop.create_task(self._open(loop))
                self._opening[loop].add_done_callback(retrieve_exception)
        # Shielded: a cancelled caller must not cancel the opening for the others.
        return await asyncio.shield(self._opening[loop])

    async def close(self) -> None:
        """Close the store of the running event loop; a store that the caller has opened stays open."""
        loop = asyncio.get_running_loop()
        if loop in self._opening:
            await asyncio.wait([self._opening[loop]])
        opened = self._opened.pop(loop, None)
        if opened is not None:
            await _close(opened)

    async def _open(self, loop: _Loop) -> _Opened:
        started = loop.time()
        try:
            opened = await _open_source(self._source)
            try:
                if self._prepare is not None:
                    await self._prepare(opened.store)
            except BaseException:
                await _close(opened)
                raise
        except StorageUnavailableError as error:
            self._breakers[loop].open(error, loop.time() - started)
            raise
        else:
            self._opened[loop] = opened
            return opened
        finally:
            self._opening.pop(loop, None)  # after a failure the next caller tries again

    def _check_new_loop(self, loop: _Loop) -> None:
        is_private = isinstance(self._source, Opening) and self.is_in_memory
        if is_private and (self._opened.keys() | self._opening.keys()) - {loop}:
            raise WrongOwnerError(
                "this memory keeps its data in memory and belongs to another event loop; "
                "give it the URL of a file or a server, or use one loop only"
            )

    def _forget_closed_loops(self) -> None:
        for known in (self._opened, self._breakers):
            for loop in [loop for loop in known if loop.is_closed()]:
                del known[loop]


def _check_source(store: object) -> Store | Opening:
    if isinstance(store, Store):
        return store
    if store is not None and not isinstance(store, str | os.PathLike):
        raise InvalidArgumentError("store", f"must be a store, a URL or a path, not {type(store).__name__}")
    if store == "":
        raise InvalidArgumentError("store", "must not be empty; leave it out for a private store in memory")
    return open_store("sqlite://" if store is None else cast("str | os.PathLike[str]", store))


async def _open_source(source: Store | Opening) -> _Opened:
    if isinstance(source, Store):
        return _Opened(source, is_ours=False, closing=None)
    store = await source
    # What is in memory would be lost if the loop closed its generators and went on; it needs no closing. A
    # loop that has closed them takes no further ones.
    if source.is_in_memory or getattr(asyncio.get_running_loop(), "_asyncgens_shutdown_called", False):
        return _Opened(store, is_ours=True, closing=None)
    closing = cast("AsyncGeneratorType[None, None]", _close_with_loop(store))
    await anext(closing)
    return _Opened(store, is_ours=True, closing=closing)


async def _close(opened: _Opened) -> None:
    if opened.closing is not None:
        await opened.closing.aclose()
    elif opened.is_ours:
        await opened.store.close()


async def _close_with_loop(store: Store) -> AsyncGenerator[None]:
    """Close a store when its event loop ends.

    An ending loop closes its async generators last, while it still runs; it has no other hook for this.
    """
    try:
        yield
    finally:
        await store.close()


def _close_abandoned(opened: dict[_Loop, _Opened]) -> None:
    """Have each loop close its store after the handle was garbage-collected."""
    for loop, one in opened.items():
        call_in_loop(loop, _start_closing, loop, one)


def _start_closing(loop: _Loop, opened: _Opened) -> None:
    closing = opened.closing
    # The ending loop may have closed it already, or be closing it now.
    if closing is not None and closing.ag_frame is not None and not closing.ag_running:
        _keep_until_closed(closing, loop)
        task = loop.create_task(_close_in_task(opened.store, closing))
        _closing_tasks.add(task)
        task.add_done_callback(_closing_tasks.discard)


def _keep_until_closed(closing: AsyncGeneratorType[None, None], loop: _Loop) -> None:
    """Refer to a generator until it is closed.

    An ending loop cancels the task that closes the generator, maybe before it started, and then closes the
    generators that still exist. Garbage-collected at that moment, it would need a task that never runs.
    """
    for kept, its_loop in [*_kept.items()]:  # a copy: loops of other threads may add some
        if kept.ag_frame is None or its_loop.is_closed():
            _kept.pop(kept, None)
    _kept[closing] = loop


async def _close_in_task(store: Store, closing: AsyncGeneratorType[None, None]) -> None:
    """Close a store and its generator, unless the ending loop closes the generator meanwhile."""
    await store.close()
    if not closing.ag_running:
        await closing.aclose()  # does not wait: the store is closed


_closing_tasks: set[asyncio.Task[None]] = set()  # a loop has only weak references to its tasks
_kept: dict[AsyncGeneratorType[None, None], _Loop] = {}
