"""A store that is opened when it is first needed, once for each event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from weakref import WeakKeyDictionary

from recollect.errors import StorageError, StoreMisuseError
from recollect.storage.base import Store
from recollect.storage.open import open_store

_Loop = asyncio.AbstractEventLoop

Prepare: TypeAlias = Callable[[Store], Awaitable[None]]
"""What is done with a store right after it was opened."""


class StoreHandle:
    """Where a memory keeps its data: a store that somebody else opened, or an address."""

    def __init__(self, store_or_url: Store | str | None = None, *, prepare: Prepare | None = None) -> None:
        """Remember what to open, and what to do with it first; without an address it is a private store."""
        self._prepare = prepare
        self._source = (
            store_or_url if isinstance(store_or_url, Store) else open_store(store_or_url or "sqlite://")
        )
        self._in_memory = store_or_url in (None, "sqlite://", "sqlite:///:memory:")
        self._opened: WeakKeyDictionary[_Loop, asyncio.Task[Store]] = WeakKeyDictionary()

    async def get(self) -> Store:
        """Return the store for the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._opened:
            self._check_new_loop()
            self._opened[loop] = loop.create_task(self._open())
        # Shielded: a caller that is cancelled must not cancel the opening for the others.
        try:
            return await asyncio.shield(self._opened[loop])
        except StorageError:
            self._opened.pop(loop, None)  # the next caller tries again
            raise

    async def close(self) -> None:
        """Close what was opened in the running event loop; a store that was given stays open."""
        task = self._opened.pop(asyncio.get_running_loop(), None)
        if task is not None and not isinstance(self._source, Store):
            await (await task).close()

    async def _open(self) -> Store:
        store = self._source if isinstance(self._source, Store) else await self._source
        if self._prepare is not None:
            await self._prepare(store)
        return store

    def _check_new_loop(self) -> None:
        if self._in_memory and self._opened:
            raise StoreMisuseError(
                "this memory keeps its data in memory and belongs to another event loop; "
                "give it a file or a server, or keep to one loop"
            )
