"""An LRU cache of search indexes, within a memory budget.

Each use reads the changes since the last use from the store, in one transaction. So it sees the writes of
other processes, and an erased user is gone. Searches of one user take turns; other users do not wait.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recollect.recall.index.user_index import UserIndex

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from recollect.scope import Scope
    from recollect.storage.records import SearchChanges
    from recollect.storage.store import Store

DEFAULT_BUDGET = 256 * 1024 * 1024
"""The default memory budget in bytes."""

MAX_MESSAGES = 500_000
"""How many messages of one user are searched at most: the newest."""

_ENTRY_BYTES = 8 * 1024  # what an index costs besides its arrays
_QUICK_ROWS = 2_000  # more rows than this are applied in a thread


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    index: UserIndex | None = None
    nbytes: int = 0


class IndexCache:
    """Indexes by user; drops the least recently searched first."""

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        self._budget = budget
        self._entries: OrderedDict[tuple[int, str], _Entry] = OrderedDict()
        self._nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """The approximate size of the indexes in bytes."""
        return self._nbytes

    @asynccontextmanager
    async def open_index(
        self, scope: Scope, store: Store, *, refresh: bool = True
    ) -> AsyncGenerator[UserIndex]:
        """Provide the current index of the scope's user; no other search uses it meanwhile.

        Without `refresh` an index in the cache is used as it is.
        """
        key = (scope.tenant_key, scope.user_id)
        entry = self._entries.setdefault(key, _Entry())
        async with entry.lock:
            index = entry.index
            if refresh or index is None:
                # Taken out: if this is cancelled, a thread may still change the index, so nobody may use it.
                entry.index = None
                try:
                    entry.index = index = await _refresh(index, scope, store)
                finally:
                    self._account_for(key, entry)
            yield index

    def _account_for(self, key: tuple[int, str], entry: _Entry) -> None:
        if self._entries.setdefault(key, entry) is not entry:
            return  # dropped while it was read, and read again by another search
        if entry.index is None:
            self._drop(key)  # reading failed
            return
        nbytes = _ENTRY_BYTES + entry.index.nbytes
        self._nbytes += nbytes - entry.nbytes
        entry.nbytes = nbytes
        self._entries.move_to_end(key)
        while self._nbytes > self._budget and self._entries:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: tuple[int, str]) -> None:
        dropped = self._entries.pop(key)
        self._nbytes -= dropped.nbytes
        dropped.nbytes = 0


async def _refresh(index: UserIndex | None, scope: Scope, store: Store) -> UserIndex:
    if index is not None:
        changes = await store.search_rows(
            after=index.last_number, vectors_after=index.last_stamp, scope=scope
        )
        if await _apply(index, changes):
            return index
    changes = await store.search_rows(limit=MAX_MESSAGES, scope=scope)
    index = UserIndex(changes.epoch)
    await _apply(index, changes)
    return index


async def _apply(index: UserIndex, changes: SearchChanges) -> bool:
    if len(changes.rows) + len(changes.vectors) > _QUICK_ROWS:
        return await asyncio.to_thread(index.apply, changes)
    return index.apply(changes)
