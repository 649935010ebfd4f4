"""Writing messages: each turn is one transaction."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from recollect.errors import ConflictError, InvalidArgumentError
from recollect.messages import Message, ToolCall
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Row, Statement, Step, Transaction, query
from recollect.storage.records import DEFAULT_TITLE, Placement
from recollect.storage.rows import decode_message, decode_parts, encode_message, thread_keys, to_micros
from recollect.tool_pairs import assign_units, find_earlier_calls
from recollect.validation import check_optional_id


class Turns(StoreCore):
    """Appends messages to threads."""

    async def append_turn(
        self, messages: Iterable[Message], *, scope: Scope, run_id: str | None = None
    ) -> list[Placement]:
        """Append messages to the scope's thread, all or none, and return where each one is stored.

        Creates the thread if it does not exist. A message whose id the thread already has is not written
        again: the stored version stays, and its place is returned. Each run is written once: the same
        `run_id` with other messages raises `ConflictError`, so that two answers of one run never mix.
        """
        turn = _check_turn(messages)
        scope.required_thread_id  # noqa: B018 - raises where the scope has no thread
        check_optional_id(run_id, "run_id")
        entries = [encode_entry(message, run_id) for message in turn]
        work = partial(_append_entries, scope, entries, to_micros(self._clock()), run_id)
        return await self._write(work, scope)


@dataclass(slots=True)
class Entry:
    """A message to be written, and its columns that do not depend on its place."""

    message: Message
    columns: dict[str, object]


def encode_entry(message: Message, run_id: str | None) -> Entry:
    """Do the work on a message that needs no database, before the transaction."""
    return Entry(message, encode_message(message, run_id))


def _append_entries(
    scope: Scope, entries: Sequence[Entry], time: int, run_id: str | None
) -> Transaction[list[Placement]]:
    keys = thread_keys(scope)
    ids = json.dumps([entry.message.id for entry in entries])
    statements = [
        Statement("lock_user", keys),
        Statement("find_messages", keys | {"ids": ids}),
        Statement("get_thread", keys),
        Statement("draw_numbers", {"count": len(entries)}),
    ]
    if run_id is not None:
        statements.append(Statement("messages_with_prefix", keys | prefix_bounds(run_id)))
    _, found, threads, drawn, *of_run = yield Step(statements)
    places = map_stored_places(found, keys)
    if of_run:
        _check_run(of_run[0], entries, run_id)
    fresh = [entry for entry in entries if entry.message.id not in places]
    if fresh:
        start = cast("int", threads[0][-1]) if threads else 1
        numbers = list_drawn_numbers(drawn, len(entries))
        for position, (entry, number) in enumerate(zip(fresh, numbers, strict=False), start):
            places[entry.message.id] = Placement(position, number)
        statements = yield from build_inserts(keys, fresh, places)
        statements.append(build_extension(keys, fresh, start + len(fresh), time))
        yield Step(statements, last=True)
    return [places[entry.message.id] for entry in entries]


def prefix_bounds(run_id: str) -> dict[str, object]:
    """Return the range of the ids of a run's messages: from "run:" to "run;", the next character."""
    return {"low": f"{run_id}:", "high": f"{run_id};"}


def _check_run(rows: Sequence[Row], entries: Sequence[Entry], run_id: str | None) -> None:
    """Raise if the run is already stored with other messages."""
    stored = [decode_message(row) for row in rows]
    stored = [message for message in stored if message.run_id == run_id]  # not of a run whose id is longer
    given = {entry.message.id: entry.message for entry in entries if _is_of_run(entry.message.id, run_id)}
    contents = {message.id: (message.role, message.body) for message in stored}
    if stored and contents != {name: (message.role, message.body) for name, message in given.items()}:
        raise ConflictError(
            f"the run {run_id!r} is already stored with another turn; give each run an id of its own"
        )


def _is_of_run(message_id: str, run_id: str | None) -> bool:
    return message_id.startswith(f"{run_id}:")


def list_drawn_numbers(rows: Sequence[Row], count: int) -> list[int]:
    """Return the numbers of `draw_numbers`: SQLite returns the last of a range, PostgreSQL each."""
    if len(rows) == count:
        return [row[0] for row in rows]
    return list(range(rows[0][0] - count + 1, rows[0][0] + 1))


def build_inserts(
    keys: Params, entries: Sequence[Entry], places: Mapping[str, Placement]
) -> Transaction[list[Statement]]:
    """Return the statements that insert messages of one thread at their places."""
    turn = [entry.message for entry in entries]
    earlier = yield from _find_call_units(keys, find_earlier_calls(turn))
    units = assign_units([(places[message.id].position, message) for message in turn], earlier)
    messages: list[Params] = []
    for entry, unit in zip(entries, units, strict=True):
        position, number = places[entry.message.id]
        messages.append({**keys, **entry.columns, "position": position, "number": number, "unit": unit})
    # First everything after an earlier call joins its unit, up to the result that is inserted next.
    joins = [Statement("join_unit", {**keys, "unit": unit}) for unit in set(earlier.values())]
    return [*joins, Statement("insert_message", messages)]


def _find_call_units(keys: Params, wanted: set[str]) -> Transaction[dict[str, int]]:
    """Find the unit of calls that were made in earlier turns: that of the earliest of them."""
    if not wanted:
        return {}
    units: dict[str, int] = {}
    for unit, parts in (yield from query("rich_messages", keys)):
        for part in decode_parts(parts):
            if isinstance(part, ToolCall) and part.id in wanted:
                units.setdefault(part.id, unit)  # the newest, where an id was reused
    return dict.fromkeys(units, min(units.values(), default=0))


def build_extension(keys: Params, fresh: Sequence[Entry], next_position: int, time: int) -> Statement:
    """Return the statement that adds new messages to their thread's row, and creates it if needed."""
    values = {
        "title": DEFAULT_TITLE,
        "updated_at": time,
        "last_message_at": fresh[-1].columns["created_at"],
        "added": len(fresh),
        "next_position": next_position,
    }
    return Statement("extend_thread", {**keys, **values})


def map_stored_places(found: Sequence[Row], keys: Params) -> dict[str, Placement]:
    """Return the places of messages that are already stored; raise if one is in another thread."""
    for message_id, thread_id, *_ in found:
        if thread_id != keys["thread_id"]:
            raise ConflictError(
                f"the message id {message_id!r} is already used in thread {thread_id!r} of this user; "
                "give the message an id of its own"
            )
    return {message_id: Placement(position, number) for message_id, _, position, number, _ in found}


def _check_turn(messages: Iterable[Message]) -> list[Message]:
    if isinstance(messages, Message) or not isinstance(cast("object", messages), Iterable):
        raise InvalidArgumentError("messages", f"must be a list of messages, not {type(messages).__name__}")
    turn = list(messages)
    for message in cast("list[object]", turn):
        if not isinstance(message, Message):
            raise InvalidArgumentError(
                "messages", f"must contain Message values, not {type(message).__name__}"
            )
    if not turn:
        raise InvalidArgumentError("messages", "must not be empty")
    if len({message.id for message in turn}) != len(turn):
        raise InvalidArgumentError("messages", "two messages of one turn have the same id")
    return turn
