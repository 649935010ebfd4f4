"""Opening a store by its URL; and `StoreHandle`, which opens one lazily for each event loop."""

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import AsyncGeneratorType
from typing import TypeAlias, cast
from urllib.parse import unquote, urlsplit

from recollect.concurrency.fork import PerProcess
from recollect.concurrency.tasks import retrieve_exception
from recollect.concurrency.threads import call_in_loop
from recollect.errors import InvalidArgumentError, WrongOwnerError, requires_extra
from recollect.messages import now
from recollect.storage.engine import StorageEngine
from recollect.storage.store import Store
from recollect.validation import check_int, check_text

DATABASE_VARIABLE = "RECOLLECT_DATABASE_URL"
"""The environment variable that holds the database URL where none is given."""

_FORMS = "sqlite:///file.db, sqlite:// (in memory) or postgresql://user@host/database"
# Characters of a path that mean something else in a URL, or that `urlsplit` drops.
_URL_ESCAPES = {ord(char): f"%{ord(char):02X}" for char in "%?#\n\r\t"}

Clock: TypeAlias = Callable[[], datetime]
"""Returns the time, with a time zone."""


class Opening(Awaitable[Store]):
    """What `open_store` returns: `await` it, or enter it with `async with`."""

    def __init__(self, url: str, *, pool_size: int, clock: Clock) -> None:
        self._url = url
        self._pool_size = pool_size
        self._clock = clock
        self._store: Store | None = None

    def __await__(self) -> Generator[object, None, Store]:
        return self._open().__await__()

    async def __aenter__(self) -> Store:
        self._store = await self._open()
        return self._store

    async def __aexit__(self, *_: object) -> None:
        if self._store is not None:
            await self._store.close()

    async def _open(self) -> Store:
        engine = await _open_engine(self._url, self._pool_size)
        return Store(engine, clock=self._clock)


def open_store(url: str | None = None, *, pool_size: int = 10, clock: Clock = now) -> Opening:
    """Open the store at a database URL, and create or update its tables.

    Use it as `store = await open_store(url)` or `async with open_store(url) as store`. URLs are
    `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://` (private, in memory) and
    `postgresql://…`; the default is the environment variable RECOLLECT_DATABASE_URL.
    `pool_size` is the maximum number of connections to PostgreSQL.
    """
    found = url if url is not None else os.environ.get(DATABASE_VARIABLE)
    if not found:
        raise InvalidArgumentError("url", f"give a database URL ({_FORMS}) or set {DATABASE_VARIABLE}")
    check_text(found, "url")
    return Opening(found, pool_size=check_int(pool_size, "pool_size", minimum=1, maximum=1000), clock=clock)


async def _open_engine(url: str, pool_size: int) -> StorageEngine:
    scheme = url.partition("://")[0].lower()
    if scheme == "sqlite":
        from recollect.storage.sqlite.engine import SqliteEngine

        return await SqliteEngine.open(sqlite_path(url))
    if scheme in ("postgresql", "postgres"):
        return await _open_postgres(url, pool_size)
    raise InvalidArgumentError("url", f"must look like {_FORMS}")


async def _open_postgres(url: str, pool_size: int) -> StorageEngine:
    with requires_extra("postgres"):
        from recollect.storage.postgres.engine import PostgresEngine
    return await PostgresEngine.open(url, pool_size)


def sqlite_path(url: str) -> str:
    """Return the path in a SQLite URL, or `:memory:` if it has none."""
    try:
        parts = urlsplit(url)
    except ValueError:  # its message would quote the URL
        raise InvalidArgumentError("url", f"must look like {_FORMS}") from None
    if parts.netloc:
        raise InvalidArgumentError("url", "a file needs three slashes: sqlite:///file.db")
    if parts.query or parts.fragment:
        raise InvalidArgumentError("url", "a SQLite URL takes no '?' or '#'; write %3F or %23 in a file name")
    path = unquote(parts.path.removeprefix("/"))
    check_text(path, "url")
    return path or ":memory:"


def sqlite_url(path: Path) -> str:
    """Return the URL of a file; special characters in its path are escaped."""
    return f"sqlite:///{str(path.absolute()).translate(_URL_ESCAPES)}"


_Loop: TypeAlias = asyncio.AbstractEventLoop

Prepare: TypeAlias = Callable[[Store], Awaitable[None]]
"""Called with each store right after it was opened."""


@dataclass(slots=True)
class _Opened:
    """A store of one event loop, and the generator that closes it, if we opened it."""

    store: Store
    closing: AsyncGeneratorType[None, None] | None


class StoreHandle:
    """The database of a `Memory`: a store that the caller has opened, or a URL."""

    def __init__(self, store_or_url: Store | str | None = None, *, prepare: Prepare | None = None) -> None:
        self._prepare = prepare
        self._source = _check_source(store_or_url)
        self._in_memory = store_or_url in (None, "sqlite://", "sqlite:///:memory:")
        self._opened: dict[_Loop, _Opened] = {}
        self._opening: dict[_Loop, asyncio.Task[_Opened]] = {}
        self._lock = PerProcess(threading.Lock)  # several threads may each have a loop
        # The finalizer refers to the open stores, so that they outlive the handle. A loop that ends just when
        # the handle becomes garbage would not see their generators, and leave the stores open.
        weakref.finalize(self, _close_abandoned, self._opened).atexit = False

    async def get(self) -> Store:
        """Return the store for the running event loop."""
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is not None:
            return opened.store
        with self._lock.value:
            self._check_new_loop(loop)
            self._forget_closed_loops()
            if loop not in self._opening:
                self._opening[loop] = loop.create_task(self._open(loop))
                self._opening[loop].add_done_callback(retrieve_exception)
        # Shielded: a cancelled caller must not cancel the opening for the others.
        return (await asyncio.shield(self._opening[loop])).store

    async def close(self) -> None:
        """Close the store of the running event loop; a store that the caller has opened stays open."""
        loop = asyncio.get_running_loop()
        if loop in self._opening:
            await asyncio.wait([self._opening[loop]])
        opened = self._opened.pop(loop, None)
        if opened is not None:
            await _close(opened)

    async def _open(self, loop: _Loop) -> _Opened:
        try:
            opened = await _open_source(self._source)
            try:
                if self._prepare is not None:
                    await self._prepare(opened.store)
            except BaseException:
                await _close(opened)
                raise
            self._opened[loop] = opened
            return opened
        finally:
            self._opening.pop(loop, None)  # after a failure the next caller tries again

    def _check_new_loop(self, loop: _Loop) -> None:
        if self._in_memory and (self._opened.keys() | self._opening.keys()) - {loop}:
            raise WrongOwnerError(
                "this memory keeps its data in memory and belongs to another event loop; "
                "give it the URL of a file or a server, or use one loop only"
            )

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._opened if loop.is_closed()]:
            del self._opened[loop]


def _check_source(store_or_url: object) -> Store | Opening:
    if isinstance(store_or_url, Store):
        return store_or_url
    if store_or_url is not None and not isinstance(store_or_url, str):
        raise InvalidArgumentError(
            "store_or_url", f"must be a store or a URL, not {type(store_or_url).__name__}"
        )
    if store_or_url == "":
        raise InvalidArgumentError(
            "store_or_url", "must not be empty; leave it out for a private store in memory"
        )
    return open_store(store_or_url or "sqlite://")


async def _open_source(source: Store | Opening) -> _Opened:
    if isinstance(source, Store):
        return _Opened(source, None)
    store = await source
    closing = cast("AsyncGeneratorType[None, None]", _close_with_loop(store))
    await anext(closing)
    return _Opened(store, closing)


async def _close(opened: _Opened) -> None:
    if opened.closing is not None:
        await opened.closing.aclose()


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
