"""Exporting a user's data as JSON lines, and importing it.

An export holds everything except derived data (search rows) and integer ids, which belong to one
database. Its first line names the format, and its last line counts the others, so that an import
notices a truncated file before it writes anything.
"""

import asyncio
import json
import zlib
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from recollect.errors import ConflictError, InvalidArgumentError
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Row, Statement, Step, Transaction, query
from recollect.storage.export_format import (
    EVENT_FIELDS,
    FORMAT,
    format_event,
    format_memory,
    format_message,
    format_state,
    format_thread,
    format_working_memory,
)
from recollect.storage.records import Placement
from recollect.storage.rows import decoding, encode_message
from recollect.storage.turns import (
    Entry,
    build_creation,
    build_extension,
    build_inserts,
    check_room,
    list_drawn_numbers,
    map_stored_places,
    remove_expired,
)
from recollect.storage.users import KINDS
from recollect.working_memory import MAX_VERSIONS

if TYPE_CHECKING:
    from recollect.storage.export_reader import Export, ExportedThread


_CHUNK = 5000  # messages that an export reads at a time


class Transfer(StoreCore):
    """Exports and imports users."""

    async def export(self, *, scope: Scope) -> AsyncIterator[str]:
        """Yield everything stored about the user as JSON lines, from one snapshot of the database."""
        for chunk in await self._read(partial(_export, scope, self._user_keys(scope)), scope, heavy=True):
            for line in _unpack(chunk):
                yield line
            await asyncio.sleep(0)  # a reader that never waits lets others go on

    async def import_(
        self, lines: Iterable[str] | AsyncIterable[str], *, merge: bool = False, scope: Scope
    ) -> dict[str, int]:
        """Import an export into the scope's user, all or nothing, and return the counts of what was written.

        The user may have another id or tenant than the export names. A user who has data already is an
        error unless `merge` is set. A merge appends new messages to their threads and adds new events; of two
        memory values, states or working memories the newer one wins.
        """
        export = await asyncio.to_thread(_read_export, await _collect_lines(lines))
        work = partial(_import, export, self._user_keys(scope), merge=merge)
        return await self._write(work, scope, heavy=True)


def _export(scope: Scope, keys: Params) -> Transaction[list[bytes]]:
    """Return the lines in packed chunks: the snapshot ends soon, and a million lines take little memory."""
    names = ("all_threads", "list_memory", "get_state", "all_working_memory", "all_events")
    found = yield Step(
        [Statement("message_chunks", {**keys, "size": _CHUNK}), *(Statement(name, keys) for name in names)]
    )
    chunks, threads, memory, state, working_memory, events = found
    head = {"kind": "export", "format": FORMAT, "tenant_id": scope.tenant_id, "user_id": scope.user_id}
    packed = [_pack([json.dumps(head), *_format_rows("thread", format_thread, threads)])]
    count = len(threads)
    for (numbers,) in chunks:
        rows = yield from query("messages_of_chunk", {**keys, "numbers": numbers})
        packed.append(_pack(_format_rows("message", format_message, rows)))
        count += len(rows)
    rest = [
        *_format_rows("memory entry", format_memory, memory),
        *_format_rows("state", format_state, state),
        *_format_rows("working memory", format_working_memory, working_memory),
        *_format_rows("event", format_event, events),
    ]
    packed.append(_pack([*rest, json.dumps({"kind": "end", "lines": count + len(rest)})]))
    return packed


def _pack(lines: Iterable[str]) -> bytes:
    return zlib.compress("\n".join(lines).encode(), level=1)  # no line has a line break within


def _unpack(chunk: bytes) -> list[str]:
    return zlib.decompress(chunk).decode().split("\n")


def _format_rows(kind: str, format_row: Callable[[Row], str], rows: list[Row]) -> Iterator[str]:
    """Yield a line for each row; a damaged one is an error: an export must not lack it without a word."""
    for number, row in enumerate(rows, 1):
        with decoding(f"{kind} {number} of {len(rows)} of the user"):
            yield format_row(row)


async def _collect_lines(lines: Iterable[str] | AsyncIterable[str]) -> list[str]:
    if isinstance(lines, str):
        raise InvalidArgumentError("lines", "must be a list of lines, not one text; use text.splitlines()")
    if isinstance(lines, AsyncIterable):
        return [line async for line in lines]
    if not isinstance(cast("object", lines), Iterable):
        raise InvalidArgumentError("lines", f"must be a list of lines, not {type(lines).__name__}")
    return list(lines)


def _read_export(lines: list[str]) -> "Export":
    from recollect.storage.export_reader import read_export  # it loads Pydantic, which takes a while

    return read_export(lines)


def _import(export: "Export", keys: Params, *, merge: bool) -> Transaction[dict[str, int]]:
    count = len(export.memory) + len(export.events) + 1
    _, drawn, message_numbers, *counted = yield Step(
        [
            Statement("lock_user", keys),
            Statement("draw_numbers", {"count": count}),
            Statement("draw_message_numbers", {"count": len(export.messages) + 1}),
            *(Statement(f"count_{kind}", keys) for kind in KINDS),
        ]
    )
    if not merge and any(rows[0][0] for rows in counted):
        raise ConflictError("this user has data already; erase it first, or import with merge=True")
    yield from remove_expired(keys)
    numbers = iter(list_drawn_numbers(drawn, count))
    drawn_for_messages = list_drawn_numbers(message_numbers, len(export.messages) + 1)
    for message, number in zip(export.messages.values(), drawn_for_messages, strict=False):
        message.number = number
    threads = written = 0
    for thread in export.threads.values():
        is_new, fresh = yield from _import_thread(keys, thread)
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


def _import_thread(user: Params, thread: "ExportedThread") -> Transaction[tuple[bool, int]]:
    """Write the new messages of a thread that have not expired.

    Returns whether the thread is new too, and how many messages there are.
    """
    keys = {**user, **thread.keys}
    ids = json.dumps([item.message.id for item in thread.messages])
    present, found = yield Step(
        (Statement("get_thread", keys), Statement("find_messages", {**keys, "ids": ids}))
    )
    places = map_stored_places(found, keys)
    now = cast("int", user["now"])
    fresh = [
        item
        for item in thread.messages
        if item.message.id not in places and (item.expires_at is None or item.expires_at > now)
    ]
    entries = [
        Entry(item.message, encode_message(item.message, item.run_id, item.expires_at)) for item in fresh
    ]
    if present and not fresh:
        return False, 0
    creation = [] if present else build_creation(keys, thread.columns(len(fresh)))
    *_, extended = yield Step((*creation, build_extension(keys, entries)))
    start, _, thread_key, owner, app = extended[0]
    new = [
        Placement(start + index if present else item.position, item.number)
        for index, item in enumerate(fresh)
    ]
    check_room(max((place.position for place in new), default=0))
    inside = {**keys, "thread": thread_key, "owner": owner, "app": app}
    yield Step((yield from build_inserts(inside, entries, new)))
    if not present:  # extending the thread has set the time
        yield Step((Statement("update_thread", {**keys, **thread.values}),))
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
    """Write all versions if none is stored; else only the last one, if it is newer, as the next version."""
    written = 0
    for versions in memories:
        keys = {**user, **versions[-1]}
        rows = yield from query("working_memory_versions", {**keys, "limit": 1})
        if rows and cast("int", versions[-1]["updated_at"]) <= rows[0][3]:
            continue
        new = [keys | {"version": rows[0][0] + 1}] if rows else [{**user, **version} for version in versions]
        oldest = {**keys, "oldest": cast("int", new[-1]["version"]) - MAX_VERSIONS}
        yield Step((Statement("add_working_memory", [*new]), Statement("trim_working_memory", oldest)))
        written += len(new)
    return written


def _import_events(user: Params, events: list[dict[str, object]], numbers: Iterator[int]) -> Transaction[int]:
    """Write the events that are not stored yet, in order.

    Events have no id of their own, so two are the same if all their fields are. Equal ones are counted:
    if the export has three and the store one, two are written.
    """
    rows = yield from query("all_events", user)
    # The columns of EVENT_FIELDS: without the number and `context_visible`, which never varies.
    stored = Counter((*row[:2], *row[3:7], row[8]) for row in rows)
    new: list[Params] = []
    for event in events:
        fields = tuple(event[name] for name in EVENT_FIELDS)
        if stored[fields]:
            stored[fields] -= 1
        else:
            new.append({**user, **event, "number": next(numbers)})
    if new:
        yield Step((Statement("add_event", new),))
    return len(new)
