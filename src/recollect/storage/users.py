"""Users: the row that is locked for writing, user memory, user state, and erasing all of it with a proof.

A user has an epoch, which changes with every removal and never takes a value again. Background work
(embedding, extraction) and caches compare it to learn that their source is gone.
"""

import asyncio
from functools import partial
from typing import cast

from recollect.errors import EraseIncompleteError
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Results, Row, Statement, Step, Transaction, Unchanged, query
from recollect.storage.records import EraseReport, MemoryEntry, StateEntry
from recollect.storage.rows import decode_json, from_micros, to_micros, user_keys
from recollect.validation import check_id, check_int, check_json_object, check_tenant, json_text

_MOST_USERS = 1000
KINDS = ("vectors", "messages", "threads", "user_memory", "user_state", "working_memory", "events")
"""The kinds of rows a user can have; each has `count_…` and `delete_…` statements."""
_WITH_BOOKKEEPING = (*KINDS, "users")


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


class UserMemories(StoreCore):
    """The values kept about a user, over all apps and projects."""

    async def set_memory(self, key: str, value: dict[str, object], *, scope: Scope) -> int:
        """Store a value under a key, in place of what was there; return the entry's number."""
        params = memory_key(key, scope) | {
            "value": json_text(check_json_object(value, "value"), "value"),
            "updated_at": to_micros(self._clock()),
        }
        return await self._write(partial(_set_memory, params), scope)

    async def get_memory(self, key: str, *, scope: Scope) -> MemoryEntry | None:
        """Return the entry under a key, or None."""
        rows = await self._read(partial(query, "get_memory", memory_key(key, scope), last=True), scope)
        return decode_memory(rows[0]) if rows else None

    async def list_memory(self, *, scope: Scope) -> list[MemoryEntry]:
        """Return all entries of a user, by key."""
        rows = await self._read(partial(query, "list_memory", user_keys(scope), last=True), scope, heavy=True)
        return [decode_memory(row) for row in rows]

    async def delete_memory(self, key: str, *, scope: Scope) -> bool:
        """Remove the entry under a key; say if it was there."""
        return await self._write(partial(remove, "delete_memory", memory_key(key, scope)), scope) > 0

    async def clear_memory(self, *, scope: Scope) -> int:
        """Remove all entries of a user and return how many there were."""
        return await self._write(partial(remove, "delete_user_memory", user_keys(scope)), scope)


def memory_key(key: str, scope: Scope) -> dict[str, object]:
    """Return the key columns of one entry."""
    return user_keys(scope) | {"key": check_id(key, "key")}


def decode_memory(row: Row) -> MemoryEntry:
    """Make an entry from its columns."""
    key, number, value, updated_at = row
    return MemoryEntry(number, key, cast("dict[str, object]", decode_json(value)), from_micros(updated_at))


def _set_memory(params: Params) -> Transaction[int]:
    _, drawn = yield Step((Statement("lock_user", params), Statement("draw_numbers", {"count": 1})))
    rows = yield from query("set_memory", {**params, "number": drawn[0][0]}, last=True)
    return cast("int", rows[0][0])


class UserStates(StoreCore):
    """The modes of users, over all apps and projects."""

    async def set_state(self, mode: str, *, scope: Scope) -> None:
        """Put the user into a mode."""
        values = {"mode": check_id(mode, "mode"), "updated_at": to_micros(self._clock())}
        await self._write(partial(_set_state, user_keys(scope) | values), scope)

    async def get_state(self, *, scope: Scope) -> StateEntry | None:
        """Return the user's mode, or None."""
        rows = await self._read(partial(query, "get_state", user_keys(scope), last=True), scope)
        return StateEntry(rows[0][0], from_micros(rows[0][1])) if rows else None

    async def delete_state(self, *, scope: Scope) -> bool:
        """Forget the user's mode; say if there was one."""
        return await self._write(partial(remove, "delete_user_state", user_keys(scope)), scope) > 0


def _set_state(params: Params) -> Transaction[None]:
    yield Step((Statement("lock_user", params), Statement("set_state", params)), last=True)


class Erasure(StoreCore):
    """Forgetting users for good."""

    async def erase(self, *, scope: Scope) -> EraseReport:
        """Remove everything about the user, in all threads, apps and projects.

        Before it commits, a second look at every table makes sure that nothing is left; if something
        were, all is rolled back and `EraseIncompleteError` raised. The epoch in the report is higher than
        any the user had, so that late work on what is gone cannot come back.
        """
        task = asyncio.ensure_future(self._erase_for_good(scope))
        task.add_done_callback(_look_at)
        return await asyncio.shield(task)  # else a cancelled caller would leave traces in the files

    async def _erase_for_good(self, scope: Scope) -> EraseReport:
        report = await self._write(partial(_erase, user_keys(scope)), scope, heavy=True)
        if report.total:
            await self._engine.purge()
        return report


def _look_at(task: asyncio.Task[EraseReport]) -> None:
    if not task.cancelled():
        task.exception()  # so that nobody misses it when the caller was cancelled


def _erase(keys: Params) -> Transaction[EraseReport]:
    yield Step((Statement("lock_user", keys),))
    before = _counted((yield _count_all(keys)))
    epoch = yield from draw_number()
    yield Step([Statement(f"delete_{kind}", keys) for kind in _WITH_BOOKKEEPING])
    left = {kind: count for kind, count in _counted((yield _count_all(keys))).items() if count}
    if left:
        raise EraseIncompleteError(f"rows were left after erasing ({left}); nothing was removed")
    return EraseReport({kind: before[kind] for kind in KINDS}, epoch)


def _count_all(keys: Params) -> Step:
    return Step([Statement(f"count_{kind}", keys) for kind in _WITH_BOOKKEEPING])


def _counted(results: Results) -> dict[str, int]:
    return {kind: rows[0][0] for kind, rows in zip(_WITH_BOOKKEEPING, results, strict=True)}
