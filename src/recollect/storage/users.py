"""The user as the store sees one: a row that is locked for writing, with an epoch.

The epoch changes with every removal, and never takes a value again.
Late work (an embedding, an extraction) and caches compare it to learn that their source is gone.
"""

from functools import partial
from typing import cast

from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Statement, Step, Transaction, Unchanged, query
from recollect.storage.rows import user_keys


class UserEpochs(StoreCore):
    """The epochs of users."""

    async def epoch(self, *, scope: Scope) -> int:
        """Return the user's epoch; it is a higher one after every removal."""
        rows = await self._read(partial(query, "get_epoch", user_keys(scope), last=True), scope)
        return cast("int", rows[0][0])

    async def pin_epoch(self, *, scope: Scope) -> int:
        """Return the user's epoch, which from now on stays until something is removed.

        The epoch of a user of whom nothing is kept moves with every write of others; late work needs one to
        hold on to, so such a user becomes known here.
        """
        keys = user_keys(scope)
        rows = await self._read(partial(query, "find_epoch", keys, last=True), scope)
        return cast("int", rows[0][0]) if rows else await self._write(partial(_pin, keys), scope)


def _pin(keys: Params) -> Transaction[int]:
    _, rows = yield Step((Statement("lock_user", keys), Statement("find_epoch", keys)), last=True)
    return cast("int", rows[0][0])


def raise_epoch(keys: Params) -> Transaction[int]:
    """Give the user an epoch that is higher than every earlier one."""
    epoch = yield from draw_number()
    yield Step((Statement("set_epoch", {**keys, "epoch": epoch}),))
    return epoch


def remove(name: str, keys: Params) -> Transaction[int]:
    """Run a statement that deletes rows and returns them; raise the epoch if there were any."""
    _, gone = yield Step((Statement("lock_user", keys), Statement(name, keys)))
    if not gone:
        raise Unchanged(0)  # else the lock would leave a row of a user of whom nothing is kept
    yield from raise_epoch(keys)
    return len(gone)


def draw_number() -> Transaction[int]:
    """Return a number that was never used before."""
    rows = yield from query("draw_numbers", {"count": 1})
    return cast("int", rows[0][0])
