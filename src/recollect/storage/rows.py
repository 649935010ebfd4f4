"""Conversions between rows and values: times, keys and messages.

Both databases store times as whole microseconds since 1970 in UTC, so that they come back exactly.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from recollect.errors import StorageCorruptError
from recollect.messages import Message, Part, part_from_dict, part_to_dict
from recollect.scope import Scope
from recollect.storage.engine import Row
from recollect.text.terms import analyse
from recollect.validation import encode_json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(time: datetime) -> int:
    """Return the time in microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the time of a number of microseconds since 1970."""
    return _EPOCH + timedelta(0, 0, micros)


def user_keys(scope: Scope) -> dict[str, object]:
    """Return the key columns that name a user."""
    return {"user_id": scope.user_id, "tenant_id": scope.tenant_key}


def app_keys(scope: Scope) -> dict[str, object]:
    """Return the key columns that name a user's threads of one app and project."""
    return user_keys(scope) | {"app_id": scope.app_id, "project_id": scope.project_id}


def thread_keys(scope: Scope) -> dict[str, object]:
    """Return the key columns that name one thread; raise where the scope names none."""
    return {
        "user_id": scope.user_id,
        "tenant_id": scope.tenant_key,
        "app_id": scope.app_id,
        "project_id": scope.project_id,
        "thread_id": scope.required_thread_id,
    }


def encode_metadata(metadata: Mapping[str, object]) -> str | None:
    """Return the column of metadata: None where there is none, as in most messages."""
    return encode_json(metadata, "metadata") if metadata else None


def decode_json(column: str) -> object:
    """Decode a column of JSON; raise `StorageCorruptError` where it is damaged."""
    try:
        return json.loads(column)
    except ValueError as error:
        raise _make_damage_error() from error


def decode_metadata(column: str | None) -> dict[str, object]:
    """Decode a column of metadata; None means none."""
    return {} if column is None else cast("dict[str, object]", decode_json(column))


def encode_message(message: Message, run_id: str | None) -> dict[str, object]:
    """Return the columns of a message that do not depend on its position."""
    parts = None
    if not isinstance(message.body, str):
        parts = encode_json([part_to_dict(part) for part in message.body], "content")
    text = message.text
    terms = analyse(text) if message.is_conversation else None
    return {
        "message_id": message.id,
        "run_id": run_id,
        "role": message.role,
        "origin": message.origin,
        "created_at": to_micros(message.created_at),
        "text": text,
        "parts": parts,
        "metadata": encode_metadata(message.metadata),
        "term_hashes": None if terms is None else terms.hashes,
        "term_counts": None if terms is None else terms.counts,
    }


class _Draft:
    """A message whose fields are being set; assigning `__class__` makes it a `Message`."""

    __slots__ = (
        "body",
        "created_at",
        "id",
        "kind",
        "metadata",
        "number",
        "origin",
        "position",
        "role",
        "run_id",
        "thread_id",
    )


def decode_message(row: Row) -> Message:
    """Make a message from the columns of the fragment `message_columns`.

    Reading history is the hottest path of the package. Creating a frozen dataclass takes seven times as long
    as setting plain slots, and stored messages need no second check, hence the change of class.
    """
    draft = _Draft()
    (
        draft.id,
        draft.role,
        draft.origin,
        text,
        parts,
        metadata,
        created_at,
        draft.thread_id,
        draft.position,
        draft.number,
        draft.run_id,
        _unit,
    ) = row
    draft.kind = None
    draft.body = text if parts is None else decode_parts(parts)
    draft.metadata = {} if metadata is None else decode_metadata(metadata)
    draft.created_at = _EPOCH + timedelta(0, 0, created_at)
    cast("Any", draft).__class__ = Message
    return cast("Message", draft)


def decode_parts(column: str) -> tuple[Part, ...]:
    """Decode a column of message parts; raise `StorageCorruptError` where it is damaged."""
    try:
        return tuple(part_from_dict(part) for part in json.loads(column))
    except (TypeError, ValueError) as error:
        raise _make_damage_error() from error


def _make_damage_error() -> StorageCorruptError:
    return StorageCorruptError("a stored row is damaged; restore the database from a backup")
