"""What a store promises about audit events: stored in order, and never part of the conversation."""

import asyncio
import json

import pytest
from tests.storage.contract.samples import (
    ANN,
    BOB,
    ELSEWHERE,
    OTHERS,
    UNICODE,
    exported,
    exported_body,
    keep_every_kind,
    said,
    whole_thread,
)

from recollect.storage.records import AuditEvent
from recollect.storage.store import Store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

ALL = ANN.with_thread(None)
"""All sessions of the user."""


async def test_event_has_all_that_was_given_and_the_time(store: Store, clock: ScriptedClock) -> None:
    """An event comes back with its session, run, payload and time, and says that it is hidden."""
    payload = {"scope": ["current_chat"], UNICODE: [1e308, -0.0, 10**30, None], "count": 2}
    number = await store.add_event("recalled", payload, run_id="run 1", scope=ANN)
    (event,) = await store.list_events(scope=ANN)
    assert event == AuditEvent(number, "t", "recalled", payload, "run 1", clock.time)
    assert json.dumps(event.payload) == json.dumps(payload)
    assert event.context_visible is False


async def test_numbers_grow_and_are_never_used_again(store: Store) -> None:
    """Neither another event nor a memory entry after an erasure gets an event's number."""
    first = await store.add_event("a", {}, scope=ANN)
    second = await store.add_event("b", {}, scope=BOB)
    await store.erase(scope=ANN)
    await store.erase(scope=BOB)
    third = await store.add_event("c", {}, scope=ANN)
    fourth = await store.set_memory("x", {}, scope=ANN)
    assert first < second < third < fourth


async def test_events_written_at_once_are_all_kept(store: Store) -> None:
    """Every event gets a number of its own, whoever writes at the same time."""
    work = [store.add_event(str(n), {"n": n}, scope=scope) for n in range(20) for scope in (ANN, BOB)]
    numbers = await asyncio.gather(*work)
    assert len(set(numbers)) == 40
    for scope in (ANN, BOB):
        events = await store.list_events(scope=scope)
        assert {event.payload["n"] for event in events} == set(range(20))
        assert [event.number for event in events] == sorted(event.number for event in events)


async def test_session_need_not_be_there_and_is_not_created(store: Store) -> None:
    """An event before the first turn makes no thread, and the turn finds its thread untouched."""
    await store.add_event("started", {}, scope=ANN)
    assert await store.get_thread(scope=ANN) is None
    assert await store.list_threads(scope=ANN) == []
    (place,) = await store.append_turn(said("a"), scope=ANN)
    thread = await store.get_thread(scope=ANN)
    assert place.position == 1
    assert thread is not None
    assert thread.message_count == 1
    assert len(await store.list_events(scope=ANN)) == 1


async def test_events_are_listed_oldest_first_and_a_limit_takes_the_newest(store: Store) -> None:
    """A limit and an offset count from the end; what comes back is still in order."""
    for name in "abcde":
        await store.add_event(name, {}, scope=ANN)
    assert await _names(store, limit=2) == "de"
    assert await _names(store, limit=2, offset=1) == "cd"
    assert await _names(store, offset=3) == "ab"
    assert await _names(store, limit=0) == ""
    assert await _names(store, limit=9, offset=9) == ""
    assert await _names(store) == "abcde"


async def test_events_are_found_by_session_name_and_run(store: Store) -> None:
    """Without a session all of the user's are listed, in the order in which they were written."""
    other = ANN.with_thread("u")
    await store.add_event("a", {}, run_id="1", scope=ANN)
    await store.add_event("b", {}, run_id="1", scope=other)
    await store.add_event("a", {}, run_id="2", scope=other)
    await store.add_event("c", {}, scope=ANN)
    assert [e.thread_id for e in await store.list_events(scope=ALL)] == ["t", "u", "u", "t"]
    assert [e.name for e in await store.list_events(scope=other)] == ["b", "a"]
    assert [e.run_id for e in await store.list_events(name="a", scope=ALL)] == ["1", "2"]
    assert [e.name for e in await store.list_events(run_id="1", scope=ALL)] == ["a", "b"]
    assert await store.list_events(name="a", run_id="2", scope=ANN) == []
    assert [e.run_id for e in await store.list_events(name="a", limit=1, scope=ALL)] == ["2"]


async def test_events_belong_to_their_user_app_and_project(store: Store) -> None:
    """Nobody else has them, and a session of the same id elsewhere has its own."""
    await store.add_event("a", {}, scope=ANN)
    for other in (*OTHERS, *ELSEWHERE):
        assert await store.list_events(scope=other) == []
        assert await store.list_events(scope=other.with_thread(None)) == []


async def test_events_are_not_part_of_the_conversation(store: Store) -> None:
    """History, search, counts, threads and the epoch are the same with events and without."""
    await store.append_turn(said("tea", "yes"), scope=ANN)
    before = await _read_conversation(store)
    await store.add_event("tea", {"text": "tea yes"}, run_id="run", scope=ANN)
    await store.append_turn(said("coffee"), scope=BOB)
    assert await _read_conversation(store) == before


async def test_thread_takes_its_events_along(store: Store) -> None:
    """Deleting a thread leaves the events of others, also where there was no turn yet."""
    for scope in (ANN, ANN.with_thread("u"), *ELSEWHERE, BOB):
        await store.add_event("a", {}, scope=scope)
    assert await store.delete_thread(scope=ANN) is False
    assert [e.thread_id for e in await store.list_events(scope=ALL)] == ["u"]
    for scope in (*ELSEWHERE, BOB):
        assert len(await store.list_events(scope=scope)) == 1
    await store.append_turn(said("x"), scope=BOB)
    assert await store.delete_thread(scope=BOB) is True
    assert await store.list_events(scope=BOB) == []


async def test_clearing_history_and_erasing_take_events_along(store: Store) -> None:
    """Both remove the events of every session, app and project; nobody else's."""
    for scope in (ANN, *ELSEWHERE, BOB):
        await store.add_event("a", {}, scope=scope)
    assert await store.clear_history(scope=ANN) == 0
    assert len(await exported(store)) == 2
    await store.add_event("a", {}, scope=ELSEWHERE[0])
    assert (await store.erase(scope=ANN)).counts["events"] == 1
    assert len(await exported(store)) == 2
    assert len(await store.list_events(scope=BOB)) == 1


async def test_removing_messages_leaves_events(store: Store) -> None:
    """What was done stays known when what was said is taken back."""
    await keep_every_kind(store)
    await store.delete_messages(["hello", "hi", "call", "done"], scope=ANN)
    assert len(await store.list_events(scope=ALL)) == 2


async def test_import_keeps_order_and_adds_only_what_is_new(store: Store, clock: ScriptedClock) -> None:
    """Events alike count each; merging the same export again writes none of them twice."""
    for name in ("b", "a", "a", "c"):
        await store.add_event(name, {"n": 1.0}, run_id="run", scope=ANN)
    lines = await exported(store)
    await store.import_(lines, scope=BOB)
    assert await exported_body(store, BOB) == lines[1:]
    later = clock.tick()
    await store.add_event("a", {"n": 1.0}, run_id="run", scope=ANN)
    counts = await store.import_(await exported(store), merge=True, scope=BOB)
    assert counts["events"] == 1
    events = await store.list_events(scope=BOB)
    assert [event.name for event in events] == ["b", "a", "a", "c", "a"]
    assert events[-1].created_at == later


async def _names(store: Store, limit: int | None = None, offset: int = 0) -> str:
    found = await store.list_events(limit=limit, offset=offset, scope=ALL)
    return "".join(event.name for event in found)


async def _read_conversation(store: Store) -> list[object]:
    return [
        await whole_thread(store),
        await store.user_history(scope=ANN),
        await store.count_user_history(scope=ANN),
        await store.list_threads(scope=ANN),
        await store.search_rows(scope=ANN),
        await store.unindexed_messages("m", scope=ANN),
        await store.epoch(scope=ANN),
    ]
