"""The functions for users that no other file here is about, async and sync."""

from tests.users.calls import Call, add_messages

from recollect.users import Users


def test_add_message_assistant(call: Call) -> None:
    """An assistant's message is stored under its role."""
    call(Users.add_message, "user123", "assistant", "A programming language.", tenant_id=1)
    (message,) = call(Users.get_conversation_history, "user123", tenant_id=1)
    assert (message.role, message.content) == ("assistant", "A programming language.")


def test_delete_message(call: Call) -> None:
    """A message is deleted by its id, which names no user."""
    _, second, _ = add_messages(call, "a", "b", "c")
    assert call(Users.delete_message, second, tenant_id=1) is None
    history = call(Users.get_conversation_history, "user123", tenant_id=1)
    assert [message.content for message in history] == ["c", "a"]


def test_get_all_memory(call: Call) -> None:
    """All values of a user come by key; an unknown user has none."""
    for key in ("b", "a", "c"):
        call(Users.set_memory, "user123", key, {"key": key}, tenant_id=1)
    entries = call(Users.get_all_memory, "user123", tenant_id=1)
    assert [(entry.key, entry.value) for entry in entries] == [(key, {"key": key}) for key in "abc"]
    assert call(Users.get_all_memory, "unknown", tenant_id=1) == []


def test_clear_all_memory(call: Call) -> None:
    """Clearing removes all values of the user and returns their number."""
    for key in ("a", "b"):
        call(Users.set_memory, "user123", key, {}, tenant_id=1)
    call(Users.set_memory, "other", "a", {}, tenant_id=1)
    assert call(Users.clear_all_memory, "user123", tenant_id=1) == 2
    assert call(Users.clear_all_memory, "user123", tenant_id=1) == 0
    assert call(Users.get_memory, "other", "a", tenant_id=1) == {}


def test_delete_user_state(call: Call) -> None:
    """A deleted state is gone."""
    call(Users.set_user_state, "user123", "active", tenant_id=1)
    assert call(Users.delete_user_state, "user123", tenant_id=1) is None
    assert call(Users.get_user_state, "user123", tenant_id=1) is None
