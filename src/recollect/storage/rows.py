"""Conversions between rows and values: keys and messages.

Both databases store times as whole microseconds since 1970 in UTC, so that they come back exactly.
"""

import json
import logging
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from recollect.errors import StorageCorruptError
from recollect.messages import (
    MESSAGE_CLASS,
    ORIGINS,
    ROLES,
    Message,
    MessageDraft,
    Part,
    check_part,
    from_micros,
    part_from_dict,
    part_to_dict,
    to_micros,
)
from recollect.scope import Scope
from recollect.storage.engine import Row
from recollect.validation import MAX_JSON_DEPTH, check_json_object, encode_json

T = TypeVar("T")

_log = logging.getLogger(__name__)

_ROLE_OF = dict(enumerate(ROLES))  # not a list, which would take -1
_ORIGIN_OF = dict(enumerate(ORIGINS))
_ROLE_CODES = {role: code for code, role in _ROLE_OF.items()}
_ORIGIN_CODES = {origin: code for code, origin in _ORIGIN_OF.items()}
_MIN_MICROS, _MAX_MICROS = (
    to_micros(limit) for limit in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
)


def _reject(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _parse_float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else cast("float", _reject(text))


_json = json.JSONDecoder(parse_constant=_reject, parse_float=_parse_float)


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


def decode_object(column: str) -> dict[str, object]:
    """Decode a column that holds a JSON object; raise where it holds something else."""
    value = _json.decode(column)
    # What is stored was checked. Only these can hide what no check accepts: escaped surrogates, deep nesting.
    if "\\u" in column or column.count("{") + column.count("[") > MAX_JSON_DEPTH:
        check_json_object(value, "stored JSON")
    if not isinstance(value, dict):
        raise TypeError("not a JSON object")
    return cast("dict[str, object]", value)


def decode_metadata(column: str | None) -> dict[str, object]:
    """Decode a column of metadata; None means none."""
    return {} if column is None else decode_object(column)


@contextmanager
def decoding(row: str) -> Generator[None]:
    """Raise `StorageCorruptError` that names the row if decoding it fails, however it does."""
    try:
        yield
    except StorageCorruptError:  # says already which row it is
        raise
    except Exception as error:
        raise StorageCorruptError(
            f"{row} is damaged ({type(error).__name__}: {error!s:.200}); delete it, or restore the database "
            "from a backup"
        ) from error


def decode_each(decode: Callable[[Row], T], rows: Iterable[Row]) -> list[T]:
    """Decode the rows of a list; leave out those that raise `StorageCorruptError`, with a warning."""
    found: list[T] = []
    for row in rows:
        try:
            found.append(decode(row))
        except StorageCorruptError as error:
            _log.warning("left out: %s", error)
    return found


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


def decode_messages(rows: Sequence[Row]) -> list[Message]:
    """Make messages from the columns of the fragment `message_columns`, and leave out damaged ones."""
    try:
        return _decode_all(rows)
    except Exception:  # noqa: BLE001 - whatever an impossible value leads to
        return decode_each(decode_message, rows)


def decode_message(row: Row) -> Message:
    """Make a message from its columns; raise `StorageCorruptError` if it is damaged."""
    thread_id, number = row[7], row[9]
    with decoding(f"message {number} of thread {thread_id!r:.200}"):
        (message,) = _decode_all([row])
        return message


def _decode_all(rows: Iterable[Row]) -> list[Message]:
    """Make messages, which need no second check; raise anything if one is damaged.

    Reading history is the hottest path of the package, so this is one loop without calls for plain text.
    """
    found: list[Message] = []
    for row in rows:
        draft: Any = MessageDraft()
        (
            draft.id,
            role,
            origin,
            text,
            parts,
            metadata,
            micros,
            draft.thread_id,
            draft.position,
            draft.number,
            draft.run_id,
            _unit,
            expires_at,
        ) = row
        if "\0" in text or not _MIN_MICROS <= micros <= _MAX_MICROS:
            raise ValueError("a NUL in the text, or a time out of range")
        draft.body, draft.created_micros = text, micros
        draft.role, draft.origin, draft.kind = _ROLE_OF[role], _ORIGIN_OF[origin], None
        if parts is not None:
            draft.body = decode_parts(parts)
        draft.metadata = {} if metadata is None else decode_object(metadata)
        draft.expires_at = None if expires_at is None else from_micros(expires_at)
        draft.__class__ = MESSAGE_CLASS
        found.append(draft)
    return found


def decode_parts(column: str) -> tuple[Part, ...]:
    """Decode a column of message parts; raise where it is damaged."""
    return tuple(check_part(part_from_dict(part)) for part in _json.decode(column))
