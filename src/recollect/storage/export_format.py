"""The lines of an export: written from rows, and checked when they are read."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias, cast

from recollect.errors import InvalidArgumentError
from recollect.messages import Message, Origin, Role, part_from_dict, part_to_dict
from recollect.storage.engine import Row
from recollect.storage.rows import (
    decode_json,
    decode_metadata,
    decode_parts,
    encode_metadata,
    from_micros,
    to_micros,
)
from recollect.storage.turns import Entry
from recollect.validation import check_id, check_int, check_json_object, check_text, check_time, json_text
from recollect.working_memory import KEPT_VERSIONS, encode

_Record: TypeAlias = dict[str, Any]
_Key: TypeAlias = tuple[str, str, str]

_LAST_POSITION = 2**62  # leaves room for all the messages that may still come
_OTHER_LINE_BREAKS = re.compile("[\x7f\x85\u2028\u2029]")  # str.splitlines() breaks at three of them

FORMAT = 1
"""The version of the export format; a reader refuses any other."""


EVENT_FIELDS = ("app_id", "project_id", "thread_id", "name", "run_id", "payload", "created_at")
"""What an event of an export says."""


@dataclass(slots=True)
class ParcelMessage:
    """A message of an export, and where it stood."""

    message: Message
    position: int
    run_id: str | None
    number: int = 0


@dataclass(slots=True)
class ParcelThread:
    """A thread of an export with its messages in order."""

    keys: dict[str, object]
    values: dict[str, object]
    messages: list[ParcelMessage] = field(default_factory=list[ParcelMessage])

    def columns(self, entries: list[Entry]) -> dict[str, object]:
        """Return the columns of the thread's row once these messages are in it."""
        last = entries[-1].columns["created_at"] if entries else None
        return self.values | {"last_message_at": last, "message_count": len(entries)}


@dataclass(slots=True)
class Parcel:
    """All that an export says, checked and ready to be written."""

    threads: dict[_Key, ParcelThread] = field(default_factory=dict[_Key, ParcelThread])
    messages: dict[_Key, ParcelMessage] = field(default_factory=dict[_Key, ParcelMessage])
    memory: dict[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])
    state: dict[str, object] | None = None
    working_memory: dict[_Key, list[dict[str, object]]] = field(
        default_factory=dict[_Key, list[dict[str, object]]]
    )
    events: list[dict[str, object]] = field(default_factory=list[dict[str, object]])


def thread_line(row: Row) -> str:
    """Write a thread from the columns of the fragment `thread_columns`."""
    thread_id, _, _, app_id, project_id, title, metadata, created, updated, _, _, next_position = row
    return _line(
        kind="thread",
        app_id=app_id,
        project_id=project_id,
        id=thread_id,
        title=title,
        metadata=decode_metadata(metadata),
        created_at=_time(created),
        updated_at=_time(updated),
        next_position=next_position,
    )


def message_line(row: Row) -> str:
    """Write a message from its app, its project and the columns of the fragment `message_columns`."""
    app_id, project_id, message_id, role, origin, text, parts, metadata, created, thread_id, *rest = row
    position, _number, run_id, _unit = rest
    return _line(
        kind="message",
        app_id=app_id,
        project_id=project_id,
        thread_id=thread_id,
        position=position,
        id=message_id,
        role=role,
        origin=origin,
        content=text if parts is None else [part_to_dict(part) for part in decode_parts(parts)],
        metadata=decode_metadata(metadata),
        created_at=_time(created),
        run_id=run_id,
    )


def memory_line(row: Row) -> str:
    """Write a memory value."""
    key, _, value, updated = row
    return _line(kind="memory", key=key, value=decode_json(value), updated_at=_time(updated))


def state_line(row: Row) -> str:
    """Write a state."""
    mode, updated = row
    return _line(kind="state", mode=mode, updated_at=_time(updated))


def working_memory_line(row: Row) -> str:
    """Write a version of a working memory; what belongs to the user names no app, project and thread."""
    app_id, project_id, thread_id, version, value, run_id, updated = row
    return _line(
        kind="working_memory",
        app_id=app_id or None,
        project_id=project_id or None,
        thread_id=thread_id or None,
        version=version,
        value=decode_json(value),
        run_id=run_id,
        updated_at=_time(updated),
    )


def event_line(row: Row) -> str:
    """Write an event from its app, its project and the columns of the fragment `event_columns`."""
    app_id, project_id, _number, thread_id, name, run_id, payload, context_visible, created = row
    return _line(
        kind="event",
        app_id=app_id,
        project_id=project_id,
        thread_id=thread_id,
        name=name,
        run_id=run_id,
        payload=decode_json(payload),
        context_visible=bool(context_visible),
        created_at=_time(created),
    )


def read_parcel(lines: Iterable[str]) -> Parcel:
    """Read an export; an `InvalidArgumentError` names the line that is wrong."""
    records = [_record(number, line) for number, line in enumerate(lines, 1) if not _is_blank(line)]
    _check_frame(records)
    parcel = Parcel()
    for number, record in records[1:-1]:
        try:
            _READERS[check_id(record["kind"], "kind")](record, parcel)
        except InvalidArgumentError as error:
            raise _wrong(number, str(error)) from None
        except KeyError as error:
            raise _wrong(number, f"{error.args[0]!r} is missing or unknown") from None
    return parcel


def _check_frame(records: list[tuple[int, _Record]]) -> None:
    if not records or records[0][1].get("kind") != "export":
        raise InvalidArgumentError("lines", "this is no export of recollect: the first line does not say so")
    if records[0][1].get("format") != FORMAT:
        raise InvalidArgumentError("lines", f"only export format {FORMAT} can be read by this version")
    if records[-1][1] != {"kind": "end", "lines": len(records) - 2}:
        raise InvalidArgumentError(
            "lines", "the export is not whole: its last line is missing or counts otherwise"
        )


def _read_thread(record: _Record, parcel: Parcel) -> None:
    thread = ParcelThread(
        keys=dict(zip(("app_id", "project_id", "thread_id"), _key(record, "id"), strict=True)),
        values={
            "title": check_text(record["title"], "title"),
            "metadata": encode_metadata(check_json_object(record["metadata"], "metadata")),
            "created_at": _micros(record, "created_at"),
            "updated_at": _micros(record, "updated_at"),
            "next_position": check_int(
                record["next_position"], "next_position", minimum=1, maximum=_LAST_POSITION
            ),
        },
    )
    if parcel.threads.setdefault(_key(record, "id"), thread) is not thread:
        raise InvalidArgumentError("id", "this thread is there twice")


def _read_message(record: _Record, parcel: Parcel) -> None:
    thread = parcel.threads.get(_key(record, "thread_id"))
    if thread is None:
        raise InvalidArgumentError("thread_id", "the export has no such thread before this line")
    position = check_int(record["position"], "position", minimum=1)
    previous = thread.messages[-1].position if thread.messages else 0
    if not previous < position < cast("int", thread.values["next_position"]):
        raise InvalidArgumentError("position", "is not in the order of its thread")
    run_id = record["run_id"]
    item = ParcelMessage(_message(record), position, None if run_id is None else check_id(run_id, "run_id"))
    if parcel.messages.setdefault(_key(record, "id"), item) is not item:
        raise InvalidArgumentError("id", "another message of the export has this id")
    thread.messages.append(item)


def _message(record: _Record) -> Message:
    content = record["content"]
    return Message(
        cast("Role", record["role"]),
        content if isinstance(content, str) else [part_from_dict(part) for part in _objects(content)],
        id=check_id(record["id"], "id"),
        metadata=record["metadata"],
        created_at=_parsed_time(record, "created_at"),
        origin=cast("Origin", record["origin"]),
    )


def _read_memory(record: _Record, parcel: Parcel) -> None:
    entry: dict[str, object] = {
        "key": check_id(record["key"], "key"),
        "value": json_text(check_json_object(record["value"], "value"), "value"),
        "updated_at": _micros(record, "updated_at"),
    }
    if parcel.memory.setdefault(record["key"], entry) is not entry:
        raise InvalidArgumentError("key", "the export has another value under this key")


def _read_state(record: _Record, parcel: Parcel) -> None:
    if parcel.state is not None:
        raise InvalidArgumentError("state", "the export has another state")
    parcel.state = {"mode": check_id(record["mode"], "mode"), "updated_at": _micros(record, "updated_at")}


def _read_working_memory(record: _Record, parcel: Parcel) -> None:
    names = ("app_id", "project_id", "thread_id")
    is_of_user = all(record[name] is None for name in names)
    key = ("", "", "") if is_of_user else _key(record, "thread_id")
    versions = parcel.working_memory.setdefault(key, [])
    version = check_int(record["version"], "version", minimum=1, maximum=_LAST_POSITION)
    if versions and version <= cast("int", versions[-1]["version"]):
        raise InvalidArgumentError("version", "is not in the order of its working memory")
    if len(versions) == KEPT_VERSIONS:
        raise InvalidArgumentError("version", f"is one more than the {KEPT_VERSIONS} that are kept")
    entry: dict[str, object] = {
        "version": version,
        "value": encode(record["value"], "value"),
        "run_id": None if record["run_id"] is None else check_id(record["run_id"], "run_id"),
        "updated_at": _micros(record, "updated_at"),
    }
    versions.append(entry | dict(zip(names, key, strict=True)))


def _read_event(record: _Record, parcel: Parcel) -> None:
    if record["context_visible"] is not False:
        raise InvalidArgumentError("context_visible", "must be false: events are never a part of the talk")
    app_id, project_id, thread_id = _key(record, "thread_id")
    parcel.events.append(
        {
            "app_id": app_id,
            "project_id": project_id,
            "thread_id": thread_id,
            "name": check_id(record["name"], "name"),
            "run_id": None if record["run_id"] is None else check_id(record["run_id"], "run_id"),
            "payload": json_text(check_json_object(record["payload"], "payload"), "payload"),
            "created_at": _micros(record, "created_at"),
        }
    )


_READERS: dict[str, Callable[[_Record, Parcel], None]] = {
    "thread": _read_thread,
    "message": _read_message,
    "memory": _read_memory,
    "state": _read_state,
    "working_memory": _read_working_memory,
    "event": _read_event,
}


def _record(number: int, line: object) -> tuple[int, _Record]:
    if not isinstance(line, str):
        raise _wrong(number, f"is not text but {type(line).__name__}")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _wrong(number, f"is not JSON ({error})") from None
    if not isinstance(record, dict):
        raise _wrong(number, "is not a JSON object")
    return number, cast("_Record", record)


def _is_blank(line: object) -> bool:
    return isinstance(line, str) and not line.strip()


def _wrong(number: int, problem: str) -> InvalidArgumentError:
    return InvalidArgumentError("lines", f"line {number}: {problem}")


def _objects(content: object) -> list[Mapping[str, object]]:
    if not isinstance(content, list):
        raise InvalidArgumentError("content", "must be text or a list of parts")
    for part in cast("list[object]", content):
        if not isinstance(part, dict):
            raise InvalidArgumentError("content", "each part must be an object")
    return cast("list[Mapping[str, object]]", content)


def _key(record: _Record, name: str) -> _Key:
    """Return what a thread or a message is known by: its id within an app and a project."""
    app_id, project_id = check_id(record["app_id"], "app_id"), check_id(record["project_id"], "project_id")
    return app_id, project_id, check_id(record[name], name)


def _micros(record: _Record, name: str) -> int:
    return to_micros(_parsed_time(record, name))


def _parsed_time(record: _Record, name: str) -> datetime:
    try:
        return check_time(datetime.fromisoformat(record[name]), name)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(name, f"is not an ISO 8601 time with a time zone ({error})") from None


def _time(micros: int) -> str:
    return from_micros(micros).isoformat()


def _line(**values: object) -> str:
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return _OTHER_LINE_BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
