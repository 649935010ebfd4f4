"""An LRU cache of search indexes, within a memory budget.

Each use reads the changes since the last use from the store, in one transaction. So it sees the writes of
other processes, and an erased user is gone. Searches of one user take turns; other users do not wait.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypedDict

from recollect.concurrency.threads import run_by_size
from recollect.recall.index.user_index import UserIndex
from recollect.storage.rows import to_micros

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
_QUICK_TERMS = 100_000  # so are more terms of them all
_FEW = 500  # vectors of so many messages are looked up one by one


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    index: UserIndex | None = None
    nbytes: int = 0


class _Vectors(TypedDict, total=False):
    vectors_from: int | None
    vectors_of: list[int]


class IndexCache:
    """Indexes by user; drops the least recently searched first."""

    def __init__(self, budget: int = DEFAULT_BUDGET, *, with_vectors: bool = True) -> None:
        self._budget = budget
        self._with_vectors = with_vectors
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
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
                    entry.index = index = await self._refresh(index, scope, store)
                finally:
                    self._account_for(key, entry)
            yield index

    async def _refresh(self, index: UserIndex | None, scope: Scope, store: Store) -> UserIndex:
        """Return the index with what is new, or another one if something was deleted or has expired.

        The words of an expired message must not move the ranking of its neighbours either.
        """
        if index is not None and not index.count_expired(to_micros(store.clock())):
            changes = await store.search_rows(
                after=index.last_number, **self._choose_vectors(index), scope=scope
            )
            if await _apply(index, changes):
                return index
        first = 0 if self._with_vectors else None
        changes = await store.search_rows(vectors_from=first, limit=MAX_MESSAGES, scope=scope)
        index = UserIndex(changes.epoch)
        await _apply(index, changes)
        return index

    def _choose_vectors(self, index: UserIndex) -> _Vectors:
        """Return which vectors to read: those of new messages, and of messages that have none yet."""
        if not self._with_vectors:
            return {"vectors_from": None}
        missing = index.numbers_without_vector
        if len(missing) > _FEW:
            return {"vectors_from": int(missing[0])}
        return {"vectors_from": index.last_number + 1, "vectors_of": missing.tolist()}

    def _account_for(self, key: tuple[str, str], entry: _Entry) -> None:
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

    def _drop(self, key: tuple[str, str]) -> None:
        dropped = self._entries.pop(key)
        self._nbytes -= dropped.nbytes
        dropped.nbytes = 0


async def _apply(index: UserIndex, changes: SearchChanges) -> bool:
    characters = sum(len(row.text) for row in changes.rows if row.text is not None)
    terms = sum(len(row.term_counts or b"") for row in changes.rows)
    if len(changes.rows) + len(changes.vectors) > _QUICK_ROWS or terms > _QUICK_TERMS:
        return await asyncio.to_thread(index.apply, changes)
    return await run_by_size(characters, partial(index.apply, changes))
