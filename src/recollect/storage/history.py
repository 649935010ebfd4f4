"""Reading messages. No limit separates a tool call from its results: see `tool_pairs`."""

import json
from collections.abc import Sequence
from functools import partial
from typing import cast

from recollect.errors import InvalidArgumentError, MemoryNotFoundError
from recollect.messages import Message
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Row, Statement, Step, Transaction, query
from recollect.storage.rows import decode_messages
from recollect.storage.turns import prefix_bounds
from recollect.storage.users import read_erase_epoch
from recollect.validation import (
    MAX_POSITION,
    check_id,
    check_int,
    check_limit,
)

_MAX_IDS = 1000
_QUICK_ROWS = 500  # more rows than this are read off the event loop
_POSITION, _RUN, _UNIT = 8, 10, 11  # indexes into the fragment `message_columns`


class History(StoreCore):
    """The messages of one thread, and the history of a user over all threads."""

    async def last_messages(self, limit: int | None, *, scope: Scope) -> list[Message]:
        """Return the newest messages of a thread, oldest first; None means all.

        Returns more than `limit` where the limit would separate a result from its tool call.
        """
        params = self._thread_keys(scope)
        params["before"], params["limit"] = MAX_POSITION + 1, check_limit(limit)
        work = partial(_read_up_to, params, MAX_POSITION + 1, limit)
        if _is_heavy(limit):
            return await self._read(work, scope, heavy=True)
        rows = await self._query("messages_up_to", params)
        if rows and rows[-1][_UNIT] < rows[-1][_POSITION]:  # begins within a unit: read all in one snapshot
            return await self._read(work, scope)
        rows.reverse()
        return decode_messages(rows)

    async def read_for_run(self, limit: int | None, *, scope: Scope) -> tuple[list[Message], int | None]:
        """Return what `last_messages` returns, and the user's erase epoch as it was then, in one reading.

        With it, `append_turn(erase_epoch=…)` writes nothing that was recalled before an erasure.
        """
        params = self._thread_keys(scope)
        params["before"], params["limit"] = MAX_POSITION + 1, check_limit(limit)
        found, erase_epoch = await self._read(partial(_read_for_run, params), scope, heavy=_is_heavy(limit))
        return await self.last_messages(limit, scope=scope) if found is None else found, erase_epoch

    async def messages_before(self, message_id: str, limit: int | None, *, scope: Scope) -> list[Message]:
        """Return the messages that end right before a message, oldest first."""
        keys = self._thread_keys(scope)
        check_id(message_id, "message_id")
        work = partial(_read_before, keys, message_id, check_limit(limit))
        return await self._read(work, scope, heavy=_is_heavy(limit))

    async def messages_after(self, message_id: str, limit: int | None, *, scope: Scope) -> list[Message]:
        """Return the messages that begin right after a message, oldest first."""
        keys = self._thread_keys(scope)
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
        work = partial(_read_page, self._thread_keys(scope), limit, offset)
        return await self._read(work, scope, heavy=_is_heavy(limit, offset))

    async def messages_by_id(
        self, ids: Sequence[str], *, with_previous: int = 0, with_next: int = 0, scope: Scope
    ) -> list[Message]:
        """Return messages by id with those around them, in the order in which they were stored.

        Ignores unknown ids. `thread_id=None` searches all threads of the app.
        """
        check_ids(ids)
        check_int(with_previous, "with_previous", maximum=_MAX_IDS)
        check_int(with_next, "with_next", maximum=_MAX_IDS)
        work = partial(_read_around, scope, self._app_keys(scope), ids, (with_previous, with_next))
        return await self._read(work, scope, heavy=_is_heavy(len(ids) * (1 + with_previous + with_next)))

    async def messages_by_number(self, numbers: Sequence[int], *, scope: Scope) -> list[Message]:
        """Return messages of the user, in any thread, by integer id, sorted by it."""
        _check_numbers(numbers)
        params = self._user_keys(scope) | {"numbers": json.dumps(list(numbers))}
        work = partial(_read_messages, "messages_by_number", params)
        return await self._read(work, scope, heavy=_is_heavy(len(numbers)))

    async def user_history(self, *, limit: int | None = None, offset: int = 0, scope: Scope) -> list[Message]:
        """Return the user and assistant messages of all threads, apps and projects, newest first."""
        check_int(offset, "offset")
        params = self._user_keys(scope) | {"limit": check_limit(limit), "offset": offset}
        work = partial(_read_messages, "user_history", params)
        return await self._read(work, scope, heavy=_is_heavy(limit, offset))

    async def count_user_history(self, *, scope: Scope) -> int:
        """Count the messages that `user_history` returns without a limit."""
        rows = await self._query("count_user_history", self._user_keys(scope), heavy=True)
        return cast("int", rows[0][0])

    async def turn_of_run(self, run_id: str, *, scope: Scope) -> list[Message]:
        """Return the messages that a run has committed, in order; none if it has not.

        The ids of the answer begin with the run's id, so this needs no index of its own.
        """
        keys = self._app_keys(scope)
        return await self._read(partial(_read_turn, keys, check_id(run_id, "run_id")), scope)


def _read_messages(name: str, params: Params) -> Transaction[list[Message]]:
    # Decoded within the transaction, so that many messages are decoded off the event loop.
    return decode_messages((yield from query(name, params, last=True)))


def _read_before(keys: Params, message_id: str, limit: int | None) -> Transaction[list[Message]]:
    _, unit = yield from _find_place(keys, message_id)
    return (yield from _read_up_to(keys, unit, limit))


def _read_after(keys: Params, message_id: str, limit: int | None) -> Transaction[list[Message]]:
    position, unit = yield from _find_place(keys, message_id)
    rest_of_unit = yield from query("messages_of_unit", {**keys, "after": position, "unit": unit})
    after = rest_of_unit[-1][_POSITION] if rest_of_unit else position
    rows = yield from query("messages_from", {**keys, "after": after, "limit": limit})
    return decode_messages((yield from _complete_end(keys, rows)))


def _read_up_to(keys: Params, before: int, limit: int | None) -> Transaction[list[Message]]:
    rows = yield from query("messages_up_to", {**keys, "before": before, "limit": limit})
    rows.reverse()
    if rows and rows[0][_UNIT] < rows[0][_POSITION]:
        rows = yield from _complete_start(keys, rows)
    return decode_messages(rows)


def _read_for_run(keys: Params) -> Transaction[tuple[list[Message] | None, int | None]]:
    """Read the end of a thread and the erase epoch in one step; no messages if they begin within a unit."""
    rows, epochs = yield Step((Statement("messages_up_to", keys), Statement("find_epochs", keys)), last=True)
    rows.reverse()
    is_whole = not rows or rows[0][_UNIT] >= rows[0][_POSITION]
    return decode_messages(rows) if is_whole else None, read_erase_epoch(epochs)


def _read_page(keys: Params, limit: int, offset: int) -> Transaction[list[Message]]:
    rows = yield from query("page_of_messages", {**keys, "limit": limit, "offset": offset})
    if rows:
        start = rows[0][_POSITION]
        rows = [row for row in rows if row[_UNIT] >= start]
    return decode_messages((yield from _complete_end(keys, rows)))


def _read_around(
    scope: Scope, keys: Params, ids: Sequence[str], around: tuple[int, int]
) -> Transaction[list[Message]]:
    found = yield from query("find_messages", {**keys, "ids": json.dumps(list(ids))})
    windows: dict[int, Message] = {}
    for _, thread_id, position, _, _ in found:
        if scope.thread_id in (None, thread_id):
            rows = yield from _read_window({**keys, "thread_id": thread_id}, position, *around)
            windows |= {message.number or 0: message for message in decode_messages(rows)}
    return [windows[number] for number in sorted(windows)]


def _read_turn(keys: Params, run_id: str) -> Transaction[list[Message]]:
    found = yield from query("messages_with_prefix", {**keys, **prefix_bounds(run_id)})
    rows = [row for row in found if row[_RUN] == run_id]  # another run's id may begin with the same prefix
    if not rows:
        return []
    thread_id, last = rows[0][_POSITION - 1], rows[-1][_POSITION]
    bounds = {"thread_id": thread_id, "low": max(rows[0][_POSITION] - _MAX_IDS, 0), "high": last + 1}
    around = yield from query("messages_between", {**keys, **bounds})
    return [message for message in decode_messages(around) if message.run_id == run_id]


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


def _find_place(keys: Params, message_id: str) -> Transaction[tuple[int, int]]:
    rows = yield from query("find_messages", {**keys, "ids": json.dumps([message_id])})
    for _, thread_id, position, _, unit in rows:
        if thread_id == keys["thread_id"]:
            return position, unit
    raise MemoryNotFoundError(f"thread {keys['thread_id']!r} has no message {message_id!r}")


def _is_heavy(limit: int | None, offset: int = 0) -> bool:
    return limit is None or limit + offset > _QUICK_ROWS


def check_ids(ids: Sequence[str]) -> None:
    """Raise if it is not a list of message ids."""
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
