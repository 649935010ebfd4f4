"""Messages and their parts are values: checked when made, equal by content, and never changed."""

import copy
import pickle
from collections.abc import Iterable
from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, cast

import pytest

from recollect import (
    FilePart,
    InvalidArgumentError,
    Message,
    ReasoningPart,
    Scope,
    TextPart,
    ToolCall,
    ToolResult,
    open_store,
)
from recollect.errors import InvalidRoleError
from recollect.messages import (
    ORIGINS,
    ROLES,
    Part,
    Role,
    frame_parts,
    new_message_id,
    part_from_dict,
    part_to_dict,
    quoted_texts,
)

PARTS: list[Part] = [
    TextPart("hello"),
    TextPart(""),
    ToolCall("c", "look up", {"a": [1, None, {"b": 0.5}]}),
    ToolCall("c", "bare"),
    ToolResult("c", "look up", [{"n": 10**30}], is_error=True),
    ToolResult("c", "empty"),
    ReasoningPart("hm", signature="proof"),
    ReasoningPart("hm"),
    FilePart("image/png", url="https://example.org/cat.png"),
    FilePart("image/png", data="aGk=", name="cat.png"),
]


class _SetBack(tzinfo):
    """A zone whose clocks are set back, so that the first and the second pass of an hour differ."""

    def utcoffset(self, dt: datetime | None, /) -> timedelta:
        """Return the offset of the first or of the second pass."""
        return timedelta(hours=1 if dt is not None and dt.fold else 2)

    def dst(self, _dt: datetime | None, /) -> None:
        """Leave it open."""

    def tzname(self, _dt: datetime | None, /) -> str:
        """Return a name."""
        return "set back"


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("id", {"id": ""}),
    ("id", {"id": "x" * 513}),
    ("id", {"id": "a\0b"}),
    ("id", {"id": 5}),
    ("content", {"content": "a\0b"}),
    ("content", {"content": "\ud800"}),
    ("content", {"content": None}),
    ("content", {"content": 5}),
    ("content", {"content": b"bytes"}),
    ("content", {"content": ["text"]}),
    ("content", {"content": [TextPart("a"), None]}),
    ("content", {"content": [TextPart("a\0b")]}),
    ("content", {"content": [TextPart(cast("str", 5))]}),
    ("tool call id", {"content": [ToolCall("", "tool")]}),
    ("tool name", {"content": [ToolCall("c", "")]}),
    ("tool arguments", {"content": [ToolCall("c", "tool", cast("dict[str, object]", []))]}),
    ("tool arguments.a", {"content": [ToolCall("c", "tool", {"a": float("nan")})]}),
    ("tool call id", {"content": [ToolResult("x" * 513, "tool")]}),
    ("tool name", {"content": [ToolResult("c", cast("str", None))]}),
    ("tool result[0]", {"content": [ToolResult("c", "tool", [{1}])]}),
    ("is_error", {"content": [ToolResult("c", "tool", is_error=cast("bool", "no"))]}),
    ("reasoning", {"content": [ReasoningPart("\ud800")]}),
    ("signature", {"content": [ReasoningPart("x", signature=cast("str", 5))]}),
    ("media_type", {"content": [FilePart("", url="x")]}),
    ("content", {"content": [FilePart("image/png")]}),
    ("content", {"content": [FilePart("image/png", url="x", data="x")]}),
    ("file url", {"content": [FilePart("image/png", url="a\0b")]}),
    ("file name", {"content": [FilePart("image/png", url="x", name="\ud800")]}),
    ("metadata", {"metadata": []}),
    ("metadata", {"metadata": "text"}),
    ("metadata.a", {"metadata": {"a": {1, 2}}}),
    ("metadata.a[1]", {"metadata": {"a": [0, float("inf")]}}),
    ("created_at", {"created_at": "2024-01-01"}),
    ("created_at", {"created_at": datetime(2024, 1, 1)}),  # noqa: DTZ001 - wrong on purpose
    ("created_at", {"created_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))}),
    ("created_at", {"created_at": datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2)))}),
    ("origin", {"origin": "mars"}),
    ("origin", {"origin": ""}),
]


def test_message_makes_up_what_is_not_given() -> None:
    """Id, time, origin and metadata have defaults; what only a store gives is None."""
    message = Message("user", "hello")
    assert (message.role, message.text, message.origin) == ("user", "hello", "input")
    assert message.metadata == {}
    assert abs(datetime.now(UTC) - message.created_at) < timedelta(minutes=1)
    assert message.id
    stored = (message.thread_id, message.position, message.number, message.run_id)
    assert stored == (None, None, None, None)


def test_message_keeps_what_is_given() -> None:
    """Every argument becomes the field of its name."""
    time = datetime(2024, 5, 6, tzinfo=UTC)
    message = Message("tool", "x", id="m", metadata={"a": 1}, created_at=time, origin="memory")
    assert (message.id, message.created_at, message.origin) == ("m", time, "memory")
    assert (message.role, message.metadata) == ("tool", {"a": 1})


@pytest.mark.parametrize(
    ("role", "origin"),
    [("user", "input"), ("assistant", "response"), ("tool", "response"), ("system", "system")],
)
def test_origin_follows_from_the_role_when_none_is_given(role: Role, origin: str) -> None:
    """Each role has an origin of its own."""
    assert Message(role).origin == origin
    assert role in ROLES
    assert origin in ORIGINS


def test_kind_says_what_was_made_for_a_run() -> None:
    """It counts when messages are compared, stays when one is replaced, and is one of a few words."""
    message = Message("system", "x", id="m", created_at=datetime.now(UTC), origin="memory", kind="recalled")
    assert (message.kind, Message("user", "x").kind) == ("recalled", None)
    assert message.replace(content="y").kind == "recalled"
    assert message.replace(kind=None) != message
    assert message.replace(kind="skill").kind == "skill"
    with pytest.raises(InvalidArgumentError, match="kind: must be one of recalled"):
        message.replace(kind="else")


def test_quoted_texts_leave_out_the_frame() -> None:
    """Whatever stands in them."""
    message = Message("system", frame_parts(["<memory>", "one", "</memory>", "</memory>"]))
    assert quoted_texts(message) == ["one", "</memory>"]
    assert quoted_texts(Message("user", "plain")) == ["plain"]


def test_made_ids_differ_and_sort_by_time() -> None:
    """No two made ids are equal, and none is longer than an id may be."""
    made = [new_message_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(Message("user", id=name).id == name for name in made[:3])
    assert made[0][:11] <= made[-1][:11]


@pytest.mark.parametrize(("argument", "given"), WRONG)
def test_wrong_value_is_refused_by_name(argument: str, given: dict[str, Any]) -> None:
    """An argument that could not be stored is an error that names it."""
    with pytest.raises(InvalidArgumentError) as raised:
        Message("user", **given)
    assert raised.value.argument == argument


@pytest.mark.parametrize("role", ["", "User", "robot", None, 5, ["user"], {}])
def test_unknown_role_is_refused(role: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """A role is one of four, and the error lists them."""
    with pytest.raises(InvalidRoleError, match="role: must be one of user, assistant, tool, system"):
        Message(role, "x")


def test_error_about_a_long_role_is_short() -> None:
    """A hostile value is not repeated in full."""
    with pytest.raises(InvalidRoleError) as raised:
        Message(cast("Role", "x" * 10_000))
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_part_survives_the_way_through_json(part: Part) -> None:
    """`part_from_dict` reads what `part_to_dict` wrote."""
    assert part_from_dict(part_to_dict(part)) == part
    assert part_to_dict(part)["type"] == part.type


def test_part_leaves_out_what_is_none() -> None:
    """The JSON of a part holds no empty fields."""
    assert part_to_dict(ReasoningPart("hm")) == {"type": "reasoning", "text": "hm"}
    assert part_to_dict(FilePart("a/b", url="x")) == {"type": "file", "media_type": "a/b", "url": "x"}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"type": "poem"},
        {"type": None},
        {"type": []},
        {"type": "text"},
        {"type": "text", "text": "", "x": 1},
    ],
)
def test_unknown_part_is_refused(value: dict[str, object]) -> None:
    """JSON that is no part is an error of our own."""
    with pytest.raises(InvalidArgumentError) as raised:
        part_from_dict(value)
    assert raised.value.argument == "parts"


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_part_cannot_be_changed(part: Part) -> None:
    """Parts are frozen."""
    for field in fields(part):
        with pytest.raises(FrozenInstanceError):
            setattr(part, field.name, "changed")


def test_content_reads_the_same_as_text_and_as_parts() -> None:
    """Plain text is one text part; text parts are joined by line breaks; no text is no part."""
    assert Message("user", "hello").parts == (TextPart("hello"),)
    assert Message("user", "").parts == ()
    assert Message("user", []).text == ""
    mixed = Message("assistant", [TextPart("a"), ReasoningPart("hidden"), TextPart("b")])
    assert mixed.text == mixed.content == "a\nb"
    assert len(mixed.parts) == 3


def test_tool_calls_and_results_are_found_among_the_parts() -> None:
    """Calls and results come in the order in which they stand."""
    message = Message("assistant", PARTS)
    assert [call.name for call in message.tool_calls] == ["look up", "bare"]
    assert [result.name for result in message.tool_results] == ["look up", "empty"]
    assert Message("user", "x").tool_calls == Message("user", "x").tool_results == ()


def test_conversation_is_text_of_user_and_assistant() -> None:
    """Only what a person would see counts as conversation."""
    assert Message("user", "x").is_conversation
    assert Message("assistant", [ReasoningPart("hm"), TextPart("x")]).is_conversation
    assert not Message("user", "").is_conversation
    assert not Message("assistant", [ReasoningPart("hm")]).is_conversation
    assert not Message("tool", "x").is_conversation
    assert not Message("system", "x").is_conversation


def test_messages_are_equal_when_their_content_is() -> None:
    """One text part says the same as the text; any other difference makes another message."""
    time = datetime(2024, 5, 6, tzinfo=UTC)
    message = Message("user", "x", id="m", created_at=time)
    assert message == Message("user", [TextPart("x")], id="m", created_at=time)
    assert message == Message("user", "x", id="m", created_at=time.astimezone(timezone(timedelta(hours=9))))
    for changes in ({"content": "y"}, {"id": "n"}, {"role": "tool"}, {"origin": "memory"}):
        assert message.replace(**changes) != message
    assert message.replace(metadata={"a": 1}) != message
    assert message.replace(created_at=time + timedelta(microseconds=1)) != message
    assert message != "x"


def test_equal_messages_have_one_hash() -> None:
    """Messages can be in sets, rich ones with metadata too."""
    message = Message("assistant", PARTS, id="m", metadata={"a": [1]})
    assert len({message, message.replace(), Message("user", "other", id="m")}) == 2


def test_replace_changes_what_is_named_and_keeps_the_rest() -> None:
    """The old message stays as it is, and the new one is checked like any other."""
    message = Message("assistant", PARTS, id="m", metadata={"a": 1}, origin="memory")
    changed = message.replace(content="new", role="user")
    assert (changed.text, changed.role, changed.id) == ("new", "user", "m")
    assert (changed.metadata, changed.origin) == ({"a": 1}, "memory")
    assert changed.created_at == message.created_at
    assert message.parts == tuple(PARTS)
    assert message.replace() == message
    with pytest.raises(InvalidRoleError):
        message.replace(role="robot")


@pytest.mark.parametrize("name", ["text", "parts", "number", "position", "thread_id", "run_id", "x"])
def test_replace_refuses_what_is_not_the_callers_to_change(name: str) -> None:
    """What the store gives, and what follows from other fields, cannot be replaced."""
    with pytest.raises(InvalidArgumentError) as raised:
        Message("user", "x").replace(**{name: "y"})
    assert raised.value.argument == name


def test_repr_is_short_and_says_who_said_what() -> None:
    """A long text is cut, so that a list of messages stays readable."""
    assert repr(Message("user", "hi", id="m")) == "Message('user', 'hi', id='m')"
    assert (
        repr(Message("assistant", PARTS[:3], id="m")) == "Message('assistant', 'hello\\n', 3 parts, id='m')"
    )
    long = repr(Message("user", "x" * 10_000, id="m"))
    assert len(long) < 120
    assert "xxx..." in long


def test_message_does_not_share_the_callers_dict() -> None:
    """Changing a dict after it was given changes no message."""
    metadata: dict[str, object] = {"a": 1}
    message = Message("user", "x", metadata=metadata)
    metadata["a"] = 2
    assert message.metadata == {"a": 1}


@pytest.fixture
async def stored() -> list[Message]:
    """Messages that were read back from a store."""
    scope = Scope(1, "ann", "t")
    given = [Message("user", "hi", metadata={"a": 1}), Message("assistant", PARTS), Message("tool", "")]
    async with open_store("sqlite://") as store:
        await store.append_turn(given, scope=scope, run_id="run")
        return await store.last_messages(None, scope=scope)


def _made() -> list[Message]:
    return [Message("user", "hi", metadata={"a": 1}), Message("assistant", PARTS), Message("tool", "")]


@pytest.mark.anyio
async def test_messages_from_a_store_are_messages_like_any_other(stored: list[Message]) -> None:
    """They have the very same class, every field is set, and there is no room for others."""
    for message in stored:
        assert type(message) is Message
        assert not hasattr(message, "__dict__")
        assert [field.name for field in fields(message)] == list(Message.__slots__)
        assert all(hasattr(message, name) for name in Message.__slots__)
        assert message.run_id == "run"
        assert repr(message).startswith("Message('")


@pytest.mark.anyio
async def test_messages_from_a_store_equal_rebuilt_ones(stored: list[Message]) -> None:
    """A message that was read equals the one that the constructor makes of its fields."""
    for message in stored:
        assert message.replace() == message
        assert hash(message.replace()) == hash(message)
        assert isinstance(message.body, str | tuple)
        assert message.replace().number == message.number
        assert message.replace(id="another").number is None


@pytest.mark.anyio
async def test_message_of_an_ambiguous_hour_equals_its_stored_self() -> None:
    """Where clocks are set back an hour comes twice; a message from then is the same after storage."""
    message = Message("user", "x", created_at=datetime(2025, 10, 26, 2, 30, tzinfo=_SetBack()))
    scope = Scope(1, "ann", "t")
    async with open_store("sqlite://") as store:
        await store.append_turn([message], scope=scope)
        assert await store.last_messages(None, scope=scope) == [message]


@pytest.mark.anyio
async def test_no_message_can_be_changed(stored: list[Message]) -> None:
    """Neither a made message nor a stored one takes a new value for a field, or a new field."""
    _check_frozen([*_made(), *stored])


@pytest.mark.anyio
async def test_messages_can_be_copied_and_pickled(stored: list[Message]) -> None:
    """A copy is an equal message that knows where it stands."""
    for message in [*_made(), *stored]:
        for twin in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):  # noqa: S301 - our own bytes
            assert twin == message
            assert type(twin) is Message
            assert (twin.number, twin.position, twin.run_id) == (
                message.number,
                message.position,
                message.run_id,
            )
        _check_frozen([copy.copy(message)])


def _check_frozen(messages: Iterable[Message]) -> None:
    for message in messages:
        for name in Message.__slots__:
            with pytest.raises(FrozenInstanceError):
                setattr(message, name, None)
            with pytest.raises(FrozenInstanceError):
                delattr(message, name)
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            setattr(message, "new_field", 1)  # noqa: B010 - unknown to the type
