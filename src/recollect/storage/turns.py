"""Writing: one turn, one transaction."""

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
from recollect.storage.records import DEFAULT_TITLE, Placed
from recollect.storage.rows import decode_message, decode_parts, encode_message, thread_keys, to_micros
from recollect.tool_pairs import assign_units, find_earlier_calls
from recollect.validation import check_id


class Turns(StoreCore):
    """Appending to threads."""

    async def append_turn(
        self, messages: Iterable[Message], *, scope: Scope, run_id: str | None = None
    ) -> list[Placed]:
        """Append messages to the scope's thread, all or none, and return where each one stands.

        A message whose id the thread already has is not written again: its first version stays,
        and its place is returned. The thread is created if it is missing. A run is written once: sent
        again in other words it is a conflict, so that two answers of one run never mix.
        """
        turn = _checked_turn(messages)
        scope.required_thread_id  # noqa: B018 - raises where there is no thread
        if run_id is not None:
            check_id(run_id, "run_id")
        entries = [encode(message, run_id) for message in turn]
        work = partial(_append, scope, entries, to_micros(self._clock()), run_id)
        return await self._write(work, scope)


@dataclass(slots=True)
class Entry:
    """A message on its way into the database, and the columns that do not depend on its place."""

    message: Message
    columns: dict[str, object]


def encode(message: Message, run_id: str | None) -> Entry:
    """Do all work on a message that needs no database."""
    return Entry(message, encode_message(message, run_id))


def _append(
    scope: Scope, entries: Sequence[Entry], time: int, run_id: str | None
) -> Transaction[list[Placed]]:
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
    places = places_in_thread(found, keys)
    if of_run:
        _check_run(of_run[0], entries, run_id)
    fresh = [entry for entry in entries if entry.message.id not in places]
    if fresh:
        start = cast("int", threads[0][-1]) if threads else 1
        numbers = numbers_drawn(drawn, len(entries))
        for position, (entry, number) in enumerate(zip(fresh, numbers, strict=False), start):
            places[entry.message.id] = Placed(position, number)
        statements = yield from insertions(keys, fresh, places)
        statements.append(extension(keys, fresh, start + len(fresh), time))
        yield Step(statements, last=True)
    return [places[entry.message.id] for entry in entries]


def prefix_bounds(run_id: str) -> dict[str, object]:
    """Return between which texts the ids of a run's messages lie; ";" comes right behind ":"."""
    return {"low": f"{run_id}:", "high": f"{run_id};"}


def _check_run(rows: Sequence[Row], entries: Sequence[Entry], run_id: str | None) -> None:
    """Refuse a turn whose run is stored already, unless it says the same."""
    stored = [decode_message(row) for row in rows]
    stored = [message for message in stored if message.run_id == run_id]  # not those of a longer run id
    given = {entry.message.id: entry.message for entry in entries if _is_of_run(entry.message.id, run_id)}
    said = {message.id: (message.role, message.body) for message in stored}
    if stored and said != {name: (message.role, message.body) for name, message in given.items()}:
        raise ConflictError(
            f"the run {run_id!r} is already stored with another turn; give each run an id of its own"
        )


def _is_of_run(message_id: str, run_id: str | None) -> bool:
    return message_id.startswith(f"{run_id}:")


def numbers_drawn(rows: Sequence[Row], count: int) -> list[int]:
    """Return the numbers of `draw_numbers`: SQLite names the last of a run, PostgreSQL each."""
    if len(rows) == count:
        return [row[0] for row in rows]
    return list(range(rows[0][0] - count + 1, rows[0][0] + 1))


def insertions(
    keys: Params, entries: Sequence[Entry], places: Mapping[str, Placed]
) -> Transaction[list[Statement]]:
    """Return the statements that write messages of one thread to their places."""
    turn = [entry.message for entry in entries]
    earlier = yield from _calls_before(keys, find_earlier_calls(turn))
    units = assign_units([(places[message.id].position, message) for message in turn], earlier)
    messages: list[Params] = []
    for entry, unit in zip(entries, units, strict=True):
        position, number = places[entry.message.id]
        messages.append({**keys, **entry.columns, "position": position, "number": number, "unit": unit})
    # What stands between an earlier call and its late result is tied to both, before the rest comes in.
    joins = [Statement("join_unit", {**keys, "unit": unit}) for unit in set(earlier.values())]
    return [*joins, Statement("insert_message", messages)]


def _calls_before(keys: Params, wanted: set[str]) -> Transaction[dict[str, int]]:
    """Find the unit that late results belong to: where the earliest of their calls stands."""
    if not wanted:
        return {}
    units: dict[str, int] = {}
    for unit, parts in (yield from query("rich_messages", keys)):
        for part in decode_parts(parts):
            if isinstance(part, ToolCall) and part.id in wanted:
                units.setdefault(part.id, unit)  # the newest, where an id was used again
    return dict.fromkeys(units, min(units.values(), default=0))


def extension(keys: Params, fresh: Sequence[Entry], next_position: int, time: int) -> Statement:
    """Return the statement that counts new messages into their thread."""
    values = {
        "title": DEFAULT_TITLE,
        "updated_at": time,
        "last_message_at": fresh[-1].columns["created_at"],
        "added": len(fresh),
        "next_position": next_position,
    }
    return Statement("extend_thread", {**keys, **values})


def places_in_thread(found: Sequence[Row], keys: Params) -> dict[str, Placed]:
    """Return where messages already stand; an id that another thread has is an error."""
    for message_id, thread_id, *_ in found:
        if thread_id != keys["thread_id"]:
            raise ConflictError(
                f"the message id {message_id!r} is already used in thread {thread_id!r} of this user; "
                "give the message an id of its own"
            )
    return {message_id: Placed(position, number) for message_id, _, position, number, _ in found}


def _checked_turn(messages: Iterable[Message]) -> list[Message]:
    if isinstance(messages, Message) or not isinstance(cast("object", messages), Iterable):
        raise InvalidArgumentError("messages", f"must be a list of messages, not {type(messages).__name__}")
    turn = list(messages)
    for message in cast("list[object]", turn):
        if not isinstance(message, Message):
            raise InvalidArgumentError("messages", f"must hold Message values, not {type(message).__name__}")
    if not turn:
        raise InvalidArgumentError("messages", "must not be empty")
    if len({message.id for message in turn}) != len(turn):
        raise InvalidArgumentError("messages", "two messages of one turn have the same id")
    return turn
