"""Document C, "Core Test Coverage": conversation tests, for async methods and sync functions alike."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.users.calls import Call, add_messages

from recollect.users import MemoryNotFoundError, Users


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


def test_get_conversation_history(call: Call) -> None:
    """History is newest first; limit and offset cut it, and no limit is all of it."""
    add_messages(call, "a", "b", "c", "d")
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
    add_messages(call, *map(str, range(12)))
    recent = call(Users.get_recent_messages, "user123", tenant_id=1)
    assert [message.content for message in recent] == list(map(str, range(2, 12)))
    recent = call(Users.get_recent_messages, "user123", 1, 3)
    assert [message.content for message in recent] == ["9", "10", "11"]
    assert len(call(Users.get_recent_messages, "user123", tenant_id=1, count=100)) == 12
    assert call(Users.get_recent_messages, "user123", tenant_id=1, count=0) == []


def test_count_messages(call: Call) -> None:
    """The count is that of the user's messages."""
    assert call(Users.count_messages, "user123", tenant_id=1) == 0
    add_messages(call, "a", "b", "c")
    assert call(Users.count_messages, "user123", 1) == 3
    assert call(Users.count_messages, "other", tenant_id=1) == 0


def test_clear_conversation_history(call: Call) -> None:
    """Clearing removes the user's messages and returns their number; clearing nothing returns 0."""
    add_messages(call, "a", "b", "c")
    add_messages(call, "kept", user_id="other")
    assert call(Users.clear_conversation_history, "user123", tenant_id=1) == 3
    assert call(Users.get_conversation_history, "user123", tenant_id=1) == []
    assert call(Users.clear_conversation_history, "user123", tenant_id=1) == 0
    assert call(Users.count_messages, "other", tenant_id=1) == 1


def test_tenant_isolation(call: Call) -> None:
    """Every tenant, None included, sees, changes and deletes its own data only."""
    tenants = (1, 2, None)
    numbers = {tenant: add_messages(call, f"of {tenant}", tenant_id=tenant)[0] for tenant in tenants}
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
