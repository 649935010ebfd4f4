"""Document C, "Core Test Coverage": state tests, for async methods and sync functions alike."""

from datetime import UTC, datetime, timedelta

from tests.users.calls import Call

from recollect.users import Users, UserState


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
