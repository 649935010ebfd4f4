"""What a store promises about export and import: an equal state, under any name, or nothing at all."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.storage.contract.samples import (
    ANN,
    BOB,
    ELSEWHERE,
    OTHERS,
    UNICODE,
    append_turns,
    call,
    exported,
    exported_body,
    ids_of,
    keep_every_kind,
    result,
    said,
    whole_thread,
)

from recollect.errors import ConflictError
from recollect.messages import Message, TextPart, ToolCall
from recollect.scope import Scope
from recollect.storage.records import AuditEvent
from recollect.storage.store import Store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

NOTHING = {"threads": 0, "messages": 0, "user_memory": 0, "user_state": 0, "working_memory": 0, "events": 0}


async def test_export_says_what_it_is_and_ends_with_a_count(store: Store) -> None:
    """Each line is a JSON object; the first and the last frame the rest."""
    await keep_every_kind(store)
    records: list[dict[str, Any]] = [json.loads(line) for line in await exported(store)]
    assert records[0] == {"kind": "export", "format": 1, "tenant_id": 1, "user_id": "ann"}
    assert records[-1] == {"kind": "end", "lines": len(records) - 2}
    kinds = [record["kind"] for record in records[1:-1]]
    counts = {"thread": 2, "message": 6, "memory": 2, "state": 1, "working_memory": 3, "event": 2}
    assert kinds == [kind for kind, count in counts.items() for _ in range(count)]


async def test_lines_hold_no_line_breaks(store: Store) -> None:
    """Every line of an export is one line in a file, whatever it contains."""
    text = "a\nb\r\nc\u2028d\u2029e\x0bf\x0cg\x1ch\x85i"
    await store.append_turn([Message("user", text, id="m")], scope=ANN)
    lines = await exported(store)
    assert [line for line in lines if line.splitlines() != [line]] == []
    await store.import_("\n".join(lines).splitlines(), scope=BOB)
    assert [message.text for message in await whole_thread(store, BOB)] == [text]


async def test_unknown_user_exports_as_empty(store: Store) -> None:
    """There is nothing between the first and the last line, and importing that is no error."""
    lines = await exported(store)
    assert len(lines) == 2
    counts = await store.import_(lines, scope=BOB)
    assert counts == NOTHING


async def test_state_is_equal_when_an_erased_user_is_imported(store: Store, clock: ScriptedClock) -> None:
    """Threads, messages, positions, runs, memory, state and times all come back."""
    await _keep_much(store, clock)
    before = await _state(store, ANN)
    lines = await exported(store)
    await store.erase(scope=ANN)
    clock.tick(3600)
    await store.import_(lines, scope=ANN)
    assert await _state(store, ANN) == before
    assert await exported(store) == lines


async def test_state_is_equal_under_another_name(store: Store, clock: ScriptedClock) -> None:
    """An export can become another user, of another tenant too, and the first one stays."""
    await _keep_much(store, clock)
    lines = await exported(store)
    for other in OTHERS:
        await store.import_(lines, scope=other)
        assert await exported_body(store, other) == lines[1:]
        assert await exported(store) == lines


async def test_import_returns_what_was_written(store: Store) -> None:
    """The counts are those of the export."""
    await keep_every_kind(store)
    counts = await store.import_(await exported(store), scope=BOB)
    assert counts == {
        "threads": 2,
        "messages": 6,
        "user_memory": 2,
        "user_state": 1,
        "working_memory": 3,
        "events": 2,
    }


async def test_import_reads_a_stream_and_skips_blank_lines(store: Store) -> None:
    """Lines may come from an async source, with their line ends and blank ones between."""
    await keep_every_kind(store)
    await store.import_(store.export(scope=ANN), scope=BOB)
    assert await exported_body(store, BOB) == await exported_body(store)
    lines = [text for line in await exported(store) for text in (f"{line}\r\n", "\n", "  ")]
    await store.import_(lines, scope=OTHERS[1])
    assert await exported_body(store, OTHERS[1]) == await exported_body(store)


async def test_thread_goes_on_where_it_was(store: Store) -> None:
    """Positions of deleted messages stay unused after an import, at the end too."""
    await store.append_turn(said("a", "b", "c", "d"), scope=ANN)
    await store.delete_messages(["b", "d"], scope=ANN)
    await store.import_(await exported(store), scope=BOB)
    assert [message.position for message in await whole_thread(store, BOB)] == [1, 3]
    (place,) = await store.append_turn(said("e"), scope=BOB)
    assert place.position == 5


async def test_history_keeps_its_order_over_threads(store: Store) -> None:
    """What was said across threads and apps comes in the same order after an import."""
    for number, scope in enumerate((ANN, ELSEWHERE[0], ANN.with_thread("u"), ELSEWHERE[1], ANN)):
        await store.append_turn(said(f"{number}a", f"{number}b"), scope=scope)
    await store.import_(await exported(store), scope=BOB)
    expected = ids_of(await store.user_history(scope=ANN))
    assert ids_of(await store.user_history(scope=BOB)) == expected


@pytest.mark.parametrize("kind", ["thread", "memory", "state", "working memory", "event"])
async def test_import_is_refused_when_the_user_has_data(store: Store, kind: str) -> None:
    """A user who has any data is not imported over, and stays as it is."""
    await keep_every_kind(store, BOB)
    match kind:
        case "thread":
            await store.create_thread(scope=ELSEWHERE[2])
        case "memory":
            await store.set_memory("k", {}, scope=ANN)
        case "working memory":
            await store.update_working_memory({"k": 1}, scope=ELSEWHERE[0])
        case "event":
            await store.add_event("started", {}, scope=ELSEWHERE[0])
        case _:
            await store.set_state("active", scope=ANN)
    before = await exported(store)
    with pytest.raises(ConflictError, match="merge"):
        await store.import_(await exported(store, BOB), scope=ANN)
    assert await exported(store) == before


async def test_import_works_when_everything_was_deleted_one_by_one(store: Store) -> None:
    """A user without data any more is as empty as an unknown one."""
    await keep_every_kind(store)
    lines = await exported(store)
    await store.clear_history(scope=ANN)
    await store.clear_memory(scope=ANN)
    await store.delete_state(scope=ANN)
    await store.clear_working_memory(scope=ANN.with_thread(None))
    await store.import_(lines, scope=ANN)
    assert await exported(store) == lines


async def test_values_from_before_1970_are_imported(store: Store, clock: ScriptedClock) -> None:
    """Times before the epoch of Unix are times like any other."""
    clock.tick(-70 * 365 * 86_400)
    await keep_every_kind(store)
    await store.import_(await exported(store), scope=BOB)
    assert await exported_body(store, BOB) == await exported_body(store)


async def test_merging_appends_only_what_is_new(store: Store) -> None:
    """Messages that are there keep their place and first version; new ones go after them."""
    await store.append_turn(said("b", "mine"), scope=ANN)
    await append_turns(store, [said("a", "b", "c")], BOB)
    counts = await store.import_(await exported(store, BOB), merge=True, scope=ANN)
    assert counts["messages"] == 2
    stored = await whole_thread(store)
    assert ids_of(stored) == ["b", "mine", "a", "c"]
    assert [message.position for message in stored] == [1, 2, 3, 4]
    assert stored[0].role == "user"


async def test_thread_that_is_there_keeps_title_and_metadata(store: Store, clock: ScriptedClock) -> None:
    """Merging counts the new messages in and leaves the thread its name."""
    await store.create_thread(title="Mine", metadata={"n": 1}, scope=ANN)
    created = clock.time
    await store.create_thread(title="Yours", scope=BOB)
    await store.append_turn(said("a", "b"), scope=BOB)
    later = clock.tick()
    await store.import_(await exported(store, BOB), merge=True, scope=ANN)
    thread = await store.get_thread(scope=ANN)
    assert thread is not None
    assert (thread.title, thread.metadata, thread.message_count) == ("Mine", {"n": 1}, 2)
    assert (thread.created_at, thread.updated_at) == (created, later)


async def test_missing_threads_are_created(store: Store) -> None:
    """A thread that only the export has comes whole, beside what is there."""
    await keep_every_kind(store, BOB)
    await store.append_turn(said("x"), scope=ANN.with_thread("own"))
    await store.import_(await exported(store, BOB), merge=True, scope=ANN)
    assert ids_of(await whole_thread(store)) == ids_of(await whole_thread(store, BOB))
    assert {t.id: t.title for t in await store.list_threads(scope=ANN)} == {
        "own": "New Conversation",
        "t": "New Conversation",
        "second": "Second",
    }


async def test_newer_value_stays(store: Store, clock: ScriptedClock) -> None:
    """Of two memory values or states the newer one is kept, whichever side it is on."""
    await store.set_memory("old here", {"of": "ann"}, scope=ANN)
    await store.set_memory("old there", {"of": "bob"}, scope=BOB)
    await store.set_state("old", scope=ANN)
    clock.tick()
    await store.set_memory("old here", {"of": "bob"}, scope=BOB)
    await store.set_memory("old there", {"of": "ann"}, scope=ANN)
    await store.set_memory("only there", {"of": "bob"}, scope=BOB)
    await store.set_state("new", scope=BOB)
    counts = await store.import_(await exported(store, BOB), merge=True, scope=ANN)
    values = {entry.key: entry.value["of"] for entry in await store.list_memory(scope=ANN)}
    assert values == {"old here": "bob", "old there": "ann", "only there": "bob"}
    state = await store.get_state(scope=ANN)
    assert state is not None
    assert state.mode == "new"
    assert (counts["user_memory"], counts["user_state"]) == (2, 1)


async def test_own_value_stays_when_both_are_of_one_time(store: Store) -> None:
    """Where neither is newer nothing is overwritten."""
    for scope in (ANN, BOB):
        await store.set_memory("k", {"of": scope.user_id}, scope=scope)
        await store.set_state(f"state of {scope.user_id}", scope=scope)
    await store.import_(await exported(store, BOB), merge=True, scope=ANN)
    entry = await store.get_memory("k", scope=ANN)
    state = await store.get_state(scope=ANN)
    assert entry is not None
    assert state is not None
    assert (entry.value, state.mode) == ({"of": "ann"}, "state of ann")


async def test_merging_again_changes_nothing(store: Store, clock: ScriptedClock) -> None:
    """An export that was merged once has nothing more to give, and the counts say so."""
    await keep_every_kind(store, BOB)
    await store.append_turn(said("x"), scope=ANN)
    lines = await exported(store, BOB)
    await store.import_(lines, merge=True, scope=ANN)
    before = await exported(store)
    clock.tick()
    counts = await store.import_(lines, merge=True, scope=ANN)
    assert await exported(store) == before
    assert counts == NOTHING


async def test_merging_is_refused_when_another_thread_has_the_id(store: Store) -> None:
    """A message id that stands in another thread is a conflict, and nothing is written."""
    await keep_every_kind(store, BOB)
    await store.append_turn(said("done"), scope=ANN.with_thread("own"))
    before = await exported(store)
    with pytest.raises(ConflictError, match="'done'"):
        await store.import_(await exported(store, BOB), merge=True, scope=ANN)
    assert await exported(store) == before


async def test_merging_into_an_unknown_user_is_a_plain_import(store: Store) -> None:
    """Without anything to merge with, all of the export is taken over."""
    await keep_every_kind(store)
    await store.import_(await exported(store), merge=True, scope=BOB)
    assert await exported_body(store, BOB) == await exported_body(store)


async def _keep_much(store: Store, clock: ScriptedClock) -> None:
    """Keep things that an export could lose: gaps, units, Unicode, apps, empty threads, exact times."""
    await keep_every_kind(store)
    clock.tick(0.000_001)
    rich = [TextPart(UNICODE), ToolCall("slow", "tool", {UNICODE: [1e-7, 10**30]})]
    turn = [
        Message("assistant", rich, id=UNICODE, metadata={UNICODE: [1e-7, 10**30, None]}),
        Message("user", "", id="empty", origin="memory", created_at=datetime(1969, 7, 20, tzinfo=UTC)),
    ]
    for scope in ELSEWHERE:
        clock.tick(1.5)
        await append_turns(store, [turn, [result("r", "slow")], said("x", "y"), [call("open", "o")]], scope)
        clock.tick(1.5)
        await store.delete_messages(["x", "open"], scope=scope)
        await store.create_thread(title=UNICODE, metadata={UNICODE: UNICODE}, scope=scope.with_thread("0"))
    await store.append_turn(said("gone"), scope=ANN.with_thread("emptied"))
    await store.delete_messages(["gone"], scope=ANN.with_thread("emptied"))
    await store.set_memory(UNICODE, {UNICODE: [0.1, 10**40, None]}, scope=ANN)


async def _state(store: Store, scope: Scope) -> list[object]:
    """Return all that can be read about a user, apart from integer ids."""
    places = [scope, *(Scope(scope.tenant_id, scope.user_id, "t", p.app_id, p.project_id) for p in ELSEWHERE)]
    state: list[object] = [await store.get_state(scope=scope), ids_of(await store.user_history(scope=scope))]
    state += [(e.key, e.value, e.updated_at) for e in await store.list_memory(scope=scope)]
    for place in (scope.with_thread(None), *(at.with_thread("second") for at in places)):
        state += [(m.to_dict(), m.version, m.run_id) for m in await store.working_memory_history(scope=place)]
    state += [_event_facts(event) for event in await store.list_events(scope=scope.with_thread(None))]
    state += [(row.term_hashes, row.term_counts) for row in (await store.search_rows(scope=scope)).rows]
    for place in places:
        for thread in await store.list_threads(scope=place):
            messages = await whole_thread(store, place.with_thread(thread.id))
            state += [thread, messages, [(m.position, m.run_id, m.thread_id) for m in messages]]
            state += [len(await store.last_messages(1, scope=place.with_thread(thread.id)))]
    return state


def _event_facts(event: AuditEvent) -> tuple[object, ...]:
    return event.thread_id, event.name, event.payload, event.run_id, event.created_at
