"""Taking a user's data out as JSON lines, and reading it back.

An export holds everything but what is derived (search rows) and what names the place (integer
ids). It begins with a line that says what it is and ends with one that counts the others, so that
a file that was cut short is noticed before anything is written.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from recollect.errors import ConflictError, InvalidArgumentError
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Statement, Step, Transaction, query
from recollect.storage.export_format import (
    EVENT_FIELDS,
    FORMAT,
    event_line,
    memory_line,
    message_line,
    state_line,
    thread_line,
    working_memory_line,
)
from recollect.storage.records import Placed
from recollect.storage.rows import to_micros, user_keys
from recollect.storage.turns import (
    encode,
    extension,
    insertions,
    numbers_drawn,
    places_in_thread,
)
from recollect.storage.users import KINDS
from recollect.working_memory import KEPT_VERSIONS

if TYPE_CHECKING:
    from recollect.storage.export_reader import Export, ExportedThread


class Transfer(StoreCore):
    """Export and import of users."""

    async def export(self, *, scope: Scope) -> AsyncIterator[str]:
        """Yield everything that is kept about the user as JSON lines, as of one moment."""
        for line in await self._read(partial(_export, scope), scope, heavy=True):
            yield line

    async def import_(
        self, lines: Iterable[str] | AsyncIterable[str], *, merge: bool = False, scope: Scope
    ) -> dict[str, int]:
        """Read an export into the scope's user, all or nothing, and return the counts of what was written.

        The user may have another id or tenant than the export names. A user of whom something is
        kept already is an error unless `merge` is set: then messages that are new are appended to their
        threads, events that are new are added, and of two memory values, states or working memories the newer
        one stays.
        """
        from recollect.storage.export_reader import read_export

        export = await asyncio.to_thread(read_export, await _collected(lines))
        work = partial(_import, export, scope, merge=merge, time=to_micros(self._clock()))
        return await self._write(work, scope, heavy=True)


def _export(scope: Scope) -> Transaction[list[str]]:
    keys = user_keys(scope)
    names = ("all_threads", "all_messages", "list_memory", "get_state", "all_working_memory", "all_events")
    found = yield Step([Statement(name, keys) for name in names], last=True)
    threads, messages, memory, state, working_memory, events = found
    lines = [
        *(thread_line(row) for row in threads),
        *(message_line(row) for row in messages),
        *(memory_line(row) for row in memory),
        *(state_line(row) for row in state),
        *(working_memory_line(row) for row in working_memory),
        *(event_line(row) for row in events),
    ]
    head = {"kind": "export", "format": FORMAT, "tenant_id": scope.tenant_id, "user_id": scope.user_id}
    return [json.dumps(head), *lines, json.dumps({"kind": "end", "lines": len(lines)})]


async def _collected(lines: Iterable[str] | AsyncIterable[str]) -> list[str]:
    if isinstance(lines, str):
        raise InvalidArgumentError("lines", "must be a series of lines, not one text; use text.splitlines()")
    if isinstance(lines, AsyncIterable):
        return [line async for line in lines]
    if not isinstance(cast("object", lines), Iterable):
        raise InvalidArgumentError("lines", f"must be a series of lines, not {type(lines).__name__}")
    return list(lines)


def _import(export: "Export", scope: Scope, *, merge: bool, time: int) -> Transaction[dict[str, int]]:
    keys = user_keys(scope)
    count = len(export.messages) + len(export.memory) + len(export.events) + 1
    _, drawn, *counted = yield Step(
        [
            Statement("lock_user", keys),
            Statement("draw_numbers", {"count": count}),
            *(Statement(f"count_{kind}", keys) for kind in KINDS),
        ]
    )
    if not merge and any(rows[0][0] for rows in counted):
        raise ConflictError("something is kept about this user already; erase it first, or merge")
    numbers = iter(numbers_drawn(drawn, count))
    for message in export.messages.values():
        message.number = next(numbers)
    threads = written = 0
    for thread in export.threads.values():
        is_new, fresh = yield from _import_thread(keys, thread, time)
        threads += is_new
        written += fresh
    memory = yield from _import_memory(keys, [*export.memory.values()], numbers)
    state = yield from _import_state(keys, export.state)
    working_memory = yield from _import_working_memory(keys, [*export.working_memory.values()])
    events = yield from _import_events(keys, export.events, numbers)
    return {
        "threads": threads,
        "messages": written,
        "user_memory": memory,
        "user_state": state,
        "working_memory": working_memory,
        "events": events,
    }


def _import_thread(user: Params, thread: "ExportedThread", time: int) -> Transaction[tuple[bool, int]]:
    """Write what is new of a thread; say whether all of it was, and how many messages were."""
    keys = {**user, **thread.keys}
    ids = json.dumps([item.message.id for item in thread.messages])
    present, found = yield Step(
        (Statement("get_thread", keys), Statement("find_messages", {**keys, "ids": ids}))
    )
    places = places_in_thread(found, keys)
    fresh = [item for item in thread.messages if item.message.id not in places]
    entries = [encode(item.message, item.run_id) for item in fresh]
    offset = cast("int", present[0][-1]) if present else 0
    for index, item in enumerate(fresh):
        position = offset + index if present else item.position
        places[item.message.id] = Placed(position, item.number)
    statements = yield from insertions(keys, entries, places)
    if not present:
        statements.append(Statement("create_thread", {**keys, **thread.columns(entries)}))
    elif fresh:
        statements.append(extension(keys, entries, offset + len(fresh), time))
    yield Step(statements)
    return not present, len(fresh)


def _import_memory(
    user: Params, entries: list[dict[str, object]], numbers: Iterator[int]
) -> Transaction[int]:
    rows = yield from query("list_memory", user)
    stored = {key: updated_at for key, _, _, updated_at in rows}
    newer = [
        {**user, **entry, "number": next(numbers)}
        for entry in entries
        if entry["key"] not in stored or cast("int", entry["updated_at"]) > stored[entry["key"]]
    ]
    yield Step([Statement("set_memory", entry) for entry in newer])
    return len(newer)


def _import_state(user: Params, state: dict[str, object] | None) -> Transaction[int]:
    rows = yield from query("get_state", user)
    if state is None or (rows and rows[0][1] >= state["updated_at"]):
        return 0
    yield Step((Statement("set_state", {**user, **state}),))
    return 1


def _import_working_memory(user: Params, memories: list[list[dict[str, object]]]) -> Transaction[int]:
    """Write all versions where there is none yet; else the last one as the next, if it is newer."""
    written = 0
    for versions in memories:
        keys = {**user, **versions[-1]}
        rows = yield from query("working_memory_versions", {**keys, "limit": 1})
        if rows and cast("int", versions[-1]["updated_at"]) <= rows[0][3]:
            continue
        new = [keys | {"version": rows[0][0] + 1}] if rows else [{**user, **version} for version in versions]
        oldest = {**keys, "oldest": cast("int", new[-1]["version"]) - KEPT_VERSIONS}
        yield Step((Statement("add_working_memory", [*new]), Statement("trim_working_memory", oldest)))
        written += len(new)
    return written


def _import_events(user: Params, events: list[dict[str, object]], numbers: Iterator[int]) -> Transaction[int]:
    """Write the events that are not there yet, in their order.

    Nothing names an event but all that it says, so as many alike are written as there are more of them.
    """
    rows = yield from query("all_events", user)
    stored = Counter(
        (*row[:2], *row[3:7], row[8]) for row in rows
    )  # without the number and what never varies
    new: list[Params] = []
    for event in events:
        said = tuple(event[name] for name in EVENT_FIELDS)
        if stored[said]:
            stored[said] -= 1
        else:
            new.append({**user, **event, "number": next(numbers)})
    if new:
        yield Step((Statement("add_event", new),))
    return len(new)
