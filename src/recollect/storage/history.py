"""Reading and deleting messages. Neither separates a tool call from its results: see `tool_pairs`."""

import json
from collections.abc import Sequence
from functools import partial
from typing import cast

from recollect.errors import InvalidArgumentError, MemoryNotFoundError
from recollect.messages import Message
from recollect.scope import Scope, tenant_of_key
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Row, Statement, Step, Transaction, Unchanged, query
from recollect.storage.rows import app_keys, decode_message, thread_keys, to_micros, user_keys
from recollect.storage.turns import prefix_bounds
from recollect.storage.users import raise_epoch
from recollect.validation import MAX_INT, check_id, check_int, check_limit, check_tenant

_MAX_IDS = 1000
_QUICK_ROWS = 500  # more rows than this are read off the event loop
_POSITION, _RUN, _UNIT = 8, 10, 11  # indexes into the fragment `message_columns`


class History(StoreCore):
    """The messages of one thread, and the history of a user over all threads."""

    async def last_messages(self, limit: int | None, *, scope: Scope) -> list[Message]:
        """Return the newest messages of a thread, oldest first; None means all.

        Returns more than `limit` where the limit would separate a result from its tool call.
        """
        work = partial(_read_up_to, thread_keys(scope), MAX_INT, check_limit(limit))
        return await self._read(work, scope, heavy=_is_heavy(limit))

    async def messages_before(self, message_id: str, limit: int | None, *, scope: Scope) -> list[Message]:
        """Return the messages that end right before a message, oldest first."""
        keys = thread_keys(scope)
        check_id(message_id, "message_id")
        work = partial(_read_before, keys, message_id, check_limit(limit))
        return await self._read(work, scope, heavy=_is_heavy(limit))

    async def messages_after(self, message_id: str, limit: int | None, *, scope: Scope) -> list[Message]:
        """Return the messages that begin right after a message, oldest first."""
        keys = thread_keys(scope)
        check_id(message_id, "message_id")
        work = partial(_read_after, keys, message_id, check_limit(limit))
        return await self._read(work, scope, heavy=_is_heavy(limit))

    async def page_of_messages(self, *, limit: int, offset: int = 0, scope: Scope) -> list[Message]:
        """Return a page of a thread, oldest first.

        Pages of the same limit have no gap and no overlap. A unit (a tool call up to its results) is on the
        page where it begins, so a page can have a few messages more or fewer than `limit`, or none: continue
        until `offset` reaches the thread's `message_count`.
        """
        check_int(limit, "limit", minimum=1)
        check_int(offset, "offset")
        work = partial(_read_page, thread_keys(scope), limit, offset)
        return await self._read(work, scope, heavy=_is_heavy(limit, offset))

    async def messages_by_id(
        self, ids: Sequence[str], *, with_previous: int = 0, with_next: int = 0, scope: Scope
    ) -> list[Message]:
        """Return messages by id with those around them, in the order in which they were stored.

        Ignores unknown ids. `thread_id=None` searches all threads of the app.
        """
        _check_ids(ids)
        check_int(with_previous, "with_previous", maximum=_MAX_IDS)
        check_int(with_next, "with_next", maximum=_MAX_IDS)
        work = partial(_read_around, scope, ids, with_previous, with_next)
        return await self._read(work, scope, heavy=_is_heavy(len(ids) * (1 + with_previous + with_next)))

    async def messages_by_number(self, numbers: Sequence[int], *, scope: Scope) -> list[Message]:
        """Return messages of the user, in any thread, by integer id, sorted by it."""
        _check_numbers(numbers)
        params = user_keys(scope) | {"numbers": json.dumps(list(numbers))}
        return await self._read(partial(_read_by_number, params), scope, heavy=_is_heavy(len(numbers)))

    async def user_history(self, *, limit: int | None = None, offset: int = 0, scope: Scope) -> list[Message]:
        """Return the user and assistant messages of all threads, apps and projects, newest first."""
        check_int(offset, "offset")
        params = user_keys(scope) | {"limit": check_limit(limit), "offset": offset}
        return await self._read(partial(_read_user_history, params), scope, heavy=_is_heavy(limit, offset))

    async def count_user_history(self, *, scope: Scope) -> int:
        """Count the messages that `user_history` returns without a limit."""
        work = partial(query, "count_user_history", user_keys(scope), last=True)
        rows = await self._read(work, scope, heavy=True)
        return cast("int", rows[0][0])

    async def turn_of_run(self, run_id: str, *, scope: Scope) -> list[Message]:
        """Return the messages that a run has committed, in order; none if it has not.

        The ids of the answer begin with the run's id, so this needs no index of its own.
        """
        return await self._read(partial(_read_turn, scope, check_id(run_id, "run_id")), scope)

    async def delete_messages(self, ids: Sequence[str], *, scope: Scope) -> int:
        """Delete messages with their whole units, and return how many were deleted.

        A unit is a tool call, its results, and all messages between them. Ignores unknown ids.
        `thread_id=None` searches all threads of the app.
        """
        _check_ids(ids)
        work = partial(_delete, scope, ids, to_micros(self._clock()))
        return await self._write(work, scope)

    async def delete_message_number(self, number: int, *, tenant_id: int | None) -> bool:
        """Delete a message of any user of the tenant by its integer id; return whether it existed.

        This look-up names no user. It is indexed, but on a sharded database it asks all shards.
        """
        check_int(number, "number")
        tenant = Scope(check_tenant(tenant_id), "-")
        work = partial(_delete_number, tenant.tenant_key, number, to_micros(self._clock()))
        return bool(await self._write(work, tenant))

    async def clear_history(self, *, scope: Scope) -> int:
        """Delete all threads of a user, in all apps, with their messages, working memory and events.

        Returns what `count_user_history` counted. The user's own working memory stays.
        """
        return await self._write(partial(_clear, user_keys(scope)), scope, heavy=True)


def _read_before(keys: Params, message_id: str, limit: int | None) -> Transaction[list[Message]]:
    _, unit = yield from _find_place(keys, message_id)
    return (yield from _read_up_to(keys, unit, limit))


def _read_after(keys: Params, message_id: str, limit: int | None) -> Transaction[list[Message]]:
    position, unit = yield from _find_place(keys, message_id)
    rest_of_unit = yield from query("messages_of_unit", {**keys, "after": position, "unit": unit})
    after = rest_of_unit[-1][_POSITION] if rest_of_unit else position
    rows = yield from query("messages_from", {**keys, "after": after, "limit": limit})
    return _decode_messages((yield from _complete_end(keys, rows)))


def _read_up_to(keys: Params, before: int, limit: int | None) -> Transaction[list[Message]]:
    rows = yield from query("messages_up_to", {**keys, "before": before, "limit": limit})
    rows.reverse()
    if rows and rows[0][_UNIT] < rows[0][_POSITION]:
        rows = yield from _complete_start(keys, rows)
    return _decode_messages(rows)


def _read_page(keys: Params, limit: int, offset: int) -> Transaction[list[Message]]:
    rows = yield from query("page_of_messages", {**keys, "limit": limit, "offset": offset})
    if rows:
        start = rows[0][_POSITION]
        rows = [row for row in rows if row[_UNIT] >= start]
    return _decode_messages((yield from _complete_end(keys, rows)))


def _read_around(
    scope: Scope, ids: Sequence[str], previous: int, following: int
) -> Transaction[list[Message]]:
    found = yield from query("find_messages", app_keys(scope) | {"ids": json.dumps(list(ids))})
    windows: dict[int, Message] = {}
    for _, thread_id, position, _, _ in found:
        if scope.thread_id in (None, thread_id):
            keys = thread_keys(scope.with_thread(thread_id))
            rows = yield from _read_window(keys, position, previous, following)
            windows |= {row[_POSITION + 1]: decode_message(row) for row in rows}
    return [windows[number] for number in sorted(windows)]


def _read_turn(scope: Scope, run_id: str) -> Transaction[list[Message]]:
    found = yield from query("messages_with_prefix", app_keys(scope) | prefix_bounds(run_id))
    rows = [row for row in found if row[_RUN] == run_id]  # another run's id may begin with the same prefix
    if not rows:
        return []
    thread_id, last = rows[0][_POSITION - 1], rows[-1][_POSITION]
    keys = thread_keys(scope.with_thread(thread_id))
    low = max(rows[0][_POSITION] - _MAX_IDS, 0)
    around = yield from query("messages_between", {**keys, "low": low, "high": last + 1})
    return [message for message in _decode_messages(around) if message.run_id == run_id]


def _read_window(keys: Params, position: int, previous: int, following: int) -> Transaction[list[Row]]:
    earlier, later = yield Step(
        (
            Statement("messages_up_to", {**keys, "before": position + 1, "limit": previous + 1}),
            Statement("messages_from", {**keys, "after": position, "limit": following}),
        )
    )
    rows = yield from _complete_start(keys, earlier[::-1] + later)
    return (yield from _complete_end(keys, rows))


def _complete_start(keys: Params, rows: list[Row]) -> Transaction[list[Row]]:
    if not rows or rows[0][_UNIT] >= rows[0][_POSITION]:
        return rows
    bounds = {"low": rows[0][_UNIT], "high": rows[0][_POSITION]}
    return (yield from query("messages_between", {**keys, **bounds})) + rows


def _complete_end(keys: Params, rows: list[Row]) -> Transaction[list[Row]]:
    if not rows:
        return rows
    end = {"after": rows[-1][_POSITION], "unit": rows[-1][_UNIT]}
    return rows + (yield from query("messages_of_unit", {**keys, **end}))


def _read_user_history(params: Params) -> Transaction[list[Message]]:
    return _decode_messages((yield from query("user_history", params, last=True)))


def _read_by_number(params: Params) -> Transaction[list[Message]]:
    return _decode_messages((yield from query("messages_by_number", params, last=True)))


def _find_place(keys: Params, message_id: str) -> Transaction[tuple[int, int]]:
    rows = yield from query("find_messages", {**keys, "ids": json.dumps([message_id])})
    for _, thread_id, position, _, unit in rows:
        if thread_id == keys["thread_id"]:
            return position, unit
    raise MemoryNotFoundError(f"thread {keys['thread_id']!r} has no message {message_id!r}")


def _delete(scope: Scope, ids: Sequence[str], time: int, number: int | None = None) -> Transaction[int]:
    """Delete messages by id; with a number, only the message that has it."""
    keys = app_keys(scope)
    _, found = yield Step(
        (Statement("lock_user", keys), Statement("find_messages", keys | {"ids": json.dumps(list(ids))}))
    )
    wanted = [row for row in found if number in (None, row[3])]
    places = {(row[1], row[4]) for row in wanted if scope.thread_id in (None, row[1])}
    units = [{**keys, "thread_id": thread_id, "unit": unit} for thread_id, unit in sorted(places)]
    if not units:
        raise Unchanged(0)
    gone = yield Step([Statement("delete_unit", unit) for unit in units])
    numbers = [row[0] for rows in gone for row in rows]
    threads: list[Params] = [
        {**keys, "thread_id": name, "updated_at": time} for name in sorted({name for name, _ in places})
    ]
    yield Step(
        (
            Statement("delete_vectors_of", {**keys, "numbers": json.dumps(numbers)}),
            Statement("recount_thread", threads),
        )
    )
    yield from raise_epoch(keys)
    return len(numbers)


def _delete_number(tenant_key: int, number: int, time: int) -> Transaction[bool]:
    rows = yield from query("find_number", {"tenant_id": tenant_key, "number": number})
    if not rows:
        return False
    user_id, app_id, project_id, thread_id, message_id = rows[0]
    scope = Scope(tenant_of_key(tenant_key), user_id, thread_id, app_id, project_id)
    return (yield from _delete(scope, [message_id], time, number)) > 0


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
    kinds = ("vectors", "messages", "threads", "thread_working_memory", "events")
    yield Step([Statement(f"delete_{kind}", keys) for kind in kinds])
    yield from raise_epoch(keys)
    return cast("int", counted[0][0])


def _decode_messages(rows: list[Row]) -> list[Message]:
    return [decode_message(row) for row in rows]


def _is_heavy(limit: int | None, offset: int = 0) -> bool:
    return limit is None or limit + offset > _QUICK_ROWS


def _check_ids(ids: Sequence[str]) -> None:
    _check_list(ids, "ids")
    for message_id in ids:
        check_id(message_id, "ids")


def _check_numbers(numbers: Sequence[int]) -> None:
    _check_list(numbers, "numbers")
    for number in numbers:
        check_int(number, "numbers")


def _check_list(items: Sequence[object], argument: str) -> None:
    if isinstance(items, str | bytes) or not isinstance(cast("object", items), Sequence):
        raise InvalidArgumentError(argument, f"must be a list of {argument}, not {type(items).__name__}")
    if len(items) > _MAX_IDS:
        raise InvalidArgumentError(argument, f"has {len(items)} items; at most {_MAX_IDS} are allowed")
