"""Conversions between rows and values: keys and messages.

Both databases store times as whole microseconds since 1970 in UTC, so that they come back exactly.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from recollect.errors import StorageCorruptError
from recollect.messages import (
    MESSAGE_CLASS,
    ORIGINS,
    ROLES,
    Message,
    MessageDraft,
    Part,
    from_micros,
    part_from_dict,
    part_to_dict,
    to_micros,
)
from recollect.scope import Scope
from recollect.storage.engine import Row
from recollect.validation import encode_json

_ROLE_CODES = {role: code for code, role in enumerate(ROLES)}
_ORIGIN_CODES = {origin: code for code, origin in enumerate(ORIGINS)}


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


def encode_message(message: Message, run_id: str | None, expires_at: int | None) -> dict[str, object]:
    """Return the columns of a message that do not depend on its position, and the bytes of its content."""
    body, parts, metadata = message.body, None, None
    text = body if isinstance(body, str) else message.text
    size = count_bytes(text)
    if not isinstance(body, str):
        parts = encode_json([part_to_dict(part) for part in body], "content")
        size += count_bytes(parts)
    if message.metadata:
        metadata = encode_json(message.metadata, "metadata")
        size += count_bytes(metadata)
    return {
        "message_id": message.id,
        "run_id": run_id,
        "role": message.role,
        "role_code": _ROLE_CODES[message.role],
        "origin": message.origin,
        "origin_code": _ORIGIN_CODES[message.origin],
        "created_at": to_micros(message.created_at),
        "expires_at": expires_at,
        "text": text,
        "parts": parts,
        "metadata": metadata,
        "bytes": size,
    }


def count_bytes(text: str) -> int:
    """Return the length of a text in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def decode_messages(rows: Iterable[Row]) -> list[Message]:
    """Make messages from the columns of the fragment `message_columns`; they need no second check.

    Reading history is the hottest path of the package, so this is one loop without calls for plain text.
    """
    found: list[Message] = []
    for row in rows:
        draft: Any = MessageDraft()
        (
            draft.id,
            role,
            origin,
            draft.body,
            parts,
            metadata,
            draft.created_micros,
            draft.thread_id,
            draft.position,
            draft.number,
            draft.run_id,
            _unit,
            expires_at,
        ) = row
        draft.role, draft.origin, draft.kind = ROLES[role], ORIGINS[origin], None
        if parts is not None:
            draft.body = decode_parts(parts)
        draft.metadata = {} if metadata is None else decode_metadata(metadata)
        draft.expires_at = None if expires_at is None else from_micros(expires_at)
        draft.__class__ = MESSAGE_CLASS
        found.append(draft)
    return found


def decode_parts(column: str) -> tuple[Part, ...]:
    """Decode a column of message parts; raise `StorageCorruptError` where it is damaged."""
    try:
        return tuple(part_from_dict(part) for part in json.loads(column))
    except (TypeError, ValueError) as error:
        raise _make_damage_error() from error


def _make_damage_error() -> StorageCorruptError:
    return StorageCorruptError("a stored row is damaged; restore the database from a backup")
