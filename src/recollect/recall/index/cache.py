"""An LRU cache of search indexes, within a memory budget.

Each use reads the changes since the last use from the store. So it sees the writes of other processes, and an
erased user is gone. Searches of one user take turns; other users do not wait.

A page of messages is read at a time, so that reading a large user takes little more memory than the index.
The pages belong together if the user's epoch stays the same: a removal in between begins again.
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
from recollect.storage.search_rows import QUICK_PAGE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from recollect.scope import Scope
    from recollect.storage.records import SearchChanges
    from recollect.storage.store import Store

DEFAULT_BUDGET = 256 * 1024 * 1024
"""The default memory budget in bytes."""

_ENTRY_BYTES = 8 * 1024  # what an index costs besides its arrays
_QUICK_ROWS = 2_000  # more rows than this are applied in a thread
_QUICK_TERMS = 100_000  # so are more terms of them all
_PAGE = 5_000  # messages that are read at a time
_FEW = 500  # vectors of so many messages are looked up one by one
_TRIES = (_PAGE, _PAGE, _PAGE, None)  # where removals never end, all is read at once


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    index: UserIndex | None = None
    nbytes: int = 0


class _Vectors(TypedDict, total=False):
    vectors_from: int | None
    vectors_of: list[int]


class IndexCache:
    """Indexes by user; drops the least recently searched first.

    An index larger than the whole budget is kept beside the others, until another such index takes its place:
    reading it for each search would take seconds. So the size is at most the budget and the largest index.
    """

    def __init__(self, budget: int = DEFAULT_BUDGET, *, with_vectors: bool = True) -> None:
        self._budget = budget
        self._with_vectors = with_vectors
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._nbytes = 0
        self._large: tuple[str, str] | None = None  # the one that is larger than the budget

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
            index = None if refresh else entry.index
            if index is None:
                try:
                    entry.index = index = await self._refresh(entry, scope, store)
                finally:
                    self._account_for(key, entry)
            yield index

    async def _refresh(self, entry: _Entry, scope: Scope, store: Store) -> UserIndex:
        """Add to the index what is new, or read another one if something was deleted or has expired.

        The words of an expired message must not move the ranking of its neighbours either.
        """
        # Taken out: if this is cancelled, a thread may still change the index, so nobody may use it.
        index, entry.index = entry.index, None
        if index is not None and not index.count_expired(to_micros(store.clock())):
            index = await self._read_changes(index, scope, store)
        else:
            index = None  # gone before another one is read: both may be large
        tries = iter(_TRIES)
        while index is None:
            index = await self._read_pages(None, 0, next(tries), scope, store)
        return index

    async def _read_changes(self, index: UserIndex, scope: Scope, store: Store) -> UserIndex | None:
        """Read what is new to an index: rarely more than a small page."""
        changes = await store.search_rows(
            after=index.last_number, limit=QUICK_PAGE, **self._choose_vectors(index), scope=scope
        )
        if not await _apply(index, changes):
            return None
        return await self._read_pages(index, changes.up_to, _PAGE, scope, store)

    async def _read_pages(
        self, index: UserIndex | None, after: int | None, limit: int | None, scope: Scope, store: Store
    ) -> UserIndex | None:
        """Read all pages after a number, and return the index, or None if it must be read anew."""
        while after is not None:
            first = after + 1 if self._with_vectors else None
            changes = await store.search_rows(after=after, limit=limit, vectors_from=first, scope=scope)
            index = UserIndex(changes.epoch) if index is None else index
            if not await _apply(index, changes):
                return None
            after = changes.up_to if index.can_grow else None
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
        if nbytes > self._budget and self._large != key:
            if self._large is not None:
                self._drop(self._large)
            self._large = key
        elif nbytes <= self._budget and self._large == key:
            self._large = None
        self._make_room()

    def _make_room(self) -> None:
        beside = 0 if self._large is None else self._entries[self._large].nbytes
        while self._nbytes - beside > self._budget:
            self._drop(next(key for key in self._entries if key != self._large))

    def _drop(self, key: tuple[str, str]) -> None:
        dropped = self._entries.pop(key)
        self._nbytes -= dropped.nbytes
        dropped.nbytes = 0
        if key == self._large:
            self._large = None


async def _apply(index: UserIndex, changes: SearchChanges) -> bool:
    characters = sum(len(row.text) for row in changes.rows if row.text is not None)
    terms = sum(len(row.term_counts or b"") for row in changes.rows)
    if len(changes.rows) + len(changes.vectors) > _QUICK_ROWS or terms > _QUICK_TERMS:
        return await asyncio.to_thread(index.apply, changes)
    return await run_by_size(characters, partial(index.apply, changes))
