"""What a store promises about tenants: an int, a text or None, each apart from all others, with its type."""

import json
from enum import Enum

import pytest
from tests.storage import readings
from tests.storage.contract.samples import said
from tests.support.tenants import BAD_TENANTS, HOSTILE_TENANTS, show_tenant

from recollect import InvalidArgumentError, Message, Scope, Store
from recollect.scope import TenantId

pytestmark = pytest.mark.anyio

EVERY_TENANT: tuple[TenantId, ...] = (None, 1, 2, *HOSTILE_TENANTS)


class Plan(int, Enum):
    """Tenants as a program might name them."""

    FREE = 1


class Customer(str, Enum):  # noqa: UP042 - its str() is its name, unlike that of a StrEnum
    """The same as texts."""

    ACME = "acme"


async def _keep(store: Store, scope: Scope) -> int:
    """Store something of each kind that names its tenant; return the number of the message."""
    text = f"of {scope.tenant_id!r}"
    (place,) = await store.append_turn([Message("user", text, id="m")], scope=scope)
    await store.set_memory("k", {"of": text}, scope=scope)
    await store.set_state(text[-100:], scope=scope)
    await store.update_working_memory({"of": text}, scope=scope)
    await store.add_event("kept", {"of": text}, scope=scope)
    return place.number


async def _check_kept(store: Store, scope: Scope) -> None:
    text = f"of {scope.tenant_id!r}"
    thread, memory = await store.get_thread(scope=scope), await store.get_memory("k", scope=scope)
    state, events = await store.get_state(scope=scope), await store.list_events(scope=scope)
    assert thread is not None
    assert memory is not None
    assert state is not None
    assert (thread.message_count, memory.value, state.mode) == (1, {"of": text}, text[-100:])
    assert [message.text for message in await store.user_history(scope=scope)] == [text]
    assert await store.get_working_memory(scope=scope) == {"of": text}
    assert [event.payload for event in events] == [{"of": text}]


async def test_every_tenant_has_data_of_its_own(store: Store) -> None:
    """The same user, thread and keys under texts that differ by a space, a case or an accent."""
    scopes = [Scope(tenant, "ann", "t") for tenant in EVERY_TENANT]
    numbers = [await _keep(store, scope) for scope in scopes]
    for place, scope in enumerate(scopes):
        await _check_kept(store, scope)
        other = numbers[place - 1]
        assert not await store.delete_message_number(other, tenant_id=scope.tenant_id)
        assert await store.messages_by_number([other], scope=scope) == []
        assert [user.user_id for user in await store.list_users(tenant_id=scope.tenant_id)] == ["ann"]
    for scope in scopes[::2]:
        assert (await store.erase(scope=scope)).total == 6
    for scope in scopes[1::2]:
        await _check_kept(store, scope)


async def test_int_and_its_digits_are_one_tenant(store: Store) -> None:
    """What 1 stores, "1" reads, changes and deletes, and the other way round."""
    number, text = Scope(1, "ann", "t"), Scope("1", "ann", "t")
    kept = await _keep(store, number)
    assert await readings.export(store, text) != await readings.export(store, number)
    assert (await readings.export(store, text))[1:] == (await readings.export(store, number))[1:]
    await store.append_turn(said("more"), scope=text)
    assert await store.count_user_history(scope=number) == 2
    (listed,) = await store.list_users(tenant_id="1")
    assert await store.list_users(tenant_id=1) == [listed]
    assert (listed.user_id, listed.messages) == ("ann", 2)
    assert await store.delete_message_number(kept, tenant_id="1")
    assert await store.count_user_history(scope=number) == 1
    await store.erase(scope=text)
    assert await store.get_thread(scope=number) is None


@pytest.mark.parametrize("tenant", EVERY_TENANT, ids=show_tenant)
async def test_tenant_comes_back_as_it_was_given(store: Store, tenant: TenantId) -> None:
    """In threads and in the first line of an export, whichever method made or changed them."""
    scope = Scope(tenant, "ann", "t")
    threads = [
        await store.create_thread(scope=scope),
        await store.update_thread(title="new", scope=scope),
        await store.get_thread(scope=scope),
        *await store.list_threads(scope=scope),
    ]
    head = json.loads((await readings.export(store, scope))[0])["tenant_id"]
    for found in (head, *(thread.tenant_id for thread in threads if thread is not None)):
        assert (type(found), found) == (type(tenant), tenant)


async def test_type_of_a_tenant_is_that_of_the_call(store: Store) -> None:
    """The store does not remember how the tenant was named before."""
    await store.create_thread(scope=Scope("1", "ann", "t"))
    for tenant in (1, "1"):
        thread = await store.get_thread(scope=Scope(tenant, "ann", "t"))
        assert thread is not None
        assert thread.tenant_id == tenant


async def test_member_of_an_enum_is_the_tenant_of_its_value(store: Store) -> None:
    """Its name and its `str()` do not count."""
    for member, tenant in ((Plan.FREE, 1), (Customer.ACME, "acme")):
        await store.append_turn(said("hello"), scope=Scope(member, "ann", "t"))
        assert await store.count_user_history(scope=Scope(tenant, "ann")) == 1


async def test_export_of_a_text_tenant_can_become_any_other(store: Store) -> None:
    """The tenant of an export is only a note about where it came from."""
    await _keep(store, Scope("'; --", "ann", "t"))
    lines = await readings.export(store, Scope("'; --", "ann", "t"))
    for tenant in (None, 7, "acme"):
        await store.import_(lines, scope=Scope(tenant, "ann"))
        assert (await readings.export(store, Scope(tenant, "ann")))[1:] == lines[1:]


@pytest.mark.parametrize("tenant", BAD_TENANTS, ids=show_tenant)
def test_scope_rejects_what_is_no_tenant(tenant: object) -> None:
    """Before any store is asked."""
    with pytest.raises(InvalidArgumentError) as raised:
        Scope(tenant, "ann")  # pyright: ignore[reportArgumentType] - wrong on purpose
    assert raised.value.argument == "tenant_id"
