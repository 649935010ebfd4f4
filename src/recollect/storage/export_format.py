"""The export format: one JSON line for each row."""

import json
import re

from recollect.messages import part_to_dict
from recollect.storage.engine import Row
from recollect.storage.rows import decode_message, decode_metadata, decode_object, from_micros

_OTHER_LINE_BREAKS = re.compile("[\x7f\x85\u2028\u2029]")  # str.splitlines() splits at three of them

FORMAT = 1
"""The version of the export format; a reader rejects any other."""

EVENT_FIELDS = ("app_id", "project_id", "thread_id", "name", "run_id", "payload", "created_at")
"""The fields of an event that tell it from others."""


def format_thread(row: Row) -> str:
    """Format the columns of the fragment `thread_columns`."""
    thread_id, app_id, project_id, title, metadata, created, updated, _, _, next_position = row
    return _format_line(
        kind="thread",
        app_id=app_id,
        project_id=project_id,
        id=thread_id,
        title=title,
        metadata=decode_metadata(metadata),
        created_at=_format_time(created),
        updated_at=_format_time(updated),
        next_position=next_position,
    )


def format_message(row: Row) -> str:
    """Format an app, a project and the columns of the fragment `message_columns`."""
    app_id, project_id, *columns = row
    message = decode_message(tuple(columns))
    body = message.body
    return _format_line(
        kind="message",
        app_id=app_id,
        project_id=project_id,
        thread_id=message.thread_id,
        position=message.position,
        id=message.id,
        role=message.role,
        origin=message.origin,
        content=body if isinstance(body, str) else [part_to_dict(part) for part in body],
        metadata=message.metadata,
        created_at=message.created_at.isoformat(),
        run_id=message.run_id,
        expires_at=None if message.expires_at is None else message.expires_at.isoformat(),
    )


def format_memory(row: Row) -> str:
    """Format a row of `list_memory`."""
    key, _, value, updated = row
    return _format_line(kind="memory", key=key, value=decode_object(value), updated_at=_format_time(updated))


def format_state(row: Row) -> str:
    """Format a row of `get_state`."""
    mode, updated = row
    return _format_line(kind="state", mode=mode, updated_at=_format_time(updated))


def format_working_memory(row: Row) -> str:
    """Format one version; a user's own working memory has no app, project and thread."""
    app_id, project_id, thread_id, version, value, run_id, updated = row
    return _format_line(
        kind="working_memory",
        app_id=app_id or None,
        project_id=project_id or None,
        thread_id=thread_id or None,
        version=version,
        value=decode_object(value),
        run_id=run_id,
        updated_at=_format_time(updated),
    )


def format_event(row: Row) -> str:
    """Format an app, a project and the columns of the fragment `event_columns`."""
    app_id, project_id, _number, thread_id, name, run_id, payload, context_visible, created = row
    return _format_line(
        kind="event",
        app_id=app_id,
        project_id=project_id,
        thread_id=thread_id,
        name=name,
        run_id=run_id,
        payload=decode_object(payload),
        context_visible=bool(context_visible),
        created_at=_format_time(created),
    )


def _format_time(micros: int) -> str:
    return from_micros(micros).isoformat()


def _format_line(**values: object) -> str:
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return _OTHER_LINE_BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
