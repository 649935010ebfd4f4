"""Document C's own list of tests, by its names, for the async methods and the sync functions alike."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.users.calls import Call

from recollect.users import InvalidRoleError, MemoryNotFoundError, Users, UserState


def _talk(call: Call, *texts: str, user_id: str = "user123", tenant_id: int | None = 1) -> list[int]:
    return [
        call(Users.add_message, user_id, "assistant" if index % 2 else "user", text, tenant_id=tenant_id)
        for index, text in enumerate(texts)
    ]


def test_add_message_user(call: Call) -> None:
    """A user's message is stored with all its fields, and its id is a number of its own."""
    first = call(Users.add_message, "user123", "user", "What is Python?", 1)
    second = call(Users.add_message, user_id="user123", role="user", content="?", tenant_id=1)
    assert second > first > 0
    message = call(Users.get_conversation_history, "user123", tenant_id=1)[-1]
    assert message.id == first
    assert (message.tenant_id, message.user_id) == (1, "user123")
    assert (message.role, message.content) == ("user", "What is Python?")
    assert abs(datetime.now(UTC) - message.created_at) < timedelta(minutes=5)


def test_add_message_assistant(call: Call) -> None:
    """An assistant's message is stored under its role."""
    call(Users.add_message, "user123", "assistant", "A programming language.", tenant_id=1)
    (message,) = call(Users.get_conversation_history, "user123", tenant_id=1)
    assert (message.role, message.content) == ("assistant", "A programming language.")


def test_get_conversation_history(call: Call) -> None:
    """History is newest first; limit and offset cut it, and no limit is all of it."""
    _talk(call, "a", "b", "c", "d")
    history = call(Users.get_conversation_history, "user123", 1)
    assert [message.content for message in history] == ["d", "c", "b", "a"]
    page = call(Users.get_conversation_history, "user123", 1, 2, 1)
    assert [message.content for message in page] == ["c", "b"]
    rest = call(Users.get_conversation_history, "user123", tenant_id=1, limit=None, offset=3)
    assert [message.content for message in rest] == ["a"]
    assert call(Users.get_conversation_history, "user123", tenant_id=1, limit=0) == []
    assert call(Users.get_conversation_history, "unknown", tenant_id=1) == []


def test_get_recent_messages(call: Call) -> None:
    """The last messages come oldest first, ten of them unless told otherwise."""
    _talk(call, *map(str, range(12)))
    recent = call(Users.get_recent_messages, "user123", tenant_id=1)
    assert [message.content for message in recent] == list(map(str, range(2, 12)))
    recent = call(Users.get_recent_messages, "user123", 1, 3)
    assert [message.content for message in recent] == ["9", "10", "11"]
    assert len(call(Users.get_recent_messages, "user123", tenant_id=1, count=100)) == 12
    assert call(Users.get_recent_messages, "user123", tenant_id=1, count=0) == []


def test_count_messages(call: Call) -> None:
    """The count is that of the user's messages."""
    assert call(Users.count_messages, "user123", tenant_id=1) == 0
    _talk(call, "a", "b", "c")
    assert call(Users.count_messages, "user123", 1) == 3
    assert call(Users.count_messages, "other", tenant_id=1) == 0


def test_clear_conversation_history(call: Call) -> None:
    """Clearing removes the user's messages and returns their number; clearing nothing returns 0."""
    _talk(call, "a", "b", "c")
    _talk(call, "kept", user_id="other")
    assert call(Users.clear_conversation_history, "user123", tenant_id=1) == 3
    assert call(Users.get_conversation_history, "user123", tenant_id=1) == []
    assert call(Users.clear_conversation_history, "user123", tenant_id=1) == 0
    assert call(Users.count_messages, "other", tenant_id=1) == 1


def test_delete_message(call: Call) -> None:
    """A message is deleted by its id, which names no user."""
    _, second, _ = _talk(call, "a", "b", "c")
    assert call(Users.delete_message, second, tenant_id=1) is None
    history = call(Users.get_conversation_history, "user123", tenant_id=1)
    assert [message.content for message in history] == ["c", "a"]


def test_tenant_isolation(call: Call) -> None:
    """Every tenant, None included, sees, changes and deletes its own data only."""
    tenants = (1, 2, None)
    numbers = {tenant: _talk(call, f"of {tenant}", tenant_id=tenant)[0] for tenant in tenants}
    for tenant in tenants:
        call(Users.set_memory, "user123", "key", {"of": tenant}, tenant_id=tenant)
        call(Users.set_user_state, "user123", f"state {tenant}", tenant_id=tenant)
    for tenant in tenants:
        history = call(Users.get_conversation_history, "user123", tenant_id=tenant)
        assert [(m.content, m.tenant_id) for m in history] == [(f"of {tenant}", tenant)]
        assert call(Users.get_memory, "user123", "key", tenant_id=tenant) == {"of": tenant}
        for other in set(tenants) - {tenant}:
            with pytest.raises(MemoryNotFoundError):
                call(Users.delete_message, numbers[other], tenant_id=tenant)
    assert call(Users.clear_conversation_history, "user123", tenant_id=None) == 1
    assert call(Users.clear_all_memory, "user123", tenant_id=None) == 1
    call(Users.delete_user_state, "user123", tenant_id=None)
    for tenant in (1, 2):
        assert call(Users.count_messages, "user123", tenant_id=tenant) == 1
        assert call(Users.get_memory, "user123", "key", tenant_id=tenant) == {"of": tenant}
        state = call(Users.get_user_state, "user123", tenant_id=tenant)
        assert state is not None
        assert (state.mode, state.tenant_id) == (f"state {tenant}", tenant)


def test_set_memory(call: Call) -> None:
    """A value is kept under its key with all its fields."""
    value = {"language": "en", "nested": {"list": [1, 2.5, None, True]}}
    number = call(Users.set_memory, "user123", "preferences", value, tenant_id=1)
    (entry,) = call(Users.get_all_memory, "user123", tenant_id=1)
    assert (entry.id, entry.tenant_id, entry.user_id) == (number, 1, "user123")
    assert (entry.key, entry.value) == ("preferences", value)
    assert abs(datetime.now(UTC) - entry.updated_at) < timedelta(minutes=5)


def test_get_memory(call: Call) -> None:
    """A value comes back as the dict that it was; what is not there is None."""
    call(Users.set_memory, "user123", "context", {"depth": "advanced"}, 1)
    assert call(Users.get_memory, "user123", "context", 1) == {"depth": "advanced"}
    assert call(Users.get_memory, "user123", "unknown", tenant_id=1) is None
    assert call(Users.get_memory, "unknown", "context", tenant_id=1) is None


def test_get_all_memory(call: Call) -> None:
    """All values of a user come by key; an unknown user has none."""
    for key in ("b", "a", "c"):
        call(Users.set_memory, "user123", key, {"key": key}, tenant_id=1)
    entries = call(Users.get_all_memory, "user123", tenant_id=1)
    assert [(entry.key, entry.value) for entry in entries] == [(key, {"key": key}) for key in "abc"]
    assert call(Users.get_all_memory, "unknown", tenant_id=1) == []


def test_memory_upsert(call: Call) -> None:
    """Setting a key again replaces the value, keeps the id and moves the time on."""
    first = call(Users.set_memory, "user123", "key", {"a": 1, "b": 2}, tenant_id=1)
    (before,) = call(Users.get_all_memory, "user123", tenant_id=1)
    assert call(Users.set_memory, "user123", "key", {"a": 3}, tenant_id=1) == first
    (after,) = call(Users.get_all_memory, "user123", tenant_id=1)
    assert (after.id, after.value) == (first, {"a": 3})
    assert after.updated_at >= before.updated_at


def test_delete_memory(call: Call) -> None:
    """A deleted value is gone, and the others are not."""
    call(Users.set_memory, "user123", "gone", {}, tenant_id=1)
    call(Users.set_memory, "user123", "kept", {}, tenant_id=1)
    assert call(Users.delete_memory, "user123", "gone", tenant_id=1) is None
    assert call(Users.get_memory, "user123", "gone", tenant_id=1) is None
    assert call(Users.get_memory, "user123", "kept", tenant_id=1) == {}


def test_clear_all_memory(call: Call) -> None:
    """Clearing removes all values of the user and returns their number."""
    for key in ("a", "b"):
        call(Users.set_memory, "user123", key, {}, tenant_id=1)
    call(Users.set_memory, "other", "a", {}, tenant_id=1)
    assert call(Users.clear_all_memory, "user123", tenant_id=1) == 2
    assert call(Users.clear_all_memory, "user123", tenant_id=1) == 0
    assert call(Users.get_memory, "other", "a", tenant_id=1) == {}


def test_set_user_state(call: Call) -> None:
    """A state is kept with all its fields."""
    assert call(Users.set_user_state, "user123", "halted", tenant_id=1) is None
    state = call(Users.get_user_state, "user123", tenant_id=1)
    assert state is not None
    assert state == UserState(tenant_id=1, user_id="user123", mode="halted", updated_at=state.updated_at)
    assert abs(datetime.now(UTC) - state.updated_at) < timedelta(minutes=5)


def test_get_user_state(call: Call) -> None:
    """A user whose state was never set has none."""
    assert call(Users.get_user_state, "user123", tenant_id=1) is None
    call(Users.set_user_state, "user123", "active", 1)
    assert call(Users.get_user_state, "other", tenant_id=1) is None


def test_state_upsert(call: Call) -> None:
    """Setting a state again replaces it."""
    for mode in ("halted", "active"):
        call(Users.set_user_state, "user123", mode, tenant_id=1)
    state = call(Users.get_user_state, "user123", tenant_id=1)
    assert state is not None
    assert state.mode == "active"


def test_delete_user_state(call: Call) -> None:
    """A deleted state is gone."""
    call(Users.set_user_state, "user123", "active", tenant_id=1)
    assert call(Users.delete_user_state, "user123", tenant_id=1) is None
    assert call(Users.get_user_state, "user123", tenant_id=1) is None


def test_invalid_role_error(call: Call) -> None:
    """A role other than user and assistant is refused, and nothing is stored."""
    for role in ("system", "tool", "admin", "User", "", None, 5, ["user"]):
        with pytest.raises(InvalidRoleError, match="role: must be 'user' or 'assistant'"):
            call(Users.add_message, "user123", role, "text", tenant_id=1)  # pyright: ignore[reportArgumentType] - wrong on purpose
    assert call(Users.count_messages, "user123", tenant_id=1) == 0


def test_memory_not_found(call: Call) -> None:
    """Deleting memory or a state that is not there is an error that names it."""
    call(Users.set_memory, "user123", "there", {}, tenant_id=1)
    with pytest.raises(MemoryNotFoundError, match="'elsewhere'"):
        call(Users.delete_memory, "user123", "elsewhere", tenant_id=1)
    with pytest.raises(MemoryNotFoundError, match="'other'"):
        call(Users.delete_memory, "other", "there", tenant_id=1)
    with pytest.raises(MemoryNotFoundError, match="'user123'"):
        call(Users.delete_user_state, "user123", tenant_id=1)
    assert call(Users.get_memory, "user123", "there", tenant_id=1) == {}


def test_delete_nonexistent(call: Call) -> None:
    """A message that never was, or is gone already, cannot be deleted."""
    (number,) = _talk(call, "a")
    for missing in (0, number + 1000, 2**63 - 1):
        with pytest.raises(MemoryNotFoundError, match=str(missing)):
            call(Users.delete_message, missing, tenant_id=1)
    call(Users.delete_message, number, tenant_id=1)
    with pytest.raises(MemoryNotFoundError):
        call(Users.delete_message, number, tenant_id=1)
