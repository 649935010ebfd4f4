"""What a store promises about threads: their fields, their order, and that they go whole."""

from datetime import UTC, datetime

import pytest
from tests.storage.contract.samples import (
    ANN,
    ELSEWHERE,
    OTHERS,
    call,
    exported,
    ids_of,
    result,
    said,
    whole_thread,
)

from recollect.errors import MemoryNotFoundError
from recollect.messages import Message
from recollect.storage.records import DEFAULT_TITLE, Thread
from recollect.storage.store import Store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

LONG_AGO = datetime(1999, 12, 31, tzinfo=UTC)


async def test_new_thread_has_all_fields(store: Store, clock: ScriptedClock) -> None:
    """A thread that was just created is empty and carries what it was given."""
    created = await store.create_thread(title="Trip", metadata={"to": ["日本"]}, scope=ELSEWHERE[2])
    assert created == Thread(
        id="t",
        tenant_id=1,
        user_id="ann",
        app_id="other",
        project_id="other",
        title="Trip",
        metadata={"to": ["日本"]},
        created_at=clock.time,
        updated_at=clock.time,
        last_message_at=None,
        message_count=0,
    )
    assert await store.get_thread(scope=ELSEWHERE[2]) == created


async def test_title_is_the_default_when_none_was_given(store: Store) -> None:
    """A thread without a title gets one, however it came to be; an empty title is a title."""
    await store.create_thread(scope=ANN)
    await store.append_turn(said("a"), scope=ANN.with_thread("by turn"))
    await store.create_thread(title="", scope=ANN.with_thread("empty"))
    titles = {thread.id: thread.title for thread in await store.list_threads(scope=ANN)}
    assert titles == {"t": DEFAULT_TITLE, "by turn": DEFAULT_TITLE, "empty": ""}


async def test_first_turn_creates_the_thread(store: Store, clock: ScriptedClock) -> None:
    """A turn for a thread that is not there makes one with the time of the turn."""
    await store.append_turn([Message("user", "a", created_at=LONG_AGO)], scope=ANN)
    thread = await _thread(store)
    assert (thread.created_at, thread.updated_at) == (clock.time, clock.time)
    assert (thread.last_message_at, thread.message_count) == (LONG_AGO, 1)
    assert thread.metadata == {}


async def test_creating_again_returns_the_thread_unchanged(store: Store, clock: ScriptedClock) -> None:
    """What is there stays as it is, messages and times included."""
    await store.append_turn(said("a"), scope=ANN)
    first = await store.update_thread(title="Mine", metadata={"n": 1}, scope=ANN)
    clock.tick()
    assert await store.create_thread(title="Yours", metadata={"n": 2}, scope=ANN) == first


async def test_missing_thread_is_none(store: Store) -> None:
    """A thread that is not there is None, and asking does not make it."""
    assert await store.get_thread(scope=ANN) is None
    assert await store.list_threads(scope=ANN) == []


async def test_appending_moves_the_times_and_the_count(store: Store, clock: ScriptedClock) -> None:
    """`updated_at` is the store's time, `last_message_at` that of the last message as given."""
    created = clock.time
    await store.append_turn(said("a"), scope=ANN)
    later = clock.tick()
    turn = [*said("b"), Message("tool", "", id="c"), Message("system", "d", created_at=LONG_AGO)]
    await store.append_turn(turn, scope=ANN)
    thread = await _thread(store)
    assert (thread.created_at, thread.updated_at) == (created, later)
    assert (thread.last_message_at, thread.message_count) == (LONG_AGO, 4)


async def test_deleting_messages_moves_the_times_and_the_count(store: Store, clock: ScriptedClock) -> None:
    """After a deletion the thread describes what is left, down to nothing."""
    times = [datetime(2020, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    turn = [Message("user", "x", id=f"m{n}", created_at=time) for n, time in enumerate(times)]
    await store.append_turn(turn, scope=ANN)
    for last in (1, 0, None):
        time = clock.tick()
        await store.delete_messages([f"m{0 if last is None else last + 1}"], scope=ANN)
        thread = await _thread(store)
        assert thread.updated_at == time
        assert thread.last_message_at == (None if last is None else times[last])
        assert thread.message_count == (0 if last is None else last + 1)


async def test_deleting_by_number_moves_the_times_and_the_count(store: Store, clock: ScriptedClock) -> None:
    """The integer id takes its whole unit out of the count."""
    places = await store.append_turn([*said("a"), call("c", "x"), result("r", "x")], scope=ANN)
    time = clock.tick()
    assert await store.delete_message_number(places[2].number, tenant_id=1)
    thread = await _thread(store)
    assert (thread.updated_at, thread.message_count) == (time, 1)


async def test_deletion_of_nothing_leaves_the_thread_alone(store: Store, clock: ScriptedClock) -> None:
    """Unknown ids move no time."""
    await store.append_turn(said("a"), scope=ANN)
    before = await _thread(store)
    clock.tick()
    await store.delete_messages(["unknown"], scope=ANN)
    assert await _thread(store) == before


async def test_update_changes_what_is_given_and_keeps_the_rest(store: Store, clock: ScriptedClock) -> None:
    """Title and metadata change apart from each other; metadata is replaced, not merged."""
    await store.create_thread(title="A", metadata={"x": 1, "y": 2}, scope=ANN)
    created = clock.time
    later = clock.tick()
    titled = await store.update_thread(title="B", scope=ANN)
    assert (titled.title, titled.metadata) == ("B", {"x": 1, "y": 2})
    emptied = await store.update_thread(metadata={}, scope=ANN)
    assert (emptied.title, emptied.metadata) == ("B", {})
    filled = await store.update_thread(title="", metadata={"z": None}, scope=ANN)
    assert (filled.title, filled.metadata) == ("", {"z": None})
    assert (filled.created_at, filled.updated_at) == (created, later)
    assert await _thread(store) == filled


async def test_update_keeps_count_and_messages(store: Store) -> None:
    """Renaming a thread does not touch what was said in it."""
    await store.append_turn(said("a", "b"), scope=ANN)
    thread = await store.update_thread(title="New", scope=ANN)
    assert thread.message_count == 2
    assert ids_of(await whole_thread(store)) == ["a", "b"]


async def test_update_fails_when_the_thread_is_not_there(store: Store) -> None:
    """A thread of the same id elsewhere is not the one that was meant."""
    for other in (ANN.with_thread("u"), *OTHERS, *ELSEWHERE):
        await store.append_turn(said("a"), scope=ANN)
        before = await exported(store)
        with pytest.raises(MemoryNotFoundError, match=repr(other.thread_id)):
            await store.update_thread(title="X", scope=other)
        assert await exported(store) == before
        assert await store.get_thread(scope=other) is None


async def test_threads_are_listed_by_their_latest_message(store: Store, clock: ScriptedClock) -> None:
    """The thread with the newest message is first; one without counts by its creation."""
    for name in ("old", "new", "silent"):
        clock.tick()
        await store.create_thread(scope=ANN.with_thread(name))
    await _talk_at(store, "old", 2)
    await _talk_at(store, "new", 3)
    assert await _listed(store) == ["silent", "new", "old"]
    await _talk_at(store, "old", 4)
    assert await _listed(store) == ["silent", "old", "new"]


async def test_threads_of_one_time_are_listed_by_name(store: Store) -> None:
    """Where the time does not decide, the bytes of the id do."""
    names = ["b", "a", "B", "ä", "Z", "10", "9"]
    for name in names:
        await store.create_thread(scope=ANN.with_thread(name))
    assert await _listed(store) == ["10", "9", "B", "Z", "a", "b", "ä"]


async def test_list_pages_make_up_the_whole(store: Store) -> None:
    """Limit and offset cut the list exactly, for every limit."""
    names = [f"t{n}" for n in range(5)]
    for name in names:
        await store.create_thread(scope=ANN.with_thread(name))
    for limit in range(7):
        for offset in range(7):
            found = await store.list_threads(limit=limit, offset=offset, scope=ANN)
            assert [thread.id for thread in found] == names[offset : offset + limit]
    assert [thread.id for thread in await store.list_threads(offset=2, scope=ANN)] == names[2:]


async def test_thread_of_the_same_id_elsewhere_is_another(store: Store) -> None:
    """Users, tenants, apps and projects have threads of their own."""
    for other in (*OTHERS, *ELSEWHERE):
        await store.create_thread(title="mine", scope=ANN)
        assert await store.get_thread(scope=other) is None
        assert await store.list_threads(scope=other) == []
        await store.create_thread(title="theirs", scope=other)
        assert [thread.title for thread in await store.list_threads(scope=ANN)] == ["mine"]
        assert [thread.title for thread in await store.list_threads(scope=other)] == ["theirs"]


async def test_deleting_removes_the_thread_with_its_messages(store: Store) -> None:
    """All messages of the thread go, those of another stay."""
    await store.append_turn([*said("a", "b"), Message("system", "c", id="c")], scope=ANN)
    await store.append_turn(said("d"), scope=ANN.with_thread("u"))
    assert await store.delete_thread(scope=ANN) is True
    assert await store.get_thread(scope=ANN) is None
    assert await whole_thread(store) == []
    assert ids_of(await store.user_history(scope=ANN)) == ["d"]
    assert await store.delete_thread(scope=ANN) is False


async def test_deleted_thread_can_start_again(store: Store) -> None:
    """The ids of a deleted thread and of its messages are free again."""
    await store.append_turn(said("a"), scope=ANN)
    await store.delete_thread(scope=ANN)
    await store.append_turn(said("a"), scope=ANN.with_thread("u"))
    await store.append_turn(said("b"), scope=ANN)
    assert ids_of(await whole_thread(store)) == ["b"]
    assert (await _thread(store)).message_count == 1


async def test_deleting_does_not_reach_a_thread_elsewhere(store: Store) -> None:
    """A thread of the same id elsewhere stays with all its messages."""
    for other in (ANN.with_thread("u"), *OTHERS, *ELSEWHERE):
        await store.append_turn(said("a"), scope=ANN)
        before = await exported(store)
        assert await store.delete_thread(scope=other) is False
        await store.create_thread(scope=other)
        assert await store.delete_thread(scope=other) is True
        assert await exported(store) == before


async def _thread(store: Store) -> Thread:
    thread = await store.get_thread(scope=ANN)
    assert thread is not None
    return thread


async def _listed(store: Store) -> list[str]:
    return [thread.id for thread in await store.list_threads(scope=ANN)]


async def _talk_at(store: Store, thread_id: str, day: int) -> None:
    message = Message("user", "x", created_at=datetime(2029, 1, day, tzinfo=UTC))
    await store.append_turn([message], scope=ANN.with_thread(thread_id))
