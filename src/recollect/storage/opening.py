"""Opening a store by its address."""

import os
from collections.abc import Awaitable, Callable, Generator
from datetime import datetime
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from recollect.errors import InvalidArgumentError, StorageUnavailableError
from recollect.messages import now
from recollect.storage.engine import Engine
from recollect.storage.store import Store
from recollect.validation import check_int, check_text

DATABASE_VARIABLE = "RECOLLECT_DATABASE_URL"
"""The environment variable that names the database where no address is given."""

_FORMS = "sqlite:///file.db, sqlite:// (in memory) or postgresql://user@host/database"
# What means something else in an address, and what is passed over there.
_IN_ADDRESSES = {ord(char): f"%{ord(char):02X}" for char in "%?#\n\r\t"}

Clock: TypeAlias = Callable[[], datetime]
"""Tells the time; it must be in a time zone."""


class Opening(Awaitable[Store]):
    """A store that is about to be opened: `await` it, or enter it with `async with`."""

    def __init__(self, url: str, *, pool_size: int, clock: Clock) -> None:
        """Remember what to open; nothing happens yet."""
        self._url = url
        self._pool_size = pool_size
        self._clock = clock
        self._store: Store | None = None

    def __await__(self) -> Generator[object, None, Store]:
        """Open the store."""
        return self._open().__await__()

    async def __aenter__(self) -> Store:
        """Open the store for the length of a block."""
        self._store = await self._open()
        return self._store

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        if self._store is not None:
            await self._store.close()

    async def _open(self) -> Store:
        engine = await _open_engine(self._url, self._pool_size)
        return Store(engine, clock=self._clock)


def open_store(url: str | None = None, *, pool_size: int = 10, clock: Clock = now) -> Opening:
    """Open the store at an address, and create or update its tables.

    Use it as `store = await open_store(url)` or `async with open_store(url) as store`. Addresses are
    `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://` (private, in memory) and
    `postgresql://…`; without one the environment variable RECOLLECT_DATABASE_URL is read.
    `pool_size` is the most connections that PostgreSQL is given.
    """
    found = url if url is not None else os.environ.get(DATABASE_VARIABLE)
    if not found:
        raise InvalidArgumentError("url", f"give an address ({_FORMS}) or set {DATABASE_VARIABLE}")
    check_text(found, "url")
    return Opening(found, pool_size=check_int(pool_size, "pool_size", minimum=1, maximum=1000), clock=clock)


async def _open_engine(url: str, pool_size: int) -> Engine:
    scheme = url.partition("://")[0].lower()
    if scheme == "sqlite":
        from recollect.storage.sqlite.engine import SqliteEngine

        return await SqliteEngine.open(sqlite_path(url))
    if scheme in ("postgresql", "postgres"):
        return await _open_postgres(url, pool_size)
    raise InvalidArgumentError("url", f"must look like {_FORMS}")


async def _open_postgres(url: str, pool_size: int) -> Engine:
    try:
        from recollect.storage.postgres.engine import PostgresEngine
    except ImportError as error:
        raise StorageUnavailableError(
            "PostgreSQL needs the extra of that name: pip install 'recollect[postgres]'"
        ) from error
    return await PostgresEngine.open(url, pool_size)


def sqlite_path(url: str) -> str:
    """Return the file that a SQLite address names, `:memory:` for none."""
    try:
        parts = urlsplit(url)
    except ValueError:  # its message would quote the address
        raise InvalidArgumentError("url", f"must look like {_FORMS}") from None
    if parts.netloc:
        raise InvalidArgumentError("url", "a file needs three slashes: sqlite:///file.db")
    if parts.query or parts.fragment:
        raise InvalidArgumentError(
            "url", "a SQLite address takes no '?' or '#'; write %3F or %23 in a file name"
        )
    path = unquote(parts.path.removeprefix("/"))
    check_text(path, "url")
    return path or ":memory:"


def sqlite_url(path: Path) -> str:
    """Return the address of a file, whatever it and its folders are called."""
    return f"sqlite:///{str(path.absolute()).translate(_IN_ADDRESSES)}"
