"""The client of a memory gateway: its three paths, what they are sent, and what is believed of answers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, cast
from urllib.parse import urlsplit

from recollect.backends.base import RecalledItem
from recollect.backends.gateway.http import Answer, Failure, JsonPoster
from recollect.backends.secret import Secret
from recollect.errors import InvalidArgumentError, MemoryGatewayError
from recollect.messages import clean_text
from recollect.validation import check_id, check_int

SCOPES = ("current_chat", "resources", "all_user_memory")
"""Where a gateway can be told to search."""

MOST_RESULTS = 100
"""The largest `top_k`."""

_SHORTEST_KEY = 8  # a shorter one may stand in an address by chance

_Operation: TypeAlias = Literal["search", "add", "flush"]


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Where a memory gateway is, whose memory it holds for us, and how it is searched."""

    base_url: str
    user_id: str
    user_key: Secret
    scope: tuple[str, ...]
    app_id: str = "default"
    project_id: str = "default"
    top_k: int = 8
    timeout_seconds: float = 10.0
    agent_id: str = "recollect"

    def __post_init__(self) -> None:
        """Refuse what no call could be made with."""
        _check_address(self.base_url)
        for name in ("user_id", "app_id", "project_id", "agent_id"):
            check_id(getattr(self, name), name)
        if not isinstance(cast("object", self.user_key), Secret):
            raise InvalidArgumentError("user_key", "must be a Secret")
        _check_apart(self.base_url, self.user_key)
        _check_scope(self.scope)
        check_int(self.top_k, "top_k", minimum=1, maximum=MOST_RESULTS)
        _check_seconds(self.timeout_seconds)


@dataclass(frozen=True, slots=True)
class GatewayMessage:
    """One message of a turn as a gateway keeps it; the time is in milliseconds since 1970, UTC."""

    sender_id: str
    role: Literal["user", "assistant"]
    timestamp: int
    content: str


class MemoryGatewayClient:
    """Speaks to a memory gateway; a call that fails is a `MemoryGatewayError`, and is not tried again."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Take the settings; nothing is sent yet."""
        self.settings = settings
        self._base_url = settings.base_url.rstrip("/")
        self._poster = JsonPoster(
            is_secure=urlsplit(settings.base_url).scheme == "https", timeout_seconds=settings.timeout_seconds
        )

    async def search(self, conversation_id: str, query: str) -> list[RecalledItem]:
        """Return what the gateway recalls for a question; results without text are left out."""
        settings = self.settings
        fields = {
            "conversation_id": conversation_id,
            "query": query,
            "scope": list(settings.scope),
            "top_k": settings.top_k,
        }
        answer = await self._call("search", fields)
        items = _items(answer)
        if items is None:
            raise _error("search", Failure("invalid_response", answer.status))
        return items

    async def add(self, session_id: str, messages: Sequence[GatewayMessage]) -> None:
        """Have the gateway keep messages of a session."""
        fields = {"session_id": session_id, "messages": [asdict(message) for message in messages]}
        _check_object("add", await self._call("add", fields))

    async def flush(self, session_id: str) -> None:
        """Have the gateway make memories of what was added to a session."""
        _check_object("flush", await self._call("flush", {"session_id": session_id}))

    async def close(self) -> None:
        """Do nothing: no connection outlives its call."""

    async def _call(self, operation: _Operation, fields: Mapping[str, object]) -> Answer:
        """Post to the operation's path and return what came back."""
        settings = self.settings
        payload = {
            "user_id": settings.user_id,
            "user_key": settings.user_key,
            **fields,
            "app_id": settings.app_id,
            "project_id": settings.project_id,
        }
        outcome = await self._poster.post(self._base_url + _path(operation), payload)
        # Here and nowhere deeper: an error keeps its frames, and these hold neither the key nor a body.
        if isinstance(outcome, Failure):
            raise _error(operation, outcome)
        return outcome


def _check_object(operation: _Operation, answer: Answer) -> None:
    """Refuse an answer that no gateway gives; the document says nothing of it, so it may also be empty."""
    if not isinstance(answer.value, dict | None):
        raise _error(operation, Failure("invalid_response", answer.status))


def _path(operation: _Operation) -> str:
    return f"/memories/{operation}"


def _error(operation: _Operation, failure: Failure) -> MemoryGatewayError:
    return MemoryGatewayError(operation, _path(operation), failure.category, failure.status)


def _items(answer: Answer) -> list[RecalledItem] | None:
    """Return the usable results of an answer, or None where it has no list of them."""
    results = _fields_of(answer.value).get("results")
    if not isinstance(results, list):
        return None
    items = (_item(result) for result in cast("list[object]", results))
    return [item for item in items if item is not None]


def _item(result: object) -> RecalledItem | None:
    """Return what is used of a result, or None where it has no text."""
    found = _fields_of(result)
    text = _text(found.get("text"))
    if text is None:
        return None
    return RecalledItem(
        text=text,
        id=_text(found.get("id")),
        session_id=_text(found.get("session_id")),
        score=_number(found.get("score")),
        source_scope=_text(found.get("source_scope")),
        resource_uri=_text(found.get("resource_uri")),
    )


def _fields_of(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return clean_text(value) if isinstance(value, str) and value.strip() else None


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _check_address(value: object) -> None:
    """Refuse what is no plain address; what stands in it is not quoted, it may hold a password."""
    name = "base_url"
    address = check_id(value, name)
    try:
        parts = urlsplit(address)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_alone = "@" not in parts.netloc and not parts.query and not parts.fragment
    except ValueError:
        is_usable, is_alone = False, True
    if not is_alone:
        raise InvalidArgumentError(name, "must be an address alone: no user, password, query or fragment")
    # The parser overlooks line breaks.
    if not is_usable or not address.isprintable() or " " in address:
        raise InvalidArgumentError(name, "must be an address as http://127.0.0.1:8010")


def _check_apart(address: str, key: Secret) -> None:
    """Refuse a key within the address, which every status shows."""
    if len(key.reveal()) >= _SHORTEST_KEY and key.reveal() in address:
        raise InvalidArgumentError("base_url", "holds the key, which is a secret; take it out of the address")


def _check_scope(value: object) -> None:
    names = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    if not names or any(name not in SCOPES or names.count(name) > 1 for name in names):
        raise InvalidArgumentError(
            "scope", f"must be a list of one or more of {', '.join(SCOPES)}, each once"
        )


def _check_seconds(value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < cast("float", value) < math.inf:
        raise InvalidArgumentError("timeout_seconds", f"must be a number above 0, not {value!r:.60}")
