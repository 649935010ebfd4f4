"""Users: their epochs, memory and state, and the verified erasure of all their data.

A user has two epochs, which never have the same value twice. The epoch changes with every deletion: caches
and extraction compare it to notice that their source may be gone. The erase epoch changes only when the user
is erased: work that goes on meanwhile (embedding) compares it, so that nothing erased comes back.
Every write locks the user's row.
"""

from dataclasses import replace
from functools import partial
from typing import cast

from recollect.errors import EraseIncompleteError, UserErasedError
from recollect.scope import Scope, TenantId
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Results, Row, Statement, Step, Transaction, Unchanged, query
from recollect.storage.records import EraseReport, MemoryEntry, Purge, StateEntry, UserSummary
from recollect.storage.rows import decode_each, decode_object, decoding, from_micros, to_micros, user_keys
from recollect.validation import check_id, check_int, check_json_object, check_tenant, encode_json

_MAX_USERS = 1000
KINDS = ("search_rows", "messages", "threads", "user_memory", "user_state", "working_memory", "events")
"""The kinds of rows that a user can have; each has statements `count_…` and `delete_…`."""
_ALL_KINDS = (*KINDS, "users")


class UserEpochs(StoreCore):
    """The users of a tenant, and their epochs."""

    async def list_users(
        self, *, after: str | None = None, limit: int = _MAX_USERS, tenant_id: TenantId
    ) -> list[UserSummary]:
        """Return the tenant's users, sorted by id, those after an id; one without data until erased.

        It names no user, so on a sharded database it asks all shards.
        """
        tenant = Scope(check_tenant(tenant_id), "-")
        params = {
            "tenant_id": tenant.tenant_key,
            "after": "" if after is None else check_id(after, "after"),
            "limit": check_int(limit, "limit", maximum=_MAX_USERS),
            "now": self._now(),
        }
        rows = await self._query("list_users", params, heavy=True)
        return [
            UserSummary(user_id, threads, messages, size, None if last is None else from_micros(last))
            for user_id, threads, messages, size, last in rows
        ]

    async def epoch(self, *, scope: Scope) -> int:
        """Return the user's epoch, which every deletion raises."""
        return await self._read(partial(_read_epoch, user_keys(scope)), scope)

    async def erase_epoch(self, *, scope: Scope) -> int | None:
        """Return the user's erase epoch, or None for a user of whom nothing is stored."""
        rows = await self._query("find_epochs", user_keys(scope))
        return read_erase_epoch(rows)

    async def pin_epoch(self, *, erase_epoch: int | None = None, scope: Scope) -> int:
        """Return the user's epoch, which from now on stays the same until something is deleted.

        The epoch of a user without data changes with every write of other users. Background work needs one to
        compare with, so this creates the user's row. If `erase_epoch` is given and is not the user's, the
        user was erased meanwhile: then it raises `UserErasedError` and creates nothing.
        """
        if erase_epoch is not None:
            check_int(erase_epoch, "erase_epoch")
        return (await self._pin(scope, erase_epoch))[0]

    async def pin_erase_epoch(self, *, scope: Scope) -> int:
        """Return the user's erase epoch, which stays the same until the user is erased."""
        return (await self._pin(scope))[1]

    async def _pin(self, scope: Scope, erase_epoch: int | None = None) -> Row:
        keys = user_keys(scope)
        rows = await self._query("find_epochs", keys)
        check_not_erased(rows, erase_epoch)
        return rows[0] if rows else await self._write(partial(_pin_epochs, keys), scope)


def read_erase_epoch(epochs: list[Row]) -> int | None:
    """Return the erase epoch from the rows of `find_epochs`; None for a user of whom nothing is stored."""
    return cast("int", epochs[0][1]) if epochs else None


def check_not_erased(epochs: list[Row], erase_epoch: int | None) -> None:
    """Raise if the user was erased since `erase_epoch` was read; None compares nothing."""
    if erase_epoch is not None and read_erase_epoch(epochs) != erase_epoch:
        raise UserErasedError("this user was erased meanwhile; nothing was stored")


def read_epoch(epochs: list[Row], last: list[Row]) -> int:
    """Return the epoch from the rows of `find_epochs` and `last_number`."""
    return cast("int", epochs[0][0] if epochs else last[0][0])


def _read_epoch(keys: Params) -> Transaction[int]:
    epochs, last = yield Step((Statement("find_epochs", keys), Statement("last_number", keys)), last=True)
    return read_epoch(epochs, last)


def _pin_epochs(keys: Params) -> Transaction[Row]:
    _, rows = yield Step((Statement("lock_user", keys), Statement("find_epochs", keys)), last=True)
    return rows[0]


def raise_epoch(keys: Params) -> Transaction[int]:
    """Give the user an epoch that is higher than all earlier ones."""
    epoch = yield from draw_number()
    yield Step((Statement("set_epoch", {**keys, "epoch": epoch}),))
    return epoch


def remove_rows(name: str, keys: Params) -> Transaction[int]:
    """Run a statement that deletes and returns rows; raise the epoch if there were any."""
    _, gone = yield Step((Statement("lock_user", keys), Statement(name, keys)))
    if not gone:
        raise Unchanged(0)  # rolls back the row that `lock_user` creates for an unknown user
    yield from raise_epoch(keys)
    return len(gone)


def draw_number() -> Transaction[int]:
    """Return a number that was never used before, from the sequence of the database."""
    rows = yield from query("draw_numbers", {"count": 1})
    return cast("int", rows[0][0])


class UserMemories(StoreCore):
    """The memory of a user, over all apps and projects: JSON values under keys."""

    async def set_memory(self, key: str, value: dict[str, object], *, scope: Scope) -> int:
        """Store a value under a key, replacing an earlier one, and return the entry's number."""
        params = memory_key(key, scope) | {
            "value": encode_json(check_json_object(value, "value"), "value"),
            "updated_at": to_micros(self._clock()),
        }
        return await self._write(partial(_set_memory, params), scope)

    async def get_memory(self, key: str, *, scope: Scope) -> MemoryEntry | None:
        """Return the entry under a key, or None."""
        rows = await self._query("get_memory", memory_key(key, scope))
        return decode_memory(rows[0]) if rows else None

    async def list_memory(self, *, scope: Scope) -> list[MemoryEntry]:
        """Return all entries of a user, sorted by key."""
        rows = await self._query("list_memory", user_keys(scope), heavy=True)
        return decode_each(decode_memory, rows)

    async def delete_memory(self, key: str, *, scope: Scope) -> bool:
        """Delete the entry under a key; return whether it existed."""
        return await self._write(partial(remove_rows, "delete_memory", memory_key(key, scope)), scope) > 0

    async def clear_memory(self, *, scope: Scope) -> int:
        """Delete all entries of a user and return how many there were."""
        return await self._write(partial(remove_rows, "delete_user_memory", user_keys(scope)), scope)


def memory_key(key: str, scope: Scope) -> dict[str, object]:
    """Return the key columns of one entry."""
    return user_keys(scope) | {"key": check_id(key, "key")}


def decode_memory(row: Row) -> MemoryEntry:
    """Make an entry from its columns."""
    key, number, value, updated_at = row
    with decoding(f"the memory under {key!r:.200}"):
        return MemoryEntry(number, key, decode_object(value), from_micros(updated_at))


def _set_memory(params: Params) -> Transaction[int]:
    _, drawn = yield Step((Statement("lock_user", params), Statement("draw_numbers", {"count": 1})))
    rows = yield from query("set_memory", {**params, "number": drawn[0][0]}, last=True)
    return cast("int", rows[0][0])


class UserStates(StoreCore):
    """The state of a user, over all apps and projects: a mode."""

    async def set_state(self, mode: str, *, scope: Scope) -> None:
        """Set the user's mode."""
        values = {"mode": check_id(mode, "mode"), "updated_at": to_micros(self._clock())}
        await self._write(partial(_set_state, user_keys(scope) | values), scope)

    async def get_state(self, *, scope: Scope) -> StateEntry | None:
        """Return the user's mode, or None."""
        rows = await self._query("get_state", user_keys(scope))
        if not rows:
            return None
        with decoding("the state of the user"):
            return StateEntry(rows[0][0], from_micros(rows[0][1]))

    async def delete_state(self, *, scope: Scope) -> bool:
        """Delete the user's mode; return whether there was one."""
        return await self._write(partial(remove_rows, "delete_user_state", user_keys(scope)), scope) > 0


def _set_state(params: Params) -> Transaction[None]:
    yield Step((Statement("lock_user", params), Statement("set_state", params)), last=True)


class Erasure(StoreCore):
    """Erases users."""

    async def erase(self, *, scope: Scope) -> EraseReport:
        """Erase everything about the user, in all threads, apps and projects.

        Before it commits, it counts the rows of every table again. If any is left, it rolls back and raises
        `EraseIncompleteError`. The epoch in the report is higher than any the user had, so that background
        work on erased data cannot write it again.

        Its `log` and `file` say whether SQLite's files still hold traces of the rows. Steps that are not done
        are tried again when the store is next opened, or by `purge`.
        """
        self._check_owner()
        return await self._run_to_the_end(self._erase_and_purge(scope))  # so that no traces are left in files

    async def _erase_and_purge(self, scope: Scope) -> EraseReport:
        report = await self._write(partial(_erase, user_keys(scope)), scope, heavy=True)
        log, file = await self._engine.purge()
        return replace(report, log=log, file=file)

    async def purge(self) -> Purge:
        """Remove the traces of all deleted rows from a SQLite file and its log, however large the file is.

        It vacuums the file: nobody can write meanwhile, about a second for 100 MB.
        """
        self._check_owner()
        return await self._engine.purge(everything=True)


def _erase(keys: Params) -> Transaction[EraseReport]:
    yield Step((Statement("lock_user", keys),))
    before = _read_counts((yield _make_count_step(keys)))
    epoch = yield from draw_number()
    # Search rows may be known by their messages alone, so they are counted before those are deleted.
    _, rows_left = yield Step((Statement("delete_search_rows", keys), Statement("count_search_rows", keys)))
    yield Step([Statement(f"delete_{kind}", keys) for kind in _ALL_KINDS])
    counts = _read_counts((yield _make_count_step(keys))) | {"search_rows": rows_left[0][0]}
    left = {kind: count for kind, count in counts.items() if count}
    if left:
        raise EraseIncompleteError(f"rows were left after erasing ({left}); nothing was removed")
    report = EraseReport({kind: before[kind] for kind in KINDS}, epoch)
    if report.total:
        yield Step((Statement("mark_unpurged", keys),))
    return report


def _make_count_step(keys: Params) -> Step:
    return Step([Statement(f"count_{kind}", keys) for kind in _ALL_KINDS])


def _read_counts(results: Results) -> dict[str, int]:
    return {kind: rows[0][0] for kind, rows in zip(_ALL_KINDS, results, strict=True)}
