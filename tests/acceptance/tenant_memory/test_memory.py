"""Document C, "Core Test Coverage": memory tests, for async methods and sync functions alike."""

from datetime import UTC, datetime, timedelta

from tests.users.calls import Call

from recollect.users import Users


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
