"""What a store promises about reading messages: the right ones, in order, each once."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.storage.contract.samples import (
    ANN,
    ELSEWHERE,
    OTHERS,
    append_turns,
    call,
    exported,
    ids_of,
    result,
    said,
    whole_thread,
)

from recollect.errors import MemoryNotFoundError
from recollect.messages import FilePart, Message, ReasoningPart, TextPart
from recollect.storage.store import Store

pytestmark = pytest.mark.anyio

NAMES = [f"m{n}" for n in range(7)]
"""The ids of the messages in `ANN`'s thread."""


async def test_last_messages_are_the_newest_oldest_first(store: Store) -> None:
    """The last N of a thread come in order, for every N; None is all."""
    await store.append_turn(said(*NAMES), scope=ANN)
    for limit in range(len(NAMES) + 2):
        expected = NAMES[-limit:] if limit else []
        assert ids_of(await store.last_messages(limit, scope=ANN)) == expected
    assert ids_of(await store.last_messages(None, scope=ANN)) == NAMES


async def test_order_is_that_of_writing_and_never_of_a_clock(store: Store) -> None:
    """Messages whose times run backwards are read in the order in which they were stored."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    for hours, name in enumerate(NAMES):
        message = Message("user", name, id=name, created_at=start - timedelta(hours=hours))
        await store.append_turn([message], scope=ANN)
    assert ids_of(await whole_thread(store)) == NAMES
    assert ids_of(await store.page_of_messages(limit=3, scope=ANN)) == NAMES[:3]
    assert ids_of(await store.user_history(scope=ANN)) == NAMES[::-1]


async def test_messages_before_end_right_before_the_message(store: Store) -> None:
    """Going back from any message meets it without gap, for every limit."""
    await store.append_turn(said(*NAMES), scope=ANN)
    for place, name in enumerate(NAMES):
        earlier = NAMES[:place]
        for limit in range(len(NAMES) + 1):
            expected = earlier[-limit:] if limit else []
            assert ids_of(await store.messages_before(name, limit, scope=ANN)) == expected
        assert ids_of(await store.messages_before(name, None, scope=ANN)) == earlier


async def test_messages_after_begin_right_after_the_message(store: Store) -> None:
    """Going on from any message meets it without gap, for every limit."""
    await store.append_turn(said(*NAMES), scope=ANN)
    for place, name in enumerate(NAMES):
        later = NAMES[place + 1 :]
        for limit in range(len(NAMES) + 1):
            assert ids_of(await store.messages_after(name, limit, scope=ANN)) == later[:limit]
        assert ids_of(await store.messages_after(name, None, scope=ANN)) == later


@pytest.mark.parametrize("name", ["unknown", "elsewhere"])
async def test_reading_around_fails_when_the_thread_lacks_the_message(store: Store, name: str) -> None:
    """A message that is nowhere, or in another thread, cannot be read from."""
    await store.append_turn(said("a"), scope=ANN)
    await store.append_turn(said("elsewhere"), scope=ANN.with_thread("u"))
    for read in (store.messages_before, store.messages_after):
        with pytest.raises(MemoryNotFoundError, match=name):
            await read(name, 1, scope=ANN)


async def test_pages_make_up_the_whole_thread(store: Store) -> None:
    """Pages of one limit meet without gap or overlap, for every limit."""
    await store.append_turn(said(*NAMES), scope=ANN)
    for limit in range(1, len(NAMES) + 2):
        pages = [
            await store.page_of_messages(limit=limit, offset=offset, scope=ANN)
            for offset in range(0, len(NAMES), limit)
        ]
        assert [ids_of(page) for page in pages] == [
            NAMES[offset : offset + limit] for offset in range(0, len(NAMES), limit)
        ]


async def test_page_is_empty_when_it_is_after_the_end(store: Store) -> None:
    """An offset after the last message finds nothing."""
    await store.append_turn(said(*NAMES), scope=ANN)
    for offset in (len(NAMES), 1000, 2**63 - 1):
        assert await store.page_of_messages(limit=2**63 - 1, offset=offset, scope=ANN) == []


async def test_reading_skips_what_was_deleted(store: Store) -> None:
    """A gap in the positions leaves no gap in what is read."""
    await store.append_turn(said(*NAMES), scope=ANN)
    await store.delete_messages(["m3", "m5"], scope=ANN)
    left = ["m0", "m1", "m2", "m4", "m6"]
    assert ids_of(await store.last_messages(3, scope=ANN)) == left[-3:]
    assert ids_of(await store.messages_before("m6", 2, scope=ANN)) == ["m2", "m4"]
    assert ids_of(await store.messages_after("m2", 1, scope=ANN)) == ["m4"]
    assert ids_of(await store.page_of_messages(limit=2, offset=2, scope=ANN)) == ["m2", "m4"]
    around = await store.messages_by_id(["m4"], with_previous=1, with_next=1, scope=ANN)
    assert ids_of(around) == ["m2", "m4", "m6"]


async def test_messages_by_id_come_in_stored_order(store: Store) -> None:
    """The order of the ids asked for does not matter; unknown and repeated ones neither."""
    await store.append_turn(said(*NAMES), scope=ANN)
    found = await store.messages_by_id(["m5", "no", "m1", "m5"], scope=ANN)
    assert ids_of(found) == ["m1", "m5"]
    assert await store.messages_by_id([], scope=ANN) == []


async def test_context_comes_along_with_each_message_once(store: Store) -> None:
    """Windows around messages are cut at the ends of the thread and may overlap."""
    await store.append_turn(said(*NAMES), scope=ANN)
    for place, name in enumerate(NAMES):
        for previous in range(4):
            for following in range(4):
                found = await store.messages_by_id(
                    [name], with_previous=previous, with_next=following, scope=ANN
                )
                assert ids_of(found) == NAMES[max(0, place - previous) : place + following + 1]
    found = await store.messages_by_id(["m4", "m1", "m2"], with_previous=1, with_next=1, scope=ANN)
    assert ids_of(found) == ["m0", "m1", "m2", "m3", "m4", "m5"]


async def test_messages_by_id_span_all_threads_when_none_is_named(store: Store) -> None:
    """Without a thread ids are found in all of the app, each with its own thread's context."""
    other = ANN.with_thread("u")
    await append_turns(store, [said("a1", "a2")])
    await append_turns(store, [said("b1", "b2", "b3")], other)
    await append_turns(store, [said("a3")])
    everywhere = ANN.with_thread(None)
    found = await store.messages_by_id(["b2", "a2"], with_previous=1, with_next=1, scope=everywhere)
    assert ids_of(found) == ["a1", "a2", "b1", "b2", "b3", "a3"]
    assert ids_of(await store.messages_by_id(["b2", "a2"], scope=other)) == ["b2"]


async def test_nothing_is_found_or_made_in_a_thread_that_is_not_there(store: Store) -> None:
    """Reading an unknown thread of an unknown user is no error and leaves no trace."""
    assert await store.last_messages(5, scope=ANN) == []
    assert await store.page_of_messages(limit=5, scope=ANN) == []
    assert await store.messages_by_id(["a"], scope=ANN) == []
    assert await store.user_history(scope=ANN) == []
    assert await store.count_user_history(scope=ANN) == 0
    assert len(await exported(store)) == 2


async def test_long_readings_are_whole(store: Store) -> None:
    """Readings of more messages than an engine may answer at once are complete."""
    names = [f"m{n}" for n in range(1200)]
    await store.append_turn(said(*names), scope=ANN)
    assert ids_of(await store.last_messages(None, scope=ANN)) == names
    assert ids_of(await store.last_messages(900, scope=ANN)) == names[-900:]
    assert ids_of(await store.page_of_messages(limit=700, offset=100, scope=ANN)) == names[100:800]
    assert ids_of(await store.messages_after("m99", None, scope=ANN)) == names[100:]
    around = await store.messages_by_id(["m600"], with_previous=550, with_next=550, scope=ANN)
    assert ids_of(around) == names[50:1151]
    assert ids_of(await store.user_history(scope=ANN)) == names[::-1]


async def test_user_history_spans_threads_apps_and_projects(store: Store) -> None:
    """What a user and the assistant said anywhere comes newest first."""
    for number, scope in enumerate((ANN, ANN.with_thread("u"), *ELSEWHERE, ANN)):
        await store.append_turn(said(f"{number}a", f"{number}b"), scope=scope)
    names = [f"{number}{letter}" for number in range(6) for letter in "ab"][::-1]
    assert ids_of(await store.user_history(scope=ANN)) == names
    assert ids_of(await store.user_history(scope=ELSEWHERE[0].with_thread(None))) == names
    assert await store.count_user_history(scope=ANN) == len(names)


async def test_user_history_pages_make_up_the_whole(store: Store) -> None:
    """Limit and offset cut the history exactly, for every limit."""
    await store.append_turn(said(*NAMES), scope=ANN)
    newest_first = NAMES[::-1]
    for limit in range(len(NAMES) + 2):
        for offset in range(len(NAMES) + 2):
            found = await store.user_history(limit=limit, offset=offset, scope=ANN)
            assert ids_of(found) == newest_first[offset : offset + limit]
    assert ids_of(await store.user_history(offset=2, scope=ANN)) == newest_first[2:]


async def test_user_history_shows_only_what_user_and_assistant_said(store: Store) -> None:
    """Tool messages, system messages and messages without text are not part of the history."""
    turn = [
        Message("user", "question", id="question"),
        Message("system", "rule", id="system"),
        call("call", "c"),
        result("result", "c"),
        Message("tool", "output", id="tool text"),
        Message("assistant", "", id="empty"),
        Message("assistant", [ReasoningPart("hm")], id="thought"),
        Message("user", [FilePart("image/png", data="aGk=")], id="picture"),
        Message("assistant", [ReasoningPart("hm"), TextPart("answer")], id="answer"),
        Message("user", "?!", id="no words"),
    ]
    await store.append_turn(turn, scope=ANN)
    assert ids_of(await store.user_history(scope=ANN)) == ["no words", "answer", "question"]
    assert await store.count_user_history(scope=ANN) == 3
    assert len(await whole_thread(store)) == len(turn)


async def test_user_history_is_the_users_own(store: Store) -> None:
    """Another user's history, or that of the same id in another tenant, does not show."""
    for other in OTHERS:
        await store.append_turn(said("mine"), scope=ANN)
        await store.append_turn(said("theirs", "again"), scope=other)
        assert ids_of(await store.user_history(scope=ANN)) == ["mine"]
        assert await store.count_user_history(scope=other) == 2


async def test_deleting_returns_how_many_are_gone(store: Store) -> None:
    """Unknown and repeated ids are passed over."""
    await store.append_turn(said("a", "b", "c"), scope=ANN)
    assert await store.delete_messages(["c", "no", "a", "a"], scope=ANN) == 2
    assert ids_of(await whole_thread(store)) == ["b"]
    assert await store.delete_messages(["a", "c"], scope=ANN) == 0
    assert await store.delete_messages([], scope=ANN) == 0


async def test_deleting_stays_within_the_thread_when_one_is_named(store: Store) -> None:
    """Without a thread ids are deleted in all threads of the app, with one only there."""
    other = ANN.with_thread("u")
    await store.append_turn(said("a"), scope=ANN)
    await store.append_turn(said("b", "c"), scope=other)
    assert await store.delete_messages(["a", "b"], scope=other) == 1
    assert ids_of(await whole_thread(store)) == ["a"]
    assert await store.delete_messages(["a", "c"], scope=ANN.with_thread(None)) == 2


async def test_deleting_does_not_reach_the_same_id_elsewhere(store: Store) -> None:
    """An id of another user, tenant, app or project stays."""
    for other in (*OTHERS, *ELSEWHERE):
        await store.append_turn(said("a"), scope=ANN)
        await store.append_turn(said("a"), scope=other)
        assert await store.delete_messages(["a"], scope=other.with_thread(None)) == 1
        assert ids_of(await whole_thread(store)) == ["a"]


async def test_message_is_deleted_by_number_within_its_tenant_only(store: Store) -> None:
    """The integer id works whoever's message it is, but never from another tenant."""
    scopes = (ANN, *OTHERS, *ELSEWHERE)
    numbers = [(await store.append_turn(said("a"), scope=scope))[0].number for scope in scopes]
    for scope, number in zip(scopes, numbers, strict=True):
        for tenant in {1, 2, None} - {scope.tenant_id}:
            assert not await store.delete_message_number(number, tenant_id=tenant)
    for left, (scope, number) in enumerate(zip(scopes, numbers, strict=True), 1):
        assert await store.delete_message_number(number, tenant_id=scope.tenant_id)
        assert not await store.delete_message_number(number, tenant_id=scope.tenant_id)
        for index, other in enumerate(scopes):
            assert ids_of(await whole_thread(store, other)) == (["a"] if index >= left else [])


async def test_clearing_removes_all_messages_and_counts_what_was_visible(store: Store) -> None:
    """All threads of all apps go; the count is that of the user's history."""
    await store.append_turn(said("c"), scope=ANN.with_thread("u"))
    for scope in (ANN, *ELSEWHERE):
        await store.append_turn([*said("a", "b"), Message("system", "s", id="s")], scope=scope)
    await store.set_memory("k", {}, scope=ANN)
    assert await store.clear_history(scope=ANN) == 9
    assert await store.user_history(scope=ANN) == []
    for scope in (ANN, *ELSEWHERE):
        assert await store.list_threads(scope=scope) == []
        assert await whole_thread(store, scope) == []
    assert await store.get_memory("k", scope=ANN) is not None
    assert await store.clear_history(scope=ANN) == 0


async def test_clearing_leaves_other_users_alone(store: Store) -> None:
    """Another user, or the same name in another tenant, keeps everything."""
    for other in OTHERS:
        await store.append_turn(said("a"), scope=ANN)
        await store.append_turn(said("a"), scope=other)
        before = await exported(store, other)
        assert await store.clear_history(scope=ANN) == 1
        assert await exported(store, other) == before


async def test_turn_of_a_run_is_found_by_its_id(store: Store) -> None:
    """The prompt has an id of its own, the answer one that begins with the run's."""
    first = [Message("user", "one", id="own"), Message("assistant", "two", id="job:0000")]
    other = [Message("assistant", "three", id="job:1:0000")]
    await store.append_turn(first, run_id="job", scope=ANN)
    await store.append_turn(other, run_id="job:1", scope=ANN)
    assert ids_of(await store.turn_of_run("job", scope=ANN)) == ["own", "job:0000"]
    assert ids_of(await store.turn_of_run("job:1", scope=ANN)) == ["job:1:0000"]
    assert await store.turn_of_run("none", scope=ANN) == []
