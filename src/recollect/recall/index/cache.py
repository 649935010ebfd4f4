"""Images of the users who were searched last, within a budget of memory.

At each use the store is asked for what is new since the last one, in one reading, so that another process's
writes are seen and an erased user is gone. One user's searches take turns; other users do not wait.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recollect.recall.index.user_index import Image

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from recollect.scope import Scope
    from recollect.storage.records import SearchChanges
    from recollect.storage.store import Store

DEFAULT_BUDGET = 256 * 1024 * 1024
"""How many bytes of images are kept at once."""

MOST_MESSAGES = 500_000
"""How many messages of one user are searched: the newest ones."""

_ENTRY_BYTES = 8 * 1024  # what an image costs beside its arrays
_QUICK_ROWS = 2_000  # more than this is taken in off the event loop


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    image: Image | None = None
    nbytes: int = 0


class ImageCache:
    """Images by user, the least recently searched one going first."""

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        """Set how many bytes of images may be kept."""
        self._budget = budget
        self._entries: OrderedDict[tuple[int, str], _Entry] = OrderedDict()
        self._nbytes = 0

    def __len__(self) -> int:
        """Count the images."""
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """About how much memory the images hold."""
        return self._nbytes

    @asynccontextmanager
    async def image_of(self, scope: Scope, store: Store, *, renew: bool = True) -> AsyncGenerator[Image]:
        """Provide the image of the scope's user as of now; nobody else changes it meanwhile.

        With `renew` off an image that is there is taken as it is.
        """
        key = (scope.tenant_key, scope.user_id)
        entry = self._entries.setdefault(key, _Entry())
        async with entry.lock:
            image = entry.image
            if renew or image is None:
                # Taken out: if the change is broken off, a thread may still be at it, so nobody may use it.
                entry.image = None
                try:
                    entry.image = image = await _fresh(image, scope, store)
                finally:
                    self._account(key, entry)
            yield image

    def _account(self, key: tuple[int, str], entry: _Entry) -> None:
        if self._entries.setdefault(key, entry) is not entry:
            return  # it was dropped while it was read, and somebody else has read it again
        if entry.image is None:
            self._drop(key)  # it could not be read
            return
        nbytes = _ENTRY_BYTES + entry.image.nbytes
        self._nbytes += nbytes - entry.nbytes
        entry.nbytes = nbytes
        self._entries.move_to_end(key)
        while self._nbytes > self._budget and self._entries:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: tuple[int, str]) -> None:
        dropped = self._entries.pop(key)
        self._nbytes -= dropped.nbytes
        dropped.nbytes = 0


async def _fresh(image: Image | None, scope: Scope, store: Store) -> Image:
    if image is not None:
        changes = await store.search_rows(
            after=image.last_number, vectors_after=image.last_stamp, scope=scope
        )
        if await _applied(image, changes):
            return image
    changes = await store.search_rows(limit=MOST_MESSAGES, scope=scope)
    image = Image(changes.epoch)
    await _applied(image, changes)
    return image


async def _applied(image: Image, changes: SearchChanges) -> bool:
    if len(changes.rows) + len(changes.vectors) > _QUICK_ROWS:
        return await asyncio.to_thread(image.apply, changes)
    return image.apply(changes)
