"""What a store promises about messages that expire: gone from every read at once, from the tables soon."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.storage.contract.samples import (
    ANN,
    BOB,
    OTHERS,
    exported,
    ids_of,
    index_all,
    said,
    terms_of,
    whole_thread,
)
from tests.storage.tables import raw_numbers, raw_rows, raw_search_rows

from recollect.errors import ConflictError, InvalidArgumentError, MemoryNotFoundError
from recollect.messages import Message
from recollect.storage.records import Placement
from recollect.storage.store import Store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)
GONE = "run:gone"
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


async def _texts(messages: Awaitable[list[Message]]) -> list[str]:
    return [message.text for message in await messages]


async def _search(store: Store) -> list[str | None]:
    return [row.text for row in (await store.search_rows(scope=ANN)).rows]


async def _unindexed(store: Store) -> list[str]:
    return [message.text for message in (await store.unindexed_messages("m", scope=ANN)).messages]


async def _export(store: Store) -> list[str]:
    return ["gone" for line in await exported(store) if "gone" in line]


async def _by_number(store: Store) -> list[str]:
    return await _texts(store.messages_by_number(await raw_numbers(store), scope=ANN))


READS: dict[str, Callable[[Store], Awaitable[list[str] | list[str | None]]]] = {
    "last_messages": lambda store: _texts(store.last_messages(None, scope=ANN)),
    "last_messages: a few": lambda store: _texts(store.last_messages(2, scope=ANN)),
    "messages_before": lambda store: _texts(store.messages_before("end", None, scope=ANN)),
    "messages_after": lambda store: _texts(store.messages_after("start", None, scope=ANN)),
    "page_of_messages": lambda store: _texts(store.page_of_messages(limit=9, scope=ANN)),
    "page_of_messages: the second": lambda store: _texts(
        store.page_of_messages(limit=1, offset=1, scope=ANN)
    ),
    "messages_by_id": lambda store: _texts(store.messages_by_id([GONE], scope=ANN)),
    "messages_by_id: of all threads": lambda store: _texts(
        store.messages_by_id([GONE], scope=ANN.with_thread(None))
    ),
    "messages_by_id: around others": lambda store: _texts(
        store.messages_by_id(["start", "end"], with_previous=9, with_next=9, scope=ANN)
    ),
    "messages_by_number": _by_number,
    "user_history": lambda store: _texts(store.user_history(scope=ANN)),
    "turn_of_run": lambda store: _texts(store.turn_of_run("run", scope=ANN)),
    "search_rows": _search,
    "unindexed_messages": _unindexed,
    "export": _export,
}


async def _fill(store: Store, due: datetime) -> Placement:
    """Store a message that expires between two that do not; return its place."""
    await store.append_turn(said("start"), scope=ANN)
    turn = [Message("assistant", "gone", id=GONE)]
    (place,) = await store.append_turn(turn, run_id="run", expires_at=due, scope=ANN)
    await store.append_turn(said("end"), scope=ANN)
    return place


@pytest.mark.parametrize("read", READS)
async def test_message_is_gone_from_every_read_at_the_microsecond(
    store: Store, clock: ScriptedClock, read: str
) -> None:
    """One microsecond before it expires it is read as ever, and from then on never."""
    due = clock.time + HOUR
    await _fill(store, due)
    clock.time = due - MICROSECOND
    before = await READS[read](store)
    assert "gone" in before
    clock.time = due
    after = await READS[read](store)
    assert "gone" not in after
    assert {*before} - {"gone"} <= {*after}


async def test_message_tells_when_it_expires(store: Store, clock: ScriptedClock) -> None:
    """The time is the same moment to the microsecond, told in UTC; other messages have none."""
    due = (clock.time + HOUR + MICROSECOND).astimezone(timezone(timedelta(hours=-9, minutes=-30)))
    await _fill(store, due)
    stored = await whole_thread(store)
    assert [message.expires_at for message in stored] == [None, due, None]
    rows = (await store.search_rows(scope=ANN)).rows
    assert [row.expires_at is None for row in rows] == [True, False, True]


async def test_expired_message_counts_nowhere(store: Store, clock: ScriptedClock) -> None:
    """History, threads and what waits for search count without it; its thread's last time is another's."""
    due = clock.time + HOUR
    await store.append_turn([Message("user", "stays", id="stays", created_at=clock.time)], scope=ANN)
    late = Message("user", "gone", id="gone", created_at=due)
    await store.append_turn([late], expires_at=due, scope=ANN)
    for time, count, last in ((due - MICROSECOND, 2, due), (due, 1, clock.time)):
        clock.time = time
        thread = await store.get_thread(scope=ANN)
        assert thread is not None
        assert (thread.message_count, thread.last_message_at) == (count, last)
        assert await store.list_threads(scope=ANN) == [thread]
        assert await store.count_user_history(scope=ANN) == count
        assert await store.count_unindexed("m", scope=ANN) == count


async def test_threads_are_sorted_without_expired_messages(store: Store, clock: ScriptedClock) -> None:
    """A thread moves back in the list when its last message expires, an emptied one to its creation."""
    start, due = clock.time, clock.time + HOUR
    for name in ("kept", "emptied", "shortened"):
        clock.tick()
        await store.create_thread(scope=ANN.with_thread(name))
    late = start + timedelta(minutes=30)
    turns = {
        "kept": ([Message("user", "a", created_at=start + timedelta(minutes=20))], None),
        "emptied": ([Message("user", "b", created_at=late)], due),
        "shortened": ([Message("user", "c", created_at=start + timedelta(minutes=10))], None),
    }
    for name, (turn, expires_at) in turns.items():
        await store.append_turn(turn, expires_at=expires_at, scope=ANN.with_thread(name))
    last = Message("user", "d", created_at=late + HOUR)
    await store.append_turn([last], expires_at=due, scope=ANN.with_thread("shortened"))
    orders: list[list[str]] = []
    for clock.time in (due - MICROSECOND, due):
        orders.append([thread.id for thread in await store.list_threads(scope=ANN)])
        assert [thread.id for thread in await store.list_threads(limit=1, offset=1, scope=ANN)] == [
            orders[-1][1]
        ]
    assert orders == [["shortened", "emptied", "kept"], ["kept", "shortened", "emptied"]]


async def test_expired_message_is_no_place_to_read_from(store: Store, clock: ScriptedClock) -> None:
    """Reading before or after it fails like with any unknown message."""
    await _fill(store, clock.time + HOUR)
    clock.time += HOUR
    for read in (store.messages_before, store.messages_after):
        with pytest.raises(MemoryNotFoundError):
            await read(GONE, 1, scope=ANN)


async def test_expired_message_is_not_there_to_be_deleted(store: Store, clock: ScriptedClock) -> None:
    """Deleting it by id or by number finds nothing, and does not raise the epoch."""
    place = await _fill(store, clock.time + HOUR)
    clock.time += HOUR
    epoch = await store.epoch(scope=ANN)
    assert await store.delete_messages([GONE], scope=ANN) == 0
    assert await store.delete_message_number(place.number, tenant_id=ANN.tenant_id) is False
    assert await store.epoch(scope=ANN) == epoch


async def test_vectors_expire_with_their_message(store: Store, clock: ScriptedClock) -> None:
    """Neither the vectors from a number on nor those of given messages are of an expired one."""
    place = await _fill(store, clock.time + HOUR)
    await index_all(store, model_id="m")
    assert len((await store.search_rows(vectors_from=0, scope=ANN)).vectors) == 3
    clock.time += HOUR
    found = await store.search_rows(vectors_from=0, scope=ANN)
    assert [row.number == place.number for row in found.vectors] == [False, False]
    found = await store.search_rows(vectors_from=None, vectors_of=[place.number], scope=ANN)
    assert found.vectors == []


async def test_nothing_is_stored_for_search_when_the_message_has_expired(
    store: Store, clock: ScriptedClock
) -> None:
    """An embedder that was still at work when its message expired stores nothing of it."""
    place = await _fill(store, clock.time + HOUR)
    await index_all(store, model_id="m")
    clock.time += HOUR
    before = await raw_search_rows(store)
    epoch = await store.pin_erase_epoch(scope=ANN)
    items = [terms_of(place.number, "gone", bytes(6))]
    assert await store.put_search_rows(items, model_id="m", erase_epoch=epoch, scope=ANN) == 0
    assert await raw_search_rows(store) == before


async def _import_again(store: Store) -> None:
    await store.import_(await exported(store), merge=True, scope=ANN)


REMOVALS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "append to the thread": lambda store: store.append_turn(said("later"), scope=ANN),
    "the same message again": lambda store: store.append_turn(
        [Message("user", "new", id=GONE)], scope=ANN.with_thread("u")
    ),
    "a known message again": lambda store: store.append_turn(said("end"), scope=ANN),
    "prune": lambda store: store.prune(LONG_AGO, scope=ANN),
    "import": _import_again,
}


@pytest.mark.parametrize("removal", REMOVALS)
async def test_expired_message_is_removed_from_the_tables(
    store: Store, clock: ScriptedClock, removal: str
) -> None:
    """A later write deletes it with its search rows, and counts what its thread still has."""
    due = clock.time + HOUR
    place = await _fill(store, due)
    (other,) = await store.append_turn(said("gone too"), expires_at=due, scope=ANN.with_thread("other"))
    (theirs,) = await store.append_turn(said("gone"), expires_at=due, scope=BOB)
    for scope in (ANN, BOB):
        await index_all(store, scope, model_id="m")
    clock.time = due
    await REMOVALS[removal](store)
    numbers = await raw_numbers(store)
    assert place.number not in numbers
    assert other.number not in numbers
    assert theirs.number in numbers  # a write cleans up after its own user
    left = {row.number for row in await raw_search_rows(store)}
    assert left <= set(numbers)
    assert place.number not in left
    sizes = await raw_rows(
        store,
        "SELECT thread_id, message_count, bytes, expires_at FROM {}threads WHERE user_id = 'ann' ORDER BY 1",
    )
    stored = {thread.id: thread for thread in await store.list_threads(scope=ANN)}
    for thread_id, count, size, expires_at in sizes:
        messages = await whole_thread(store, ANN.with_thread(thread_id))
        assert count == len(messages) == stored[thread_id].message_count
        assert size == sum(len(message.text.encode()) for message in messages)
        assert expires_at is None


async def test_dry_run_of_prune_leaves_expired_messages_in_the_tables(
    store: Store, clock: ScriptedClock
) -> None:
    """It only counts them."""
    await _fill(store, clock.time + HOUR)
    clock.time += HOUR
    before = await raw_numbers(store)
    assert await store.prune(LONG_AGO, dry_run=True, scope=ANN) == (0, 1)
    assert await raw_numbers(store) == before
    assert await store.prune(LONG_AGO, scope=ANN) == (0, 1)
    assert len(await raw_numbers(store)) == 2


async def test_id_and_run_are_free_when_their_message_has_expired(store: Store, clock: ScriptedClock) -> None:
    """The id may be used in any thread, and the run stored with another turn."""
    place = await _fill(store, clock.time + HOUR)
    with pytest.raises(ConflictError):
        await store.append_turn([Message("user", "new", id=GONE)], scope=ANN.with_thread("u"))
    clock.time += HOUR
    turn = [Message("user", "new", id=GONE)]
    (new,) = await store.append_turn(turn, run_id="run", scope=ANN.with_thread("u"))
    assert (new.position, new.is_new) == (1, True)
    assert new.number > place.number
    assert [message.text for message in await store.turn_of_run("run", scope=ANN)] == ["new"]
    assert ids_of(await whole_thread(store)) == ["start", "end"]


async def test_numbers_and_positions_are_not_used_again_when_their_message_has_expired(
    store: Store, clock: ScriptedClock
) -> None:
    """Also where the expired message was the last of all."""
    for _ in range(3):
        (gone,) = await store.append_turn(said("gone"), expires_at=clock.time + HOUR, scope=ANN)
        clock.time += HOUR
        (again,) = await store.append_turn(said("gone"), expires_at=clock.time + HOUR, scope=ANN)
        clock.time += HOUR
        assert await whole_thread(store) == []
        assert again.number > gone.number
        assert again.position > gone.position


async def test_first_expiry_stays_when_a_message_is_sent_again(store: Store, clock: ScriptedClock) -> None:
    """The stored version of a message keeps its own time, or none."""
    due = clock.time + HOUR
    await store.append_turn(said("a"), expires_at=due, scope=ANN)
    await store.append_turn(said("b"), scope=ANN)
    await store.append_turn(said("a", "b", "c"), expires_at=due + HOUR, scope=ANN)
    assert [message.expires_at for message in await whole_thread(store)] == [due, None, due + HOUR]


async def test_earliest_expiry_of_a_thread_counts(store: Store, clock: ScriptedClock) -> None:
    """Messages of one thread expire one after the other, in any order."""
    start = clock.time
    for name, hours in (("c", 3), ("a", 1), ("b", 2)):
        await store.append_turn(said(name), expires_at=start + hours * HOUR, scope=ANN)
    for hours, left in ((1, "cb"), (2, "c"), (3, "")):
        clock.time = start + hours * HOUR
        thread = await store.get_thread(scope=ANN)
        assert thread is not None
        assert thread.message_count == len(left)
        assert "".join(ids_of(await whole_thread(store))) == left
        if hours == 1:
            await store.append_turn(said("d"), scope=ANN.with_thread("u"))
            await store.update_thread(title="x", scope=ANN)


@pytest.mark.parametrize("seconds", [0, -1])
async def test_expiry_is_rejected_when_it_is_not_in_the_future(
    store: Store, clock: ScriptedClock, seconds: int
) -> None:
    """A message that nobody could ever read is a mistake."""
    with pytest.raises(InvalidArgumentError, match="future") as raised:
        await store.append_turn(said("a"), expires_at=clock.time + timedelta(seconds=seconds), scope=ANN)
    assert raised.value.argument == "expires_at"
    with pytest.raises(InvalidArgumentError, match="expires_at"):
        await store.append_turn(said("a"), expires_at=(clock.time + HOUR).replace(tzinfo=None), scope=ANN)
    assert await raw_numbers(store) == []


async def test_expired_messages_are_erased_and_cleared(store: Store, clock: ScriptedClock) -> None:
    """Erasing counts the rows that it removes, expired ones too; clearing history counts what was read."""
    for scope in (ANN, OTHERS[0]):
        await store.append_turn(said("stays"), scope=scope)
        await store.append_turn(said("gone"), expires_at=clock.time + HOUR, scope=scope)
    clock.time += HOUR
    assert await store.clear_history(scope=ANN) == 1
    assert (await store.erase(scope=OTHERS[0])).counts["messages"] == 2
    assert await raw_numbers(store) == []
