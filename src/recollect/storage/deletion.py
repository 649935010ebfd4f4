"""Deleting messages. A tool call and its results go together: see `tool_pairs`."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import cast

from recollect.messages import ToolCall, ToolResult
from recollect.scope import Scope, TenantId
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Row, Statement, Step, Transaction, Unchanged, query
from recollect.storage.history import check_ids
from recollect.storage.records import PrunedUser
from recollect.storage.rows import decode_parts, to_micros
from recollect.storage.turns import THREAD, build_cleanup, remove_expired
from recollect.storage.users import raise_epoch
from recollect.validation import MAX_POSITION, check_flag, check_int, check_tenant, check_time

_BATCH = 10_000  # positions of a thread that one transaction of a prune goes through


class Deletion(StoreCore):
    """Deletes single messages, old ones, or the whole history of a user."""

    async def delete_messages(self, ids: Sequence[str], *, scope: Scope) -> int:
        """Delete messages and return how many were deleted. Ignores unknown ids.

        A tool call goes with its results, and with calls and results that cross it; other messages between
        them stay. `thread_id=None` searches all threads of the app.
        """
        check_ids(ids)
        work = partial(_delete, self._app_keys(scope), ids, scope.thread_id)
        return await self._write(work, scope)

    async def delete_message_number(self, number: int, *, tenant_id: TenantId) -> bool:
        """Delete a message of any user of the tenant by its integer id; return whether it existed.

        A tool call goes with its results, as in `delete_messages`.

        This look-up names no user. It is indexed, but on a sharded database it asks all shards.
        """
        check_int(number, "number")
        tenant = Scope(check_tenant(tenant_id), "-")
        params = {"tenant_id": tenant.tenant_key, "number": number, "now": self._now()}
        return bool(await self._write(partial(_delete_number, params), tenant))

    async def prune(self, before: datetime, *, dry_run: bool = False, scope: Scope) -> PrunedUser:
        """Delete the user's messages from before a time, in all threads, and those that have expired.

        A unit (a tool call up to its results) goes when all its messages are older. With `dry_run` it only
        counts. Memory, state, working memory and events stay. Many messages go in several transactions, so
        that others can write in between.
        """
        keys = self._user_keys(scope) | {"before": to_micros(check_time(before, "before"))}
        threads, found = await self._read(partial(_find_old, keys), scope, heavy=True)
        if check_flag(dry_run, "dry_run"):
            return found
        expired, is_done = 0, not found.expired
        while not is_done:
            removed = await self._write(partial(_remove_expired, keys), scope, heavy=True)
            expired, is_done = expired + removed, removed < _BATCH
        old = 0
        for row in threads:
            place: int | None = 0
            while place is not None:
                thread = {**keys, **dict(zip(THREAD, row, strict=False)), "low": place}
                removed, place = await self._write(partial(_delete_old, thread), scope, heavy=True)
                old += removed
        return PrunedUser(old, expired)

    async def clear_history(self, *, scope: Scope) -> int:
        """Delete all threads of a user, in all apps, with their messages, working memory and events.

        Returns what `count_user_history` counted. The user's own working memory stays.
        """
        return await self._write(partial(_clear, self._user_keys(scope)), scope, heavy=True)


def _delete(
    keys: Params, ids: Sequence[str], thread_id: str | None, number: int | None = None
) -> Transaction[int]:
    """Delete messages of a thread, or of all, by id; with a number, only the message that has it."""
    _, found = yield Step(
        (Statement("lock_user", keys), Statement("find_messages", {**keys, "ids": json.dumps(list(ids))}))
    )
    units: dict[tuple[str, int], set[int]] = {}
    for _, name, position, found_number, unit in found:
        if number in (None, found_number) and thread_id in (None, name):
            units.setdefault((name, unit), set()).add(position)
    if not units:
        raise Unchanged(0)
    return (yield from _delete_of_units(keys, units))


def _delete_of_units(keys: Params, units: Mapping[tuple[str, int], set[int]]) -> Transaction[int]:
    """Delete messages, given as positions by thread and unit, with the tool calls and results of the unit."""
    names = [{**keys, "thread_id": thread_id, "unit": unit} for thread_id, unit in units]
    rich = yield Step([Statement("rich_messages_of_unit", unit) for unit in names])
    statements: list[Statement] = []
    for unit, positions, rows in zip(names, units.values(), rich, strict=True):
        tied = {position for position, parts in rows if _has_tools(parts)}
        is_dissolved = not tied.isdisjoint(positions)
        gone = positions | tied if is_dissolved else positions
        statements.append(Statement("delete_positions", {**unit, "positions": json.dumps(sorted(gone))}))
        if is_dissolved:
            statements.append(Statement("dissolve_unit", unit))
    results = yield Step(statements)
    numbers: list[int] = []
    shrunk: list[tuple[object, ...]] = []
    for (name, params), rows in zip(statements, results, strict=True):
        if name == "delete_positions":
            numbers += [row[0] for row in rows]
            shrunk.append(_describe_loss(cast("Params", params), rows))
    yield Step(build_cleanup(keys, numbers, shrunk, updated_at=keys["now"]))
    yield from raise_epoch(keys)
    return len(numbers)


def _has_tools(parts: str) -> bool:
    try:
        return any(isinstance(part, ToolCall | ToolResult) for part in decode_parts(parts))
    except Exception:  # noqa: BLE001 - a damaged message may have been a call
        return True


def _describe_loss(thread: Params, gone: list[Row]) -> tuple[object, ...]:
    """Return a thread and what it has lost, from deleted rows with their numbers and bytes."""
    return *(thread[name] for name in THREAD), len(gone), sum(row[1] for row in gone)


def _delete_number(params: Params) -> Transaction[bool]:
    rows = yield from query("find_number", params)
    if not rows:
        return False
    user_id, app_id, project_id, thread_id, message_id = rows[0]
    keys = {**params, "user_id": user_id, "app_id": app_id, "project_id": project_id}
    return (yield from _delete(keys, [message_id], thread_id, cast("int", params["number"]))) > 0


def _find_old(keys: Params) -> Transaction[tuple[list[Row], PrunedUser]]:
    """Return the threads that have old messages, and how many there are to prune."""
    old, expired = yield Step((Statement("old_threads", keys), Statement("count_expired", keys)), last=True)
    return old, PrunedUser(sum(row[-1] for row in old), expired[0][0])


def _remove_expired(keys: Params) -> Transaction[int]:
    yield Step((Statement("lock_user", keys),))
    removed = yield from remove_expired(keys, limit=_BATCH)
    if not removed:
        raise Unchanged(0)
    return removed


def _delete_old(keys: Params) -> Transaction[tuple[int, int | None]]:
    """Delete the old messages of the next part of a thread; return how many, and where to go on."""
    after = cast("int", keys["low"]) + _BATCH
    _, ends = yield Step((Statement("lock_user", keys), Statement("next_unit", {**keys, "after": after})))
    end = cast("int", ends[0][0]) if ends else None
    high = MAX_POSITION + 1 if end is None else end
    (gone,) = yield Step((Statement("delete_old", {**keys, "high": high}),))
    if not gone:
        raise Unchanged((0, end))
    yield Step(build_cleanup(keys, [row[0] for row in gone], [_describe_loss(keys, gone)]))
    yield from raise_epoch(keys)
    return len(gone), end


def _clear(keys: Params) -> Transaction[int]:
    names = (
        "count_user_history",
        "count_messages",
        "count_threads",
        "count_thread_working_memory",
        "count_events",
    )
    _, counted, *present = yield Step([Statement(name, keys) for name in ("lock_user", *names)])
    if not any(rows[0][0] for rows in present):
        raise Unchanged(0)
    kinds = ("search_rows", "messages", "threads", "thread_working_memory", "events")
    yield Step([Statement(f"delete_{kind}", keys) for kind in kinds])
    yield from raise_epoch(keys)
    return cast("int", counted[0][0])
