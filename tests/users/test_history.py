"""What the functions for users show of conversations that the rest of recollect has written."""

import pytest

from recollect import FilePart, Message, ReasoningPart, Scope, Store, TextPart, ToolCall, ToolResult
from recollect.users import MemoryNotFoundError, Users

pytestmark = pytest.mark.anyio

ANN = Scope(1, "ann", "t")


@pytest.fixture
def users(store: Store) -> Users:
    """The functions for users on each engine in turn."""
    return Users(store)


def _tool_turn() -> list[Message]:
    return [
        Message("user", "What is the weather?", id="question"),
        Message("assistant", [TextPart("Looking."), ToolCall("c", "weather")], id="call"),
        Message("tool", [ToolResult("c", "weather", "rain")], id="result"),
        Message("assistant", "It rains.", id="answer"),
    ]


async def _contents(users: Users) -> list[str]:
    return [message.content for message in await users.get_recent_messages("ann", 1, 100)]


async def test_added_message_stands_in_the_default_thread(store: Store, users: Users) -> None:
    """A message added here is one of the user's thread `default`, for everybody to read."""
    number = await users.add_message("ann", "assistant", "hi", tenant_id=1)
    (message,) = await store.last_messages(None, scope=Scope(1, "ann", "default"))
    assert (message.number, message.role, message.text) == (number, "assistant", "hi")
    assert message.origin == "response"
    (thread,) = await store.list_threads(scope=Scope(1, "ann"))
    assert (thread.id, thread.message_count) == ("default", 1)


async def test_history_spans_threads_apps_and_projects(store: Store, users: Users) -> None:
    """What was said anywhere shows, in the order in which it was stored."""
    places = [
        ANN,
        Scope(1, "ann", "u"),
        Scope(1, "ann", "t", app_id="x"),
        Scope(1, "ann", "t", project_id="y"),
    ]
    for index, scope in enumerate(places):
        await store.append_turn([Message("user", f"said {index}")], scope=scope)
    await users.add_message("ann", "user", "said here", tenant_id=1)
    expected = ["said 0", "said 1", "said 2", "said 3", "said here"]
    assert await _contents(users) == expected
    newest_first = await users.get_conversation_history("ann", 1)
    assert [message.content for message in newest_first] == expected[::-1]
    assert await users.count_messages("ann", 1) == 5
    page = await users.get_conversation_history("ann", 1, limit=2, offset=1)
    assert [message.content for message in page] == ["said 3", "said 2"]


async def test_history_shows_only_messages_with_text_of_user_and_assistant(
    store: Store, users: Users
) -> None:
    """Tool messages, system messages and messages without text neither show nor count."""
    hidden = [
        Message("system", "be kind"),
        Message("tool", "output"),
        Message("user", ""),
        Message("assistant", [ReasoningPart("hm")]),
        Message("user", [FilePart("image/png", data="aGk=")]),
        Message("assistant", [ToolCall("other", "weather")]),
    ]
    await store.append_turn([*_tool_turn(), *hidden], scope=ANN)
    assert await _contents(users) == ["What is the weather?", "Looking.", "It rains."]
    assert await users.count_messages("ann", 1) == 3
    assert len(await store.last_messages(None, scope=ANN)) == 10


async def test_text_of_parts_is_joined_by_line_breaks(store: Store, users: Users) -> None:
    """A message of several parts shows all its text and nothing else."""
    parts = [TextPart("one"), ReasoningPart("hidden"), TextPart("two")]
    await store.append_turn([Message("assistant", parts)], scope=ANN)
    assert await _contents(users) == ["one\ntwo"]


async def test_recent_messages_count_what_shows(store: Store, users: Users) -> None:
    """Hidden messages between do not use up the count."""
    await store.append_turn(_tool_turn(), scope=ANN)
    await store.append_turn([Message("system", "x") for _ in range(20)], scope=ANN)
    recent = await users.get_recent_messages("ann", 1, count=2)
    assert [message.content for message in recent] == ["Looking.", "It rains."]


async def test_clearing_removes_hidden_messages_but_counts_what_showed(store: Store, users: Users) -> None:
    """Everything of the user's conversations goes; the count is the one of `count_messages`."""
    await store.append_turn([*_tool_turn(), Message("system", "x")], scope=ANN)
    await store.append_turn([Message("tool", "only a tool")], scope=Scope(1, "ann", "u", app_id="x"))
    await users.set_memory("ann", "key", {}, tenant_id=1)
    counted = await users.count_messages("ann", 1)
    assert await users.clear_conversation_history("ann", 1) == counted == 3
    assert await store.last_messages(None, scope=ANN) == []
    assert await store.list_threads(scope=ANN) == []
    assert await store.list_threads(scope=Scope(1, "ann", app_id="x")) == []
    assert await users.get_memory("ann", "key", tenant_id=1) == {}


async def test_clearing_returns_0_but_removes_when_nothing_showed(store: Store, users: Users) -> None:
    """A conversation of hidden messages only is removed all the same."""
    await store.append_turn([Message("system", "x")], scope=ANN)
    assert await users.clear_conversation_history("ann", 1) == 0
    assert await store.last_messages(None, scope=ANN) == []


async def test_deleting_a_message_removes_its_tool_results(store: Store, users: Users) -> None:
    """A message with a tool call goes together with the results; what else was said stays."""
    places = await store.append_turn(_tool_turn(), scope=ANN)
    await users.delete_message(places[1].number, tenant_id=1)
    assert [message.id for message in await store.last_messages(None, scope=ANN)] == ["question", "answer"]
    assert await _contents(users) == ["What is the weather?", "It rains."]
    with pytest.raises(MemoryNotFoundError):
        await users.delete_message(places[2].number, tenant_id=1)


async def test_deleting_reaches_every_thread_and_user_of_the_tenant(store: Store, users: Users) -> None:
    """The id alone finds a message in any thread, app and project, hidden ones too."""
    places = [
        (await store.append_turn([Message("system", "x")], scope=scope))[0]
        for scope in (ANN, Scope(1, "bob", "u", "x", "y"), Scope(1, "ann", "t", app_id="z"))
    ]
    for place in places:
        await users.delete_message(place.number, tenant_id=1)
    assert await store.last_messages(None, scope=Scope(1, "bob", "u", "x", "y")) == []


async def test_models_cannot_be_changed(users: Users) -> None:
    """What is handed out is a value, not a door to the store."""
    await users.add_message("ann", "user", "hi", tenant_id=1)
    (message,) = await users.get_conversation_history("ann", 1)
    with pytest.raises(ValueError, match="frozen"):
        message.content = "changed"


async def test_value_that_was_read_is_a_copy(users: Users) -> None:
    """Changing a value after reading or setting it changes nothing in the store."""
    given = {"list": [1]}
    await users.set_memory("ann", "key", given, tenant_id=1)
    given["list"].append(2)
    read = await users.get_memory("ann", "key", tenant_id=1)
    assert read is not None
    assert read["list"] == [1]
    read["list"].append(3)
    assert await users.get_memory("ann", "key", tenant_id=1) == {"list": [1]}
