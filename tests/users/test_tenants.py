"""Tenants of the functions for users: an int, a text or None, each apart, and with the caller's type."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError
from tests.support.tenants import HOSTILE_TENANTS
from tests.users.calls import Call, add_messages

from recollect.scope import TenantId
from recollect.users import ConversationMessage, Users, UserState

EVERY_TENANT: tuple[TenantId, ...] = (None, 1, *HOSTILE_TENANTS)


def test_tenants_see_nothing_of_each_other(call: Call) -> None:
    """The same user under every tenant has a history, a memory and a state of each."""
    for tenant in EVERY_TENANT:
        add_messages(call, f"of {tenant!r}", tenant_id=tenant)
        call(Users.set_memory, "user123", "k", {"of": tenant}, tenant_id=tenant)
        call(Users.set_user_state, "user123", f"{tenant!r}"[-100:], tenant_id=tenant)
    for tenant in EVERY_TENANT:
        (message,) = call(Users.get_conversation_history, "user123", tenant_id=tenant)
        (entry,) = call(Users.get_all_memory, "user123", tenant_id=tenant)
        state = call(Users.get_user_state, "user123", tenant_id=tenant)
        assert state is not None
        assert (message.content, entry.value) == (f"of {tenant!r}", {"of": tenant})
        assert state.mode == f"{tenant!r}"[-100:]
        assert message.tenant_id == entry.tenant_id == state.tenant_id == tenant
    for tenant in EVERY_TENANT[::2]:
        assert call(Users.clear_conversation_history, "user123", tenant_id=tenant) == 1
        assert call(Users.clear_all_memory, "user123", tenant_id=tenant) == 1
    for tenant in EVERY_TENANT[1::2]:
        assert call(Users.count_messages, "user123", tenant_id=tenant) == 1
        assert call(Users.get_memory, "user123", "k", tenant_id=tenant) == {"of": tenant}


def test_int_and_its_digits_are_one_tenant(call: Call) -> None:
    """What comes back has the type of the call that asked."""
    (number,) = add_messages(call, "hi", tenant_id=1)
    call(Users.set_memory, "user123", "k", {}, tenant_id="1")
    call(Users.set_user_state, "user123", "calm", tenant_id="1")
    for tenant in (1, "1"):
        (message,) = call(Users.get_conversation_history, "user123", tenant_id=tenant)
        (entry,) = call(Users.get_all_memory, "user123", tenant_id=tenant)
        state = call(Users.get_user_state, "user123", tenant_id=tenant)
        assert state is not None
        assert [message.tenant_id, entry.tenant_id, state.tenant_id] == [tenant] * 3
    call(Users.delete_message, number, tenant_id="1")
    assert call(Users.count_messages, "user123", tenant_id=1) == 0


@pytest.mark.parametrize("tenant", [None, 1, "1", "01"])
def test_models_keep_the_type_of_a_tenant(tenant: TenantId) -> None:
    """Also on their way through JSON."""
    message = ConversationMessage(
        id=1, tenant_id=tenant, user_id="ann", role="user", content="hi", created_at=datetime.now(UTC)
    )
    again = ConversationMessage.model_validate_json(message.model_dump_json())
    assert (type(again.tenant_id), again.tenant_id) == (type(tenant), tenant)
    assert json.loads(message.model_dump_json())["tenant_id"] == tenant


@pytest.mark.parametrize("tenant", [True, 1.0, b"1"])
def test_models_take_no_other_types(tenant: object) -> None:
    """A bool is not 1, and bytes are no text."""
    with pytest.raises(ValidationError):
        UserState.model_validate(
            {"tenant_id": tenant, "user_id": "ann", "mode": "calm", "updated_at": datetime.now(UTC)}
        )
