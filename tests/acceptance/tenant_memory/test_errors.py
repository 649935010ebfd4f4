"""Document C, "Core Test Coverage": error tests, for async methods and sync functions alike."""

import pytest
from tests.users.calls import Call, add_messages

from recollect.users import InvalidRoleError, MemoryNotFoundError, Users


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
    (number,) = add_messages(call, "a")
    for missing in (0, number + 1000, 2**63 - 1):
        with pytest.raises(MemoryNotFoundError, match=str(missing)):
            call(Users.delete_message, missing, tenant_id=1)
    call(Users.delete_message, number, tenant_id=1)
    with pytest.raises(MemoryNotFoundError):
        call(Users.delete_message, number, tenant_id=1)
