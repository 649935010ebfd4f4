"""What a store promises about epochs: every deletion gives the user one that was never used before."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.storage.contract.samples import ANN, OTHERS, keep_every_kind, said

from recollect.storage.store import Store

pytestmark = pytest.mark.anyio

REMOVALS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "delete_messages": lambda store: store.delete_messages(["hello"], scope=ANN),
    "delete_thread": lambda store: store.delete_thread(scope=ANN),
    "clear_history": lambda store: store.clear_history(scope=ANN),
    "delete_memory": lambda store: store.delete_memory("likes", scope=ANN),
    "clear_memory": lambda store: store.clear_memory(scope=ANN),
    "delete_state": lambda store: store.delete_state(scope=ANN),
    "clear_working_memory": lambda store: store.clear_working_memory(scope=ANN.with_thread(None)),
    "erase": lambda store: store.erase(scope=ANN),
}


@pytest.mark.parametrize("removal", REMOVALS)
async def test_removal_raises_the_epoch(store: Store, removal: str) -> None:
    """Whatever removes something of a user gives the user a higher epoch."""
    await keep_every_kind(store)
    before = await store.epoch(scope=ANN)
    await REMOVALS[removal](store)
    assert await store.epoch(scope=ANN) > before


async def test_removal_by_number_raises_the_epoch(store: Store) -> None:
    """Deleting by integer id, which names no user, raises the epoch of the right one."""
    (place,) = await store.append_turn(said("a"), scope=ANN)
    for other in OTHERS:
        await store.append_turn(said("a"), scope=other)
    before = [await store.epoch(scope=scope) for scope in (ANN, *OTHERS)]
    await store.delete_message_number(place.number, tenant_id=ANN.tenant_id)
    after = [await store.epoch(scope=scope) for scope in (ANN, *OTHERS)]
    assert after[0] > before[0]
    assert after[1:] == before[1:]


async def test_adding_leaves_the_epoch(store: Store) -> None:
    """What is only new needs no new epoch: caches read it by its number."""
    await store.append_turn(said("a"), scope=ANN)
    before = await store.epoch(scope=ANN)
    await store.append_turn(said("b"), scope=ANN)
    await store.append_turn(said("c"), scope=ANN.with_thread("u"))
    await store.set_memory("k", {}, scope=ANN)
    await store.add_event("recalled", {}, scope=ANN)
    assert await store.epoch(scope=ANN) == before


async def test_epoch_is_never_taken_again(store: Store) -> None:
    """Through removals, erasures and new beginnings each epoch is higher than all before."""
    seen: list[int] = []
    for _ in range(3):
        await keep_every_kind(store)
        for removal in ("delete_messages", "delete_thread", "clear_history"):
            await REMOVALS[removal](store)
            seen.append(await store.epoch(scope=ANN))
        await keep_every_kind(store)
        report = await store.erase(scope=ANN)
        seen.append(report.epoch)
        assert await store.epoch(scope=ANN) >= report.epoch
    assert seen == sorted(set(seen))


async def test_epoch_stays_above_the_erasure_when_the_user_comes_back(store: Store) -> None:
    """Background work that began before an erasure notices it, even after the user came back."""
    await keep_every_kind(store)
    before = await store.epoch(scope=ANN)
    report = await store.erase(scope=ANN)
    assert report.epoch > before
    await store.append_turn(said("new"), scope=ANN)
    assert await store.epoch(scope=ANN) >= report.epoch


async def test_pinned_epoch_stays_until_something_is_removed(store: Store) -> None:
    """Without a pin, the epoch of a user without data moves with the writes of others."""
    pinned = await store.pin_epoch(scope=ANN)
    for other in OTHERS:
        await keep_every_kind(store, other)
    await keep_every_kind(store)
    assert await store.pin_epoch(scope=ANN) == await store.epoch(scope=ANN) == pinned
    await store.delete_state(scope=ANN)
    assert await store.pin_epoch(scope=ANN) > pinned


async def test_epoch_is_the_users_own(store: Store) -> None:
    """A removal does not move the epoch of another user or tenant."""
    for scope in (ANN, *OTHERS):
        await keep_every_kind(store, scope)
    before = [await store.epoch(scope=other) for other in OTHERS]
    await store.delete_thread(scope=ANN)
    await store.erase(scope=ANN)
    assert [await store.epoch(scope=other) for other in OTHERS] == before
