"""The search indexes of the users who were searched last, within a budget of memory.

At each use the store is asked for what is new since the last one, in one reading, so that another process's
writes are seen and an erased user is gone. One user's searches take turns; other users do not wait.
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
"""How many bytes of indexes are kept at once."""

MOST_MESSAGES = 500_000
"""How many messages of one user are searched: the newest ones."""

_ENTRY_BYTES = 8 * 1024  # what an index costs beside its arrays
_QUICK_ROWS = 2_000  # more than this is taken in off the event loop


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    index: UserIndex | None = None
    nbytes: int = 0


class IndexCache:
    """Indexes by user, the least recently searched one going first."""

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        """Set how many bytes of indexes may be kept."""
        self._budget = budget
        self._entries: OrderedDict[tuple[int, str], _Entry] = OrderedDict()
        self._nbytes = 0

    def __len__(self) -> int:
        """Count the indexes."""
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """About how much memory the indexes hold."""
        return self._nbytes

    @asynccontextmanager
    async def index_of(self, scope: Scope, store: Store, *, renew: bool = True) -> AsyncGenerator[UserIndex]:
        """Provide the index of the scope's user as of now; nobody else changes it meanwhile.

        With `renew` off an index that is there is taken as it is.
        """
        key = (scope.tenant_key, scope.user_id)
        entry = self._entries.setdefault(key, _Entry())
        async with entry.lock:
            index = entry.index
            if renew or index is None:
                # Taken out: if the change is cancelled, a thread may still be at it, so nobody may use it.
                entry.index = None
                try:
                    entry.index = index = await _refresh(index, scope, store)
                finally:
                    self._account(key, entry)
            yield index

    def _account(self, key: tuple[int, str], entry: _Entry) -> None:
        if self._entries.setdefault(key, entry) is not entry:
            return  # it was dropped while it was read, and somebody else has read it again
        if entry.index is None:
            self._drop(key)  # it could not be read
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
    changes = await store.search_rows(limit=MOST_MESSAGES, scope=scope)
    index = UserIndex(changes.epoch)
    await _apply(index, changes)
    return index


async def _apply(index: UserIndex, changes: SearchChanges) -> bool:
    if len(changes.rows) + len(changes.vectors) > _QUICK_ROWS:
        return await asyncio.to_thread(index.apply, changes)
    return index.apply(changes)
