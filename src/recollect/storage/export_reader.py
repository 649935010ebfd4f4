"""Reading an export: each line is a Pydantic model, chosen by its `kind`.

Lines may be truncated, garbled or forged, so they pass the same checks as arguments. Unknown fields are
ignored: a later version may write more. Only an import loads this module, because it loads Pydantic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from recollect.errors import InvalidArgumentError
from recollect.messages import Message, part_from_dict
from recollect.model_validation import Id, Text, find_problem
from recollect.storage.export_format import FORMAT
from recollect.storage.rows import encode_metadata, to_micros
from recollect.validation import MAX_POSITION, check_json_object, check_time, encode_json
from recollect.working_memory import MAX_VERSIONS, encode_fields

T = TypeVar("T")

_ThreadKey: TypeAlias = tuple[str, str, str]

_LAST_NUMBER = 2**62  # leaves room for the versions that come later


@dataclass(slots=True)
class ExportedMessage:
    """A message of an export, and its position in the thread."""

    message: Message
    position: int
    run_id: str | None
    expires_at: int | None
    number: int = 0


@dataclass(slots=True)
class ExportedThread:
    """A thread of an export, with its messages in order."""

    keys: dict[str, object]
    values: dict[str, object]
    messages: list[ExportedMessage] = field(default_factory=list[ExportedMessage])

    def columns(self, added: int) -> dict[str, object]:
        """Return the columns of a new thread to which so many messages will be added."""
        return self.values | {"next_position": cast("int", self.values["next_position"]) - added}


@dataclass(slots=True)
class Export:
    """The content of an export, checked and ready to be written."""

    threads: dict[_ThreadKey, ExportedThread] = field(default_factory=dict[_ThreadKey, ExportedThread])
    messages: dict[_ThreadKey, ExportedMessage] = field(default_factory=dict[_ThreadKey, ExportedMessage])
    memory: dict[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])
    state: dict[str, object] | None = None
    working_memory: dict[_ThreadKey, list[dict[str, object]]] = field(
        default_factory=dict[_ThreadKey, list[dict[str, object]]]
    )
    events: list[dict[str, object]] = field(default_factory=list[dict[str, object]])


def _make_columns(key: _ThreadKey) -> dict[str, object]:
    return dict(zip(("app_id", "project_id", "thread_id"), key, strict=True))


def _parse_time(value: object) -> datetime:
    try:
        return check_time(datetime.fromisoformat(cast("str", value)), "")
    except (TypeError, ValueError) as error:
        problem = error.problem if isinstance(error, InvalidArgumentError) else str(error)
        raise InvalidArgumentError("", f"is not an ISO 8601 time with a time zone ({problem})") from None


def _encode_object(value: object) -> str:
    return encode_json(check_json_object(value, ""), "")


def _encode_metadata(value: object) -> str | None:
    return encode_metadata(check_json_object(value, ""))


def _check_hidden(value: object) -> bool:
    if value is not False:
        raise InvalidArgumentError("", "must be false: events are never part of the conversation")
    return False


_Time: TypeAlias = Annotated[datetime, BeforeValidator(_parse_time)]
_Micros: TypeAlias = Annotated[Any, AfterValidator(lambda value: to_micros(_parse_time(value)))]
_Object: TypeAlias = Annotated[Any, AfterValidator(_encode_object)]
_Metadata: TypeAlias = Annotated[Any, AfterValidator(_encode_metadata)]
_Number: TypeAlias = Annotated[int, Field(ge=1, le=_LAST_NUMBER)]


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)


class _ThreadLine(_Line):
    kind: Literal["thread"]
    app_id: Id
    project_id: Id
    id: Id
    title: Text
    metadata: _Metadata
    created_at: _Micros
    updated_at: _Micros
    next_position: Annotated[int, Field(ge=1, le=MAX_POSITION + 1)]

    def add_to(self, export: Export) -> None:
        key = (self.app_id, self.project_id, self.id)
        values = {"title", "metadata", "created_at", "updated_at", "next_position"}
        thread = ExportedThread(_make_columns(key), self.model_dump(include=values))
        if export.threads.setdefault(key, thread) is not thread:
            raise InvalidArgumentError("id", "the export has this thread twice")


class _MessageLine(_Line):
    kind: Literal["message"]
    app_id: Id
    project_id: Id
    thread_id: Id
    position: _Number
    id: Id
    role: Any  # a `Message` checks it, as it does with origin, content and metadata
    origin: Any
    content: Any
    metadata: Any
    created_at: _Time
    run_id: Id | None
    expires_at: _Micros | None = None

    def add_to(self, export: Export) -> None:
        thread = export.threads.get((self.app_id, self.project_id, self.thread_id))
        if thread is None:
            raise InvalidArgumentError("thread_id", "the export has no such thread before this line")
        previous = thread.messages[-1].position if thread.messages else 0
        if not previous < self.position < cast("int", thread.values["next_position"]):
            raise InvalidArgumentError("position", "is not in the order of its thread")
        item = ExportedMessage(self._make_message(), self.position, self.run_id, self.expires_at)
        if export.messages.setdefault((self.app_id, self.project_id, self.id), item) is not item:
            raise InvalidArgumentError("id", "another message of the export has this id")
        thread.messages.append(item)

    def _make_message(self) -> Message:
        content = self.content
        return Message(
            self.role,
            content if isinstance(content, str) else [part_from_dict(part) for part in _check_parts(content)],
            id=self.id,
            metadata=self.metadata,
            created_at=self.created_at,
            origin=self.origin,
        )


class _MemoryLine(_Line):
    kind: Literal["memory"]
    key: Id
    value: _Object
    updated_at: _Micros

    def add_to(self, export: Export) -> None:
        entry = self.model_dump(exclude={"kind"})
        if export.memory.setdefault(self.key, entry) is not entry:
            raise InvalidArgumentError("key", "the export has another value under this key")


class _StateLine(_Line):
    kind: Literal["state"]
    mode: Id
    updated_at: _Micros

    def add_to(self, export: Export) -> None:
        if export.state is not None:
            raise InvalidArgumentError("state", "the export has another state")
        export.state = self.model_dump(exclude={"kind"})


class _WorkingMemoryLine(_Line):
    kind: Literal["working_memory"]
    app_id: Id | None
    project_id: Id | None
    thread_id: Id | None
    version: _Number
    value: Annotated[Any, AfterValidator(lambda value: encode_fields(value, ""))]
    run_id: Id | None
    updated_at: _Micros

    def add_to(self, export: Export) -> None:
        # A user's own working memory has no app, project and thread.
        key = (self.app_id or "", self.project_id or "", self.thread_id or "")
        if any(key) and not all(key):
            raise InvalidArgumentError(
                "thread_id", "must come with app_id and project_id; leave out all three for the user's own"
            )
        versions = export.working_memory.setdefault(key, [])
        if versions and self.version <= cast("int", versions[-1]["version"]):
            raise InvalidArgumentError("version", "is not in the order of its working memory")
        if len(versions) == MAX_VERSIONS:
            raise InvalidArgumentError(
                "version", f"is one too many: a working memory has at most {MAX_VERSIONS} versions"
            )
        versions.append(self.model_dump(exclude={"kind"}) | _make_columns(key))


class _EventLine(_Line):
    kind: Literal["event"]
    app_id: Id
    project_id: Id
    thread_id: Id
    name: Id
    run_id: Id | None
    payload: _Object
    context_visible: Annotated[bool, BeforeValidator(_check_hidden)]
    created_at: _Micros

    def add_to(self, export: Export) -> None:
        export.events.append(self.model_dump(exclude={"kind", "context_visible"}))


_AnyLine: TypeAlias = _ThreadLine | _MessageLine | _MemoryLine | _StateLine | _WorkingMemoryLine | _EventLine
_LINES: TypeAdapter[_AnyLine] = TypeAdapter(Annotated[_AnyLine, Field(discriminator="kind")])
_FRAME: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


def read_export(lines: Iterable[str]) -> Export:
    """Read an export; an `InvalidArgumentError` gives the number of the first wrong line."""
    numbered = [(number, line) for number, line in enumerate(lines, 1) if not _is_blank(line)]
    _check_frame(numbered)
    export = Export()
    for number, line in numbered[1:-1]:
        record = _read(_LINES, number, line)
        try:
            record.add_to(export)
        except InvalidArgumentError as error:
            raise _line_error(number, str(error)) from None
    return export


def _check_frame(numbered: list[tuple[int, str]]) -> None:
    first = _read(_FRAME, *numbered[0]) if numbered else {}
    if first.get("kind") != "export":
        raise InvalidArgumentError(
            "lines", "this is not a recollect export: its first line must be of the kind 'export'"
        )
    if first.get("format") != FORMAT:
        raise InvalidArgumentError("lines", f"this version of recollect reads only export format {FORMAT}")
    if _read(_FRAME, *numbered[-1]) != {"kind": "end", "lines": len(numbered) - 2}:
        raise InvalidArgumentError(
            "lines", "the export is incomplete: its last line is missing, or its count of lines is wrong"
        )


def _read(form: TypeAdapter[T], number: int, line: object) -> T:
    if not isinstance(line, str):
        raise _line_error(number, f"must be text, not {type(line).__name__}")
    try:
        return form.validate_json(line)
    except ValidationError as error:
        raise _line_error(number, ": ".join(filter(None, find_problem(error)))) from None


def _is_blank(line: object) -> bool:
    return isinstance(line, str) and not line.strip()


def _line_error(number: int, problem: str) -> InvalidArgumentError:
    return InvalidArgumentError("lines", f"line {number}: {problem}")


def _check_parts(content: object) -> list[Mapping[str, object]]:
    if not isinstance(content, list):
        raise InvalidArgumentError("content", "must be text or a list of parts")
    for part in cast("list[object]", content):
        if not isinstance(part, dict):
            raise InvalidArgumentError("content", "each part must be an object")
    return cast("list[Mapping[str, object]]", content)
