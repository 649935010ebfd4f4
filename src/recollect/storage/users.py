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
from recollect.validation import check_id, check_int, check_tenant

_MOST_USERS = 1000


class UserEpochs(StoreCore):
    """The users of a tenant, and their epochs."""

    async def list_users(
        self, *, after: str | None = None, limit: int = _MOST_USERS, tenant_id: int | None
    ) -> list[str]:
        """Return the ids of the tenant's users of whom something is kept, in order, behind an id.

        It names no user, so on a database that is spread over machines it asks them all.
        """
        tenant = Scope(check_tenant(tenant_id), "-")
        params = {
            "tenant_id": tenant.tenant_key,
            "after": "" if after is None else check_id(after, "after"),
            "limit": check_int(limit, "limit", maximum=_MOST_USERS),
        }
        rows = await self._read(partial(query, "list_users", params, last=True), tenant, heavy=True)
        return [row[0] for row in rows]

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
