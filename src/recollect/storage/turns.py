"""Writing messages: each turn is one transaction."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import NamedTuple, cast

from recollect.concurrency.threads import run_by_size
from recollect.errors import ConflictError, InvalidArgumentError, StorageFullError
from recollect.message_size import QUICK_CHARACTERS, count_message
from recollect.messages import Message, ToolCall
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import (
    QUICK_BYTES,
    DuplicateRow,
    Params,
    Results,
    Row,
    Statement,
    Step,
    Transaction,
    query,
)
from recollect.storage.records import DEFAULT_TITLE, Placement
from recollect.storage.rows import decode_messages, decode_parts, encode_message, to_micros
from recollect.storage.users import check_not_erased
from recollect.tool_pairs import MAX_DISTANCE, assign_units, find_earlier_calls
from recollect.validation import MAX_POSITION, check_int, check_optional_id, check_time

THREAD = ("app_id", "project_id", "thread_id")
"""The columns that name a thread of a user."""

_MAX_REMOVED = 1000  # expired messages that an append removes; later ones go on


class Turns(StoreCore):
    """Appends messages to threads."""

    async def append_turn(
        self,
        messages: Iterable[Message],
        *,
        scope: Scope,
        run_id: str | None = None,
        expires_at: datetime | None = None,
        erase_epoch: int | None = None,
    ) -> list[Placement]:
        """Append messages to the scope's thread, all or none, and return where each one is stored.

        Creates the thread if it does not exist. A message whose id the thread already has is not written
        again: the stored version stays, and its placement says that it is not new. Each run is written once:
        the same `run_id` with other messages raises `ConflictError`, so that answers of one run never mix.
        From `expires_at` on, no read returns the messages. `erase_epoch` guards against erased data: if it is
        not the user's, the user was erased meanwhile, and `UserErasedError` is raised.
        """
        turn = _check_turn(messages)
        keys = self._thread_keys(scope)
        check_optional_id(run_id, "run_id")
        due = None if expires_at is None else _check_expiry(expires_at, cast("int", keys["now"]))
        if erase_epoch is not None:
            check_int(erase_epoch, "erase_epoch")
        size = sum(map(count_message, turn))
        if size <= QUICK_CHARACTERS:  # nearly always, and quicker than to ask
            entries = _encode(turn, run_id, due)
        else:
            entries = await run_by_size(size, partial(_encode, turn, run_id, due))
        append = _Append(keys, entries, run_id, erase_epoch)
        heavy = append.size > QUICK_BYTES
        try:
            return await self._write(append.write_new, scope, heavy=heavy)
        except DuplicateRow:  # a message or the run is stored already
            return await self._write(append.write_rest, scope, heavy=heavy)


class Entry(NamedTuple):
    """A message to be written, and its columns that do not depend on its place."""

    message: Message
    columns: dict[str, object]


class _Append:
    """One turn to be appended: first as if all of it were new, which takes no look-up."""

    __slots__ = ("_entries", "_erase_epoch", "_keys", "_run_id", "size")

    def __init__(
        self, keys: Params, entries: list[Entry], run_id: str | None, erase_epoch: int | None
    ) -> None:
        self._keys = keys
        self._entries = entries
        self._run_id = run_id
        self._erase_epoch = erase_epoch
        self.size = _count_entries(entries)

    def write_new(self) -> Transaction[list[Placement]]:
        """Write the turn; raise `DuplicateRow` if the run is stored, as the engine does for a message."""
        keys, entries = self._keys, self._entries
        _, extended, drawn, *checked = yield Step(
            (
                Statement("lock_known_user", keys),
                build_extension(keys, entries, self.size),
                Statement("draw_message_numbers", {"count": len(entries)}),
                *self._checks(),
            )
        )
        if checked and self._find_run(checked):
            raise DuplicateRow
        return (yield from self._insert(entries, extended, drawn))

    def write_rest(self) -> Transaction[list[Placement]]:
        """Write what is new of the turn, after looking for what is stored."""
        keys = self._keys
        _, *checked = yield Step((Statement("lock_user", keys), *self._checks()))
        stored_run = self._find_run(checked)
        yield from remove_expired(keys)
        ids = json.dumps([entry.message.id for entry in self._entries])
        places = map_stored_places((yield from query("find_messages", {**keys, "ids": ids})), keys)
        _check_run(stored_run, self._entries, self._run_id)
        fresh = [entry for entry in self._entries if entry.message.id not in places]
        if fresh:
            count = Statement("draw_message_numbers", {"count": len(fresh)})
            extended, drawn = yield Step((build_extension(keys, fresh), count))
            new = yield from self._insert(fresh, extended, drawn)
            places |= {entry.message.id: place for entry, place in zip(fresh, new, strict=True)}
        return [places[entry.message.id] for entry in self._entries]

    def _checks(self) -> list[Statement]:
        """Return the statements that look for the run and read the erase epoch."""
        statements: list[Statement] = []
        if self._run_id is not None:
            bounds = {**self._keys, **prefix_bounds(self._run_id)}
            statements.append(Statement("messages_with_prefix", bounds))
        if self._erase_epoch is not None:
            statements.append(Statement("find_epochs", self._keys))
        return statements

    def _find_run(self, checked: Results) -> list[Message]:
        """Return the stored messages of the run; raise if the user was erased."""
        if self._erase_epoch is not None:
            check_not_erased(checked[-1], self._erase_epoch)
        if self._run_id is None:
            return []
        # Not those of a run whose id is longer.
        return [message for message in decode_messages(checked[0]) if message.run_id == self._run_id]

    def _insert(
        self, entries: Sequence[Entry], extended: list[Row], drawn: list[Row]
    ) -> Transaction[list[Placement]]:
        """Insert messages at the end of the thread, which is created if it could not be extended."""
        keys = self._keys
        if not extended:
            creation = build_creation(keys, {"title": DEFAULT_TITLE, "metadata": None, "next_position": 1})
            *_, extended = yield Step(
                (Statement("lock_user", keys), *creation, build_extension(keys, entries))
            )
        start, due, thread, owner, app = extended[0]
        check_room(start + len(entries) - 1)
        numbers = list_drawn_numbers(drawn, len(entries))
        places = [Placement(position, number) for position, number in enumerate(numbers, start)]
        inside = {**keys, "thread": thread, "owner": owner, "app": app}
        statements = yield from build_inserts(inside, entries, places)
        has_expired = due is not None and due <= cast("int", keys["now"])
        yield Step(statements, last=not has_expired)
        if has_expired:
            yield from remove_expired(keys, limit=_MAX_REMOVED)
        return places


def check_room(position: int) -> None:
    """Raise if a thread cannot have a message at a position."""
    if position > MAX_POSITION:
        raise StorageFullError(f"a thread holds at most {MAX_POSITION:,} messages; go on in another thread")


def prefix_bounds(run_id: str) -> dict[str, object]:
    """Return the range of the ids of a run's messages: from "run:" to "run;", the next character."""
    return {"low": f"{run_id}:", "high": f"{run_id};"}


def _check_run(stored: Sequence[Message], entries: Sequence[Entry], run_id: str | None) -> None:
    """Raise if the run is already stored with other messages."""
    given = {entry.message.id: entry.message for entry in entries if _is_of_run(entry.message.id, run_id)}
    contents = {message.id: (message.role, message.body) for message in stored}
    if stored and contents != {name: (message.role, message.body) for name, message in given.items()}:
        raise ConflictError(
            f"the run {run_id!r} is already stored with another turn; give each run an id of its own"
        )


def _is_of_run(message_id: str, run_id: str | None) -> bool:
    return message_id.startswith(f"{run_id}:")


def list_drawn_numbers(rows: Sequence[Row], count: int) -> list[int]:
    """Return the numbers that were drawn: SQLite returns the last of a range, PostgreSQL each."""
    if len(rows) == count:
        return [row[0] for row in rows]
    return list(range(rows[0][0] - count + 1, rows[0][0] + 1))


def build_inserts(
    keys: Params, entries: Sequence[Entry], places: Sequence[Placement]
) -> Transaction[list[Statement]]:
    """Return the statements that insert messages of one thread at their places."""
    joins: set[int] = set()
    units = [place.position for place in places]
    has_parts = any(entry.columns["parts"] is not None for entry in entries)
    if has_parts:  # there may be tool calls
        turn = list(zip(units, [entry.message for entry in entries], strict=True))
        earlier = yield from _find_call_units(keys, find_earlier_calls(turn))
        units = assign_units(turn, earlier)
        joins = set(earlier.values())
    messages: list[dict[str, object]] = [
        {**keys, **entry.columns, "position": position, "number": number, "unit": unit}
        for entry, (position, number, _), unit in zip(entries, places, units, strict=True)
    ]
    if has_parts:
        _align_expiries(messages)
    inserts = Statement("insert_message", [*messages])
    if not joins:
        return [inserts]
    # First everything after an earlier call joins its unit, up to the result that is inserted next.
    return [
        *(Statement("join_unit", {**keys, "unit": unit}) for unit in joins),
        inserts,
        *(Statement("align_expiry", {**keys, "unit": unit}) for unit in joins),
    ]


def _align_expiries(rows: Sequence[dict[str, object]]) -> None:
    """Give each message the earliest expiry of its unit; in an import they may differ."""
    earliest: dict[object, int] = {}
    for row in rows:
        due = cast("int | None", row["expires_at"])
        if due is not None:
            earliest[row["unit"]] = min(due, earliest.get(row["unit"], due))
    for row in rows:
        row["expires_at"] = earliest.get(row["unit"])


def _find_call_units(keys: Params, wanted: Mapping[str, int]) -> Transaction[dict[str, int]]:
    """Find the unit of calls that were made in earlier turns: that of the earliest of them.

    `wanted` maps each call to the position of its result.
    """
    if not wanted:
        return {}
    units: dict[str, int] = {}
    low = max(min(wanted.values()) - MAX_DISTANCE, 0)
    for position, unit, parts in (yield from query("rich_messages", {**keys, "low": low})):
        for call_id in _find_calls(parts):
            if call_id in wanted and wanted[call_id] - position <= MAX_DISTANCE:
                units.setdefault(call_id, unit)  # the newest, where an id was reused
    return dict.fromkeys(units, min(units.values(), default=0))


def _find_calls(parts: str) -> list[str]:
    with suppress(Exception):  # a damaged message must not stop its thread; reading it says so
        return [part.id for part in decode_parts(parts) if isinstance(part, ToolCall)]
    return []


def build_creation(keys: Params, values: Params) -> list[Statement]:
    """Return the statements that create a thread unless it exists; the user must exist."""
    times = {"created_at": keys["now"], "updated_at": keys["now"]}
    return [Statement("create_app", keys), Statement("create_thread", {**keys, **times, **values})]


def build_extension(keys: Params, fresh: Sequence[Entry], size: int | None = None) -> Statement:
    """Return the statement that adds new messages to the row of their thread."""
    expiries = [cast("int", due) for entry in fresh if (due := entry.columns["expires_at"]) is not None]
    values = {
        **keys,
        "updated_at": keys["now"],
        "last_message_at": fresh[-1].columns["created_at"] if fresh else None,
        "expires_at": min(expiries) if expiries else None,
        "added": len(fresh),
        "bytes": _count_entries(fresh) if size is None else size,
    }
    return Statement("extend_thread", values)


def _encode(turn: Sequence[Message], run_id: str | None, due: int | None) -> list[Entry]:
    return [Entry(message, encode_message(message, run_id, due)) for message in turn]


def _count_entries(entries: Sequence[Entry]) -> int:
    return sum([cast("int", entry.columns["bytes"]) for entry in entries])


def remove_expired(keys: Params, limit: int | None = None) -> Transaction[int]:
    """Delete the expired messages of the user, up to a limit, and return how many there were."""
    keys = {**keys, "limit": limit}
    threads = yield from query("expired_threads", keys)
    if not threads:
        return 0
    (gone,) = yield Step((Statement("delete_expired", keys),))
    # The epoch stays: indexes know when their messages expire.
    yield Step(build_cleanup(keys, [row[0] for row in gone], threads))
    return len(gone)


def build_cleanup(
    keys: Params, numbers: Sequence[int], threads: Iterable[Sequence[object]], *, updated_at: object = None
) -> list[Statement]:
    """Return the statements that follow the deletion of messages: search rows, and the threads' counts.

    A thread is given by its key, and how many messages and bytes it has lost. Without a time the threads do
    not count as updated: nobody did anything with them.
    """
    names = (*THREAD, "removed", "bytes")
    changed: list[Params] = [
        {**keys, **dict(zip(names, row, strict=True)), "updated_at": updated_at} for row in threads
    ]
    return [
        Statement("delete_search_rows_of", {**keys, "numbers": json.dumps(list(numbers))}),
        Statement("shrink_thread", changed),
    ]


def map_stored_places(found: Sequence[Row], keys: Params) -> dict[str, Placement]:
    """Return the places of messages that are already stored; raise if one is in another thread."""
    for message_id, thread_id, *_ in found:
        if thread_id != keys["thread_id"]:
            raise ConflictError(
                f"the message id {message_id!r} is already used in thread {thread_id!r} of this user; "
                "give the message an id of its own"
            )
    return {
        message_id: Placement(position, number, is_new=False) for message_id, _, position, number, _ in found
    }


def _check_expiry(expires_at: datetime, now: int) -> int:
    due = to_micros(check_time(expires_at, "expires_at"))
    if due <= now:
        raise InvalidArgumentError("expires_at", f"must be in the future, not {expires_at.isoformat()}")
    return due


def _check_turn(messages: Iterable[Message]) -> list[Message]:
    if isinstance(messages, Message) or not isinstance(cast("object", messages), Iterable):
        raise InvalidArgumentError("messages", f"must be a list of messages, not {type(messages).__name__}")
    turn = list(messages)
    ids: set[str] = set()
    for message in cast("list[object]", turn):
        if not isinstance(message, Message):
            raise InvalidArgumentError(
                "messages", f"must contain Message values, not {type(message).__name__}"
            )
        ids.add(message.id)
    if not turn:
        raise InvalidArgumentError("messages", "must not be empty")
    if len(ids) != len(turn):
        raise InvalidArgumentError("messages", "two messages of one turn have the same id")
    return turn
