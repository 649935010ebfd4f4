"""The client of a memory gateway: its settings, its three operations, and the validation of responses."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, cast
from urllib.parse import quote, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from recollect.backends.base import RecalledItem
from recollect.backends.gateway.http import Failure, JsonPoster, JsonResponse
from recollect.errors import InvalidArgumentError, MemoryGatewayError
from recollect.messages import clean_text
from recollect.model_validation import Id, StrictModel, find_problem
from recollect.validation import check_id, check_text

SCOPES = ("current_chat", "resources", "all_user_memory")
"""What a gateway can search."""

MAX_TOP_K = 100
"""The maximum of `top_k`."""

HIDDEN_KEY = "[user key]"
"""Takes the place of the user's key in what a gateway returns."""

_MIN_KEY_LENGTH = 8  # a shorter key may occur in a text by chance

_Operation: TypeAlias = Literal["search", "add", "flush"]


def _contains(text: str, secret: SecretStr) -> bool:
    return _hide(text, secret) != text


def _hide(text: str, secret: SecretStr) -> str:
    """Return a text with a key replaced, also as a URL has it."""
    key = secret.get_secret_value()
    if len(key) < _MIN_KEY_LENGTH:
        return text
    return text.replace(key, HIDDEN_KEY).replace(quote(key, safe=""), HIDDEN_KEY)


def _check_url(url: str) -> str:
    """Reject all but a plain HTTP URL; the errors do not quote it, because it may hold a password."""
    check_id(url, "")
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_plain = "@" not in parts.netloc and not parts.query and not parts.fragment
    except ValueError:
        is_usable, is_plain = False, True
    if not is_plain:
        raise InvalidArgumentError("", "must be a URL without user, password, query and fragment")
    # The parser silently drops line breaks.
    if not is_usable or not url.isprintable() or " " in url:
        raise InvalidArgumentError("", "must be a URL such as http://127.0.0.1:8010")
    return url


def _check_key(value: object) -> SecretStr:
    """Accept only a `SecretStr`: a plain text would show up in tracebacks."""
    if not isinstance(value, SecretStr):
        raise InvalidArgumentError("", "must be a pydantic.SecretStr")
    if not check_text(value.get_secret_value(), "").strip():
        raise InvalidArgumentError("", "must not be empty")
    return value


def _check_scope(value: object) -> tuple[str, ...]:
    names = cast("tuple[str, ...]", value) if isinstance(value, tuple) else ()
    if not names or any(name not in SCOPES or names.count(name) > 1 for name in names):
        raise InvalidArgumentError("", f"must be a list of one or more of {', '.join(SCOPES)}, each once")
    return names


Key: TypeAlias = Annotated[SecretStr, BeforeValidator(_check_key)]
"""The user's key, as a secret that is not empty."""

Scopes: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_check_scope)]
"""At least one of `SCOPES`, each at most once."""


class GatewayAccess(StrictModel):
    """How to reach and search a memory gateway, and the user whose memory it holds."""

    user_key: Key  # first: the checks of the others compare with it
    user_id: Id = Field(description="the id of the user whose memory it is")
    base_url: Annotated[str, AfterValidator(_check_url)] = Field(
        description="the gateway's URL, such as http://127.0.0.1:8010"
    )
    scope: Scopes
    app_id: Id = "default"
    project_id: Id = "default"
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K)] = 8
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 10.0

    @field_validator("*")
    @classmethod
    def _check_key_is_nowhere_else(cls, value: object, info: ValidationInfo) -> object:
        """Reject a text that contains the key: every status shows it."""
        if isinstance(value, str) and "user_key" in info.data and _contains(value, info.data["user_key"]):
            raise InvalidArgumentError("", "contains the user's key, which is a secret; remove it there")
        return value


class GatewaySettings(GatewayAccess):
    """All settings of the client: the gateway's, and the id under which it stores our answers."""

    agent_id: Id = "recollect"

    if not TYPE_CHECKING:  # a checker reads the fields instead

        def __init__(self, **values: object) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                place, problem = find_problem(error)
            else:
                return
            values.clear()  # a traceback can show the variables, and a URL may hold a password
            raise InvalidArgumentError(place, problem)


@dataclass(frozen=True, slots=True)
class GatewayMessage:
    """One message of a turn as a gateway stores it; the timestamp is in milliseconds since 1970, UTC."""

    sender_id: str
    role: Literal["user", "assistant"]
    timestamp: int
    content: str


class MemoryGatewayClient:
    """Calls a memory gateway; a failed call raises a `MemoryGatewayError` and is not retried."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self._base_url = settings.base_url.rstrip("/")
        self._poster = JsonPoster(
            is_secure=urlsplit(settings.base_url).scheme == "https", timeout_seconds=settings.timeout_seconds
        )

    async def search(self, conversation_id: str, query: str) -> list[RecalledItem]:
        """Return what the gateway recalls for a query; results without text are left out."""
        settings = self.settings
        fields = {
            "conversation_id": conversation_id,
            "query": query,
            "scope": list(settings.scope),
            "top_k": settings.top_k,
        }
        answer = await self._call("search", fields)
        items = _read_items(answer, settings.user_key)
        if items is None:
            raise _make_error("search", Failure("invalid_response", answer.status))
        return items

    async def add(self, session_id: str, messages: Sequence[GatewayMessage]) -> None:
        """Add messages to a session of the gateway."""
        fields = {"session_id": session_id, "messages": [asdict(message) for message in messages]}
        _check_object("add", await self._call("add", fields))

    async def flush(self, session_id: str) -> None:
        """Make the gateway turn the added messages of a session into memories."""
        _check_object("flush", await self._call("flush", {"session_id": session_id}))

    async def close(self) -> None:
        """Do nothing: every call closes its own connection."""

    async def _call(self, operation: _Operation, fields: Mapping[str, object]) -> JsonResponse:
        settings = self.settings
        payload = {
            "user_id": settings.user_id,
            "user_key": settings.user_key,
            **fields,
            "app_id": settings.app_id,
            "project_id": settings.project_id,
        }
        outcome = await self._poster.post(self._base_url + _make_path(operation), payload)
        # Raise here and nowhere deeper: an error keeps its frames, and these hold neither the key nor a body.
        if isinstance(outcome, Failure):
            raise _make_error(operation, outcome)
        return outcome


def _check_object(operation: _Operation, answer: JsonResponse) -> None:
    """Reject a body that is not a JSON object; the protocol does not specify it, so it may be empty."""
    if not isinstance(answer.value, dict | None):
        raise _make_error(operation, Failure("invalid_response", answer.status))


def _make_path(operation: _Operation) -> str:
    return f"/memories/{operation}"


def _make_error(operation: _Operation, failure: Failure) -> MemoryGatewayError:
    return MemoryGatewayError(operation, _make_path(operation), failure.category, failure.status)


def _read_items(answer: JsonResponse, key: SecretStr) -> list[RecalledItem] | None:
    """Return the usable results of a response, or None if it has no list of them.

    A careless gateway may repeat the request, and what is recalled goes into prompts and databases.
    """
    results = _as_mapping(answer.value).get("results")
    if not isinstance(results, list):
        return None
    items = (_read_item(result, key) for result in cast("list[object]", results))
    return [item for item in items if item is not None]


def _read_item(result: object, key: SecretStr) -> RecalledItem | None:
    """Return a result without unknown fields, or None if it has no text."""
    found = _as_mapping(result)
    text = _read_text(found.get("text"), key)
    if text is None:
        return None
    return RecalledItem(
        text=text,
        id=_read_text(found.get("id"), key),
        session_id=_read_text(found.get("session_id"), key),
        score=_read_number(found.get("score")),
        source_scope=_read_text(found.get("source_scope"), key),
        resource_uri=_read_text(found.get("resource_uri"), key),
    )


def _as_mapping(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _read_text(value: object, key: SecretStr) -> str | None:
    return _hide(clean_text(value), key) if isinstance(value, str) and value.strip() else None


def _read_number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
