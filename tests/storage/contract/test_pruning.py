"""What a store promises when many messages are removed: in parts, with exact counts, and expiry goes on."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.storage.contract.samples import ANN, append_turns, call, ids_of, result, said, whole_thread
from tests.storage.tables import raw_numbers

from recollect.messages import Message
from recollect.scope import Scope
from recollect.storage import deletion, turns
from recollect.storage.store import Store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
LATER = datetime(2020, 1, 1, tzinfo=UTC)
MANY = 1100  # more than a thread that counts as short


def _written(time: datetime, *messages: Message) -> list[Message]:
    return [message.replace(created_at=time) for message in messages]


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 100])
async def test_the_same_is_pruned_when_it_is_done_in_parts(
    store: Store, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """Whatever the size of the parts, no unit is separated, and all threads are gone through."""
    monkeypatch.setattr(deletion, "_BATCH", batch)
    tools = [call("c", "1"), *said("x", "y"), result("r", "1")]
    young = [call("d", "2"), *_written(LATER, result("s", "2"))]
    for thread in ("t", "u"):
        names = [*said(f"{thread}1", f"{thread}2"), *tools, *said(f"{thread}3"), *young, *said(f"{thread}4")]
        old = [m if m.created_at == LATER else m.replace(created_at=LONG_AGO) for m in names]
        unique = [m.replace(id=f"{thread}-{m.id}") for m in old]
        await append_turns(store, [unique, _written(LATER, *said(f"{thread}5"))], ANN.with_thread(thread))
    assert await store.prune(LATER, dry_run=True, scope=ANN) == (16, 0)
    assert await store.prune(LATER, scope=ANN) == (16, 0)
    assert await store.prune(LATER, scope=ANN) == (0, 0)
    for thread in ("t", "u"):
        scope = ANN.with_thread(thread)
        assert ids_of(await whole_thread(store, scope)) == [f"{thread}-d", f"{thread}-s", f"{thread}5"]
        stored = await store.get_thread(scope=scope)
        assert stored is not None
        assert (stored.message_count, stored.last_message_at) == (3, LATER)


@pytest.mark.parametrize("batch", [1, 2, 100])
async def test_all_expired_messages_are_pruned_when_it_is_done_in_parts(
    store: Store, clock: ScriptedClock, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """The count is that of all parts, and what has not expired stays."""
    monkeypatch.setattr(deletion, "_BATCH", batch)
    await store.append_turn(said("a", "b", "c"), expires_at=clock.time + HOUR, scope=ANN)
    await store.append_turn(said("d", "e"), expires_at=clock.time + HOUR, scope=ANN.with_thread("u"))
    await store.append_turn(said("f"), scope=ANN)
    clock.time += HOUR
    assert await store.prune(LONG_AGO, scope=ANN) == (0, 5)
    assert len(await raw_numbers(store)) == 1
    assert ids_of(await whole_thread(store)) == ["f"]


async def test_appends_remove_what_has_expired_in_parts(
    store: Store, clock: ScriptedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No append waits for a million expired messages to go; ids among them are free at once."""
    monkeypatch.setattr(turns, "_MAX_REMOVED", 2)
    await store.append_turn(said("a", "b", "c", "d", "e"), expires_at=clock.time + HOUR, scope=ANN)
    clock.time += HOUR
    left: list[int] = []
    for name in ("1", "2", "3", "4"):
        await store.append_turn(said(name), scope=ANN)
        left.append(len(await raw_numbers(store)))
        thread = await store.get_thread(scope=ANN)
        assert thread is not None
        assert thread.message_count == len(await whole_thread(store)) == int(name)
    assert left == [4, 3, 3, 4]


async def test_id_is_free_when_its_message_has_expired_among_many(
    store: Store, clock: ScriptedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id is used again although other messages would have been removed first."""
    monkeypatch.setattr(turns, "_MAX_REMOVED", 1)
    for name in "abc":
        await store.append_turn(said(name), expires_at=clock.time + HOUR, scope=ANN)
    clock.time += HOUR
    await store.append_turn(said("c"), scope=ANN)
    assert ids_of(await whole_thread(store)) == ["c"]


async def test_next_expiry_is_known_when_a_long_thread_has_lost_messages(
    store: Store, clock: ScriptedClock
) -> None:
    """Each message of a long thread goes at its own time, whichever others were deleted before."""
    start = clock.time
    other = Scope(1, "ann", "other")
    await store.append_turn(said("early"), expires_at=start + HOUR, scope=other)
    await store.append_turn(said(*(f"m{number}" for number in range(MANY))), scope=ANN)
    for hours in (4, 2, 3):
        await store.append_turn(said(f"{hours}"), expires_at=start + hours * HOUR, scope=ANN)
    await store.delete_messages(["2"], scope=ANN)
    for hours, left in ((2, MANY + 2), (3, MANY + 1), (4, MANY)):
        clock.time = start + hours * HOUR
        thread = await store.get_thread(scope=ANN)
        assert thread is not None
        assert thread.message_count == left
    await store.append_turn(said("last"), scope=ANN)
    assert len(await raw_numbers(store)) == MANY + 1
