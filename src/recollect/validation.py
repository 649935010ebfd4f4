"""Checks of arguments, made before anything is written.

Both engines get the same rules, the stricter of the two where they differ: PostgreSQL
stores no NUL, and neither engine can encode a lone surrogate, so no text may contain one.
Each check returns the value or raises an `InvalidArgumentError` that names the argument.
"""

import json
import math
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar, cast

from recollect.errors import InvalidArgumentError

T = TypeVar("T")
Word = TypeVar("Word", bound=str)

Scalar: TypeAlias = str | int | float | bool | None
"""A JSON value that is neither a list nor an object."""

MAX_ID_BYTES = 512
"""The maximum length of an id, in bytes of UTF-8: five of them still fit one PostgreSQL index row."""

SYSTEM_TENANT = "(system)"
"""The tenant None in key columns.

It is not empty: PostgreSQL reads a setting of ours as '' after the transaction that set it has ended, and
that must never match a row.
"""

MAX_TEXT_BYTES = 32 * 1024 * 1024
"""The maximum length of one text or JSON value, in bytes of UTF-8."""

MAX_JSON_DEPTH = 64
"""How deep the lists and dicts of a JSON value may nest."""

MAX_INT = 2**63 - 1
"""The largest integer that a database column holds."""

MAX_POSITION = 2**24 - 1
"""The highest position in a thread: the SQLite engine packs it into 24 bits."""


def check_text(value: object, argument: str, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return the value if it is text that both engines store unchanged."""
    if not isinstance(value, str):
        raise InvalidArgumentError(argument, f"must be text, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidArgumentError(argument, "must not contain the NUL character (U+0000)")
    if value.isascii():
        size = len(value)
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            problem = f"contains a lone surrogate at position {error.start}, which is not valid text"
            raise InvalidArgumentError(argument, problem) from None
    if size > max_bytes:
        raise InvalidArgumentError(argument, f"is {size:,} bytes long; at most {max_bytes:,} are allowed")
    return value


def check_id(value: object, argument: str) -> str:
    """Return the value if it can name a user, a thread, a message or the like."""
    text = check_text(value, argument, max_bytes=MAX_ID_BYTES)
    if not text:
        raise InvalidArgumentError(argument, "must not be empty")
    return text


def check_optional_id(value: object, argument: str) -> str | None:
    """Return the value if it is an id or None."""
    return None if value is None else check_id(value, argument)


def check_limit(value: object, argument: str = "limit") -> int | None:
    """Return the value if it is a maximum number of results, or None for all."""
    return None if value is None else check_int(value, argument)


def check_tenant(value: object, argument: str = "tenant_id") -> int | str | None:
    """Return the value if it is a tenant: a positive int, a text, or None for system data."""
    if value is None:
        return None
    if isinstance(value, str):
        if value == SYSTEM_TENANT:
            raise InvalidArgumentError(argument, f"{value!r} is reserved for the tenant None")
        return check_id(value, argument)
    if not isinstance(value, int) or isinstance(value, bool):
        kind = type(value).__name__
        raise InvalidArgumentError(argument, f"must be a positive int, a text or None, not {kind}")
    return check_int(value, argument, minimum=1)


def check_int(value: object, argument: str, *, minimum: int = 0, maximum: int = MAX_INT) -> int:
    """Return the value if it is an int (not a bool) within the bounds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgumentError(argument, f"must be an int, not {type(value).__name__}")
    if value < minimum:
        raise InvalidArgumentError(argument, f"must be {minimum} or more, not {value}")
    if value > maximum:
        raise InvalidArgumentError(argument, f"must be {maximum} or less, not {value}")
    return value


def check_share(value: object, argument: str) -> float:
    """Return the value if it is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidArgumentError(argument, f"must be a number from 0 to 1, not {value!r:.60}")
    return float(value)


def check_seconds(value: object, argument: str) -> float:
    """Return the value if it is a positive, finite number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidArgumentError(argument, f"must be a positive number of seconds, not {value!r:.60}")
    return float(value)


def check_flag(value: object, argument: str) -> bool:
    """Return the value if it is a bool: the truth of anything else may not be what the caller meant."""
    if not isinstance(value, bool):
        raise InvalidArgumentError(argument, f"must be True or False, not {value!r:.60}")
    return value


def check_choice(value: Word, argument: str, allowed: Collection[Word]) -> Word:
    """Return the value if it is allowed; the error lists the allowed ones."""
    if value not in allowed:
        raise InvalidArgumentError(argument, f"must be one of {', '.join(allowed)}, not {value!r:.60}")
    return value


def check_choices(values: Collection[Word], argument: str, allowed: Collection[Word]) -> tuple[Word, ...]:
    """Return the values if all are allowed; a single text is not a list of them."""
    if isinstance(values, str) or not isinstance(cast("object", values), Collection):
        raise InvalidArgumentError(argument, f"must be a list of {', '.join(allowed)}, not {values!r:.60}")
    return tuple(check_choice(value, argument, allowed) for value in values)


def check_list(items: Iterable[T], argument: str) -> list[T]:
    """Return the items as a list; a text is one item, not a list of its characters."""
    value = cast("object", items)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        name = type(cast("object", value)).__name__
        raise InvalidArgumentError(argument, f"must be a list, not {name}; write [...]")
    return list(items)


def check_model(
    value: object, argument: str, forms: str = "a model or its name", *, may_be_function: bool = False
) -> object:
    """Return the value if it looks like a model, ours or Pydantic AI's, or is a model's name."""
    is_model = hasattr(value, "respond") or hasattr(value, "request") or isinstance(value, str)
    if isinstance(value, type) or not (is_model or (may_be_function and callable(value))):
        raise InvalidArgumentError(argument, f"must be {forms}, not {value!r:.60}")
    return value


def check_time(value: object, argument: str) -> datetime:
    """Return the value in UTC if it is a datetime with a time zone."""
    if not isinstance(value, datetime):
        raise InvalidArgumentError(argument, f"must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidArgumentError(argument, "must have a time zone, e.g. datetime.now(UTC)")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidArgumentError(argument, "must be within the years 1 to 9999 of UTC") from None


def parse_time(text: object, argument: str) -> datetime:
    """Return a date or a time of ISO 8601 in UTC; one without a time zone is taken as UTC."""
    try:
        time = datetime.fromisoformat(check_text(text, argument))
    except ValueError:
        raise InvalidArgumentError(
            argument,
            f"must be a date or a time such as 2026-03-31 or 2026-03-31T09:00+02:00, not {text!r:.60}",
        ) from None
    return check_time(time if time.tzinfo else time.replace(tzinfo=UTC), argument)


def check_json_object(value: object, argument: str) -> dict[str, object]:
    """Return the value if it is a dict that JSON can hold without loss."""
    if not isinstance(value, dict):
        raise InvalidArgumentError(argument, f"must be a dict, not {type(value).__name__}")
    check_json(cast("object", value), argument)
    return cast("dict[str, object]", value)


def check_scalars(values: object, argument: str) -> dict[str, Scalar]:
    """Return the values if they are a dict of JSON scalars."""
    given = dict(cast("Mapping[object, object]", values)) if isinstance(values, Mapping) else values
    checked = check_json_object(given, argument)
    for key, value in checked.items():
        if isinstance(value, dict | list | tuple):
            kind = type(cast("object", value)).__name__
            raise InvalidArgumentError(
                f"{argument}.{key}", f"must be text, a number, a bool or None, not {kind}"
            )
    return cast("dict[str, Scalar]", checked)


def check_json(value: object, argument: str) -> None:
    """Raise if JSON cannot hold the value without loss; a tuple counts as a list."""
    _check_json(value, argument, depth=0)


def as_json(value: object) -> object:
    """Return a value as JSON has it; what JSON has no form for becomes its text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): as_json(item) for key, item in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item) for item in cast("Collection[object]", value)]
    return str(value)


def encode_json(value: object, argument: str, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Encode a checked JSON value as compact text."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:  # changed after the check, or an int with too many digits
        raise InvalidArgumentError(argument, f"cannot be written as JSON: {error}") from None
    return check_text(text, argument, max_bytes=max_bytes)


def _check_json(value: object, place: str, *, depth: int) -> None:
    if value is None or isinstance(value, bool | int):
        return
    if depth > MAX_JSON_DEPTH:
        raise InvalidArgumentError(place, f"is nested deeper than {MAX_JSON_DEPTH} levels")
    if isinstance(value, str):
        check_text(value, place)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgumentError(place, f"{value} is not JSON; use None")
    elif isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            _check_json(item, f"{place}.{_check_key(key, place)}", depth=depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("list[object]", value)):
            _check_json(item, f"{place}[{index}]", depth=depth + 1)
    else:
        raise InvalidArgumentError(place, f"{type(value).__name__} is not JSON")


def _check_key(key: object, place: str) -> str:
    if not isinstance(key, str):
        raise InvalidArgumentError(place, f"keys must be text, not {type(key).__name__}")
    return check_text(key, f"a key of {place or 'the object'}")
