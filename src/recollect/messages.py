"""Messages and their parts.

A `Message` is immutable, so that one processor can hold it while another makes the next version of it
(`message.replace(...)`). Plain text, by far the most common content, is stored as a `str`, everything else as
a tuple of parts. Both read the same way, through `parts` and `text`. A message checks its parts.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast, get_args

from recollect.errors import InvalidArgumentError, InvalidRoleError
from recollect.validation import (
    as_json,
    check_flag,
    check_id,
    check_json,
    check_json_object,
    check_text,
    check_time,
)

Role: TypeAlias = Literal["user", "assistant", "tool", "system"]
"""Who speaks in a message."""

Origin: TypeAlias = Literal["input", "response", "memory", "system"]
"""Where a message came from; `memory` marks messages that memory inserted for one run."""

Kind: TypeAlias = Literal["recalled", "working_memory", "user_memory", "other_threads", "snapshot", "skill"]
"""The content of a message that memory made for one run; such messages are never stored."""

ROLES: tuple[str, ...] = get_args(Role)
"""All roles, in the order of their declaration."""

ORIGINS: tuple[str, ...] = get_args(Origin)
"""All origins, in the order of their declaration."""

KINDS: tuple[str, ...] = get_args(Kind)
"""All kinds, in the order of their declaration."""

ABORTED = "aborted"
"""The metadata key that marks the answer of an aborted run, or its prompt where nothing was answered."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT_MICROS = 2**33 * 1_000_000
_from_timestamp = datetime.fromtimestamp

_ORIGIN_OF_ROLE: dict[str, Origin] = {
    "user": "input",
    "assistant": "response",
    "tool": "response",
    "system": "system",
}


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text of a message."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class FramePart(TextPart):
    """Text that recollect writes around quotes from memory; nobody said it."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model; `id` links it to its result."""

    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of the call `call_id`: any JSON value."""

    type: ClassVar[str] = "tool_result"
    call_id: str
    name: str
    content: object = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """Reasoning of the model; `signature` is the provider's proof of it."""

    type: ClassVar[str] = "reasoning"
    text: str
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file by URL (`url`) or by content (`data`, base64)."""

    type: ClassVar[str] = "file"
    media_type: str
    url: str | None = None
    data: str | None = None
    name: str | None = None


Part: TypeAlias = TextPart | ToolCall | ToolResult | ReasoningPart | FilePart
"""One part of a message's content."""

_PART_TYPES: dict[str, Callable[..., Part]] = {
    kind.type: kind for kind in (TextPart, ToolCall, ToolResult, ReasoningPart, FilePart)
}


_random = Random()  # noqa: S311 - ids must differ, they need not be secret; a system call takes ten times as long
os.register_at_fork(after_in_child=_random.seed)


def new_message_id() -> str:
    """Make a unique id; ids sort by time, which keeps database indexes compact."""
    return f"{time.time_ns() // 1_000_000:012x}{_random.getrandbits(64):016x}"


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)


def to_micros(time: datetime) -> int:
    """Return the time in microseconds since 1970."""
    since = time - _EPOCH  # its parts are faster than a division of time deltas
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_micros(micros: int) -> datetime:
    """Return the time of a number of microseconds since 1970.

    A float of seconds is exact to the microsecond until the year 2242, and faster to convert.
    """
    if -_EXACT_MICROS < micros < _EXACT_MICROS:
        return _from_timestamp(micros / 1_000_000, UTC)
    return _EPOCH + timedelta(0, 0, micros)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Message:
    """One entry of a conversation.

    `kind` is set for messages that memory made for one run, and None for all others. `thread_id`, `position`
    (the order within the thread), `number` (an integer id that is never used again), `run_id` and
    `expires_at` are None until the message is stored; comparing two messages ignores them.
    """

    id: str
    role: Role
    body: str | tuple[Part, ...]
    metadata: Mapping[str, object]
    created_at: datetime
    origin: Origin
    kind: Kind | None
    thread_id: str | None = field(compare=False)
    position: int | None = field(compare=False)
    number: int | None = field(compare=False)
    run_id: str | None = field(compare=False)
    expires_at: datetime | None = field(compare=False)
    created_micros: int | None = field(compare=False)

    def __init__(
        self,
        role: Role,
        content: str | Iterable[Part] = "",
        *,
        id: str | None = None,  # noqa: A002 - the field's own name reads best at the call
        metadata: Mapping[str, object] | None = None,
        created_at: datetime | None = None,
        origin: Origin | None = None,
        kind: Kind | None = None,
    ) -> None:
        """Check the values and fill in defaults."""
        if role not in ROLES:
            raise InvalidRoleError("role", f"must be one of {', '.join(ROLES)}, not {role!r:.60}")
        if origin is not None and origin not in ORIGINS:
            raise InvalidArgumentError("origin", f"must be one of {', '.join(ORIGINS)}, not {origin!r:.60}")
        if kind is not None and kind not in KINDS:
            raise InvalidArgumentError("kind", f"must be one of {', '.join(KINDS)}, not {kind!r:.60}")
        draft = _open_draft(self)
        draft.id = new_message_id() if id is None else check_id(id, "id")
        draft.role = role
        draft.body = _check_body(content)
        draft.metadata = {} if metadata is None else dict(check_json_object(metadata, "metadata"))
        draft.created_at = now() if created_at is None else check_time(created_at, "created_at")
        draft.origin = origin or _ORIGIN_OF_ROLE[role]
        draft.kind = kind
        draft.thread_id = draft.position = draft.number = draft.run_id = draft.expires_at = None
        draft.created_micros = None
        draft.__class__ = MESSAGE_CLASS

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> datetime:
            """Make `created_at` when it is first asked for: most readers of stored messages never do.

            Python calls this for a slot that was not set. A stored message has `created_micros` instead.
            """
            if name != "created_at":
                raise AttributeError(f"a Message has no attribute {name!r}", name=name, obj=self)
            object.__setattr__(self, name, from_micros(self.created_micros))
            return self.created_at

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts; plain text is one `TextPart`, empty text none."""
        if isinstance(self.body, str):
            return (TextPart(self.body),) if self.body else ()
        return self.body

    @property
    def text(self) -> str:
        """All text of the message, the text parts joined by line breaks."""
        if isinstance(self.body, str):
            return self.body
        return "\n".join(part.text for part in self.body if isinstance(part, TextPart))

    @property
    def content(self) -> str:
        """The same as `text`."""
        return self.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in the message."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results in the message."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))

    @property
    def is_conversation(self) -> bool:
        """Whether it is a user or assistant message with text."""
        return self.role in ("user", "assistant") and self.text != ""

    def replace(self, **changes: Any) -> "Message":  # noqa: ANN401 - each is checked by the constructor
        """Return a copy with some values changed: content, role, metadata and so on.

        The copy keeps what the store has set (`thread_id`, `position` and so on), unless it gets another id.
        """
        given = {
            "role": self.role,
            "content": self.body,
            "id": self.id,
            "metadata": self.metadata,
            "created_at": self.created_at,
            "origin": self.origin,
            "kind": self.kind,
        }
        if unknown := changes.keys() - given.keys():
            raise InvalidArgumentError(min(unknown), "is not a value that replace() can change")
        changed = Message(**cast("dict[str, Any]", given | changes))
        if changed.id == self.id:
            draft = _open_draft(changed)
            draft.thread_id, draft.position, draft.number = self.thread_id, self.position, self.number
            draft.run_id, draft.expires_at = self.run_id, self.expires_at
            draft.__class__ = MESSAGE_CLASS
        return changed

    def to_dict(self) -> dict[str, object]:
        """Return the message as JSON; content of several parts is a list of objects."""
        body = self.body
        return {
            "id": self.id,
            "number": self.number,
            "thread_id": self.thread_id,
            "position": self.position,
            "role": self.role,
            "origin": self.origin,
            "content": body if isinstance(body, str) else [as_json(part_to_dict(part)) for part in body],
            "metadata": as_json(self.metadata),
            "created_at": self.created_at.isoformat(),
            "run_id": self.run_id,
            "expires_at": as_json(self.expires_at),
        }

    def __hash__(self) -> int:
        return hash(self.id)  # equal messages have equal ids

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 60 else self.text[:57] + "..."  # noqa: PLR2004 - one line
        extra = f", {len(self.parts)} parts" if not isinstance(self.body, str) else ""
        return f"Message({self.role!r}, {text!r}{extra}, id={self.id!r})"


class MessageDraft:
    """A message whose fields are being set: the same slots, but not frozen.

    Messages are made and read on the hottest paths. Setting the fields of a frozen dataclass takes seven
    times as long as setting plain slots. So a message is a draft meanwhile; its class is changed at the end.
    """

    __slots__ = Message.__slots__


def _open_draft(message: Message) -> Any:  # noqa: ANN401 - a draft, whose slots have no types
    object.__setattr__(message, "__class__", MessageDraft)
    return message


MESSAGE_CLASS: Any = Message
"""What `draft.__class__` is set to once all fields of a draft are set; then it is a frozen message."""


def quoted_texts(message: Message) -> list[str]:
    """Return the texts of a message without the frame around what it quotes."""
    texts = [part for part in message.parts if isinstance(part, TextPart)]
    return [part.text for part in texts if not isinstance(part, FramePart)]


def is_aborted(turn: Iterable[Message]) -> bool:
    """Whether a turn is what was kept of an aborted run."""
    return any(message.metadata.get(ABORTED) for message in turn)


def frame_parts(texts: Sequence[str]) -> list[TextPart]:
    """Return the lines of a block from memory as parts; the first and the last are its frame."""
    first, *items, last = texts
    return [FramePart(first), *map(TextPart, items), FramePart(last)]


def clean_text(text: str) -> str:
    """Replace characters that cannot be stored (NUL, lone surrogates) in text of models and tools."""
    text = text.replace("\0", "\ufffd") if "\0" in text else text
    if text.isascii():
        return text
    try:
        text.encode()  # nearly always it can, and decoding a long text takes longer
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text


def clean_json(value: object) -> object:
    """Clean all texts in a JSON value; NaN and infinity become null."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {clean_text(str(key)): clean_json(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in cast("list[object]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def part_to_dict(part: Part) -> dict[str, object]:
    """Return the part as a JSON object that `part_from_dict` reads back."""
    values: dict[str, object] = {item.name: getattr(part, item.name) for item in fields(part)}
    return {"type": part.type, **{name: value for name, value in values.items() if value is not None}}


def part_from_dict(value: Mapping[str, object]) -> Part:
    """Read a part from the JSON object that `part_to_dict` made."""
    values = dict(value)
    kind = values.pop("type", None)
    make = _PART_TYPES.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise InvalidArgumentError(
            "parts", f"{kind!r:.60} is not a kind of part; use {', '.join(_PART_TYPES)}"
        )
    try:
        return make(**values)
    except TypeError as error:
        raise InvalidArgumentError("parts", f"a {kind} part has wrong fields: {error}") from None


def _check_body(content: object) -> str | tuple[Part, ...]:
    if isinstance(content, str):
        return check_text(content, "content")
    if not isinstance(content, Iterable):
        raise InvalidArgumentError("content", f"must be text or parts, not {type(content).__name__}")
    parts = tuple(check_part(part) for part in cast("Iterable[object]", content))
    # One text part is stored as the text itself, so that equal content compares equal.
    if len(parts) == 1 and isinstance(parts[0], TextPart) and parts[0].text:
        return parts[0].text
    return parts or ""


def check_part(part: object) -> Part:
    """Return a part of a message if its values can be stored; raise if not."""
    match part:
        case TextPart(text):
            check_text(text, "content")
        case ToolCall(id=call_id, name=name, arguments=arguments):
            check_id(call_id, "tool call id")
            check_id(name, "tool name")
            check_json_object(arguments, "tool arguments")
        case ToolResult(call_id=call_id, name=name, content=content):
            check_id(call_id, "tool call id")
            check_id(name, "tool name")
            check_json(content, "tool result")
            check_flag(part.is_error, "is_error")
        case ReasoningPart(text, signature):
            check_text(text, "reasoning")
            _check_optional_text(signature, "signature")
        case FilePart():
            _check_file(part)
        case _:
            raise InvalidArgumentError("content", f"{type(part).__name__} is not a part of a message")
    return part


def _check_file(part: FilePart) -> None:
    check_id(part.media_type, "media_type")
    for name in ("url", "data", "name"):
        _check_optional_text(getattr(part, name), f"file {name}")
    if (part.url is None) == (part.data is None):
        raise InvalidArgumentError("content", "a file must have either a url or data")


def _check_optional_text(value: object, argument: str) -> None:
    if value is not None:
        check_text(value, argument)
