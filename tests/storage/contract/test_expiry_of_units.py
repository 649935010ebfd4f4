"""What a store promises about tool calls that expire: a call and its results go together, nothing else."""

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.storage.contract.samples import (
    ANN,
    BOB,
    call,
    exported,
    exported_body,
    ids_of,
    result,
    said,
    whole_thread,
)
from tests.storage.tables import raw_numbers

from recollect.messages import Message
from recollect.storage.store import Store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(("first", "second"), [(1, None), (None, 1), (1, 2), (2, 1), (1, 1)])
async def test_call_and_result_expire_together_when_the_result_comes_later(
    store: Store, clock: ScriptedClock, first: int | None, second: int | None
) -> None:
    """The earlier of their times holds for both, and for what stands between them."""
    start = clock.time
    times = [None if hours is None else start + hours * HOUR for hours in (first, second)]
    await store.append_turn(said("before"), scope=ANN)
    await store.append_turn([call("call", "c")], expires_at=times[0], scope=ANN)
    await store.append_turn(said("between"), scope=ANN)
    await store.append_turn([result("result", "c")], expires_at=times[1], scope=ANN)
    await store.append_turn(said("after"), scope=ANN)
    due = start + HOUR
    assert [message.expires_at for message in await whole_thread(store)] == [None, due, due, due, None]
    clock.time = due - timedelta(microseconds=1)
    assert len(await whole_thread(store)) == 5
    clock.time = due
    assert ids_of(await whole_thread(store)) == ["before", "after"]
    await store.append_turn(said("later"), scope=ANN)
    assert ids_of(await whole_thread(store)) == ["before", "after", "later"]
    assert len(await raw_numbers(store)) == 3


async def test_messages_after_a_result_keep_their_own_expiry(store: Store, clock: ScriptedClock) -> None:
    """What the same turn says after the result does not belong to the call, so it does not expire with it."""
    due = clock.time + HOUR
    await store.append_turn([call("call", "c")], expires_at=due, scope=ANN)
    await store.append_turn([result("result", "c"), *said("answer")], scope=ANN)
    assert [message.expires_at for message in await whole_thread(store)] == [due, due, None]
    clock.time = due
    assert ids_of(await whole_thread(store)) == ["answer"]
    await store.append_turn(said("later"), scope=ANN)
    assert ids_of(await whole_thread(store)) == ["answer", "later"]


async def test_call_stays_when_an_expired_message_stood_between_it_and_its_result(
    store: Store, clock: ScriptedClock
) -> None:
    """A message that had expired before the result came takes neither of them along."""
    due = clock.time + HOUR
    await store.append_turn([call("call", "c")], scope=ANN)
    await store.append_turn(said("gone"), expires_at=due, scope=ANN)
    clock.time = due
    await store.append_turn([result("result", "c")], scope=ANN)
    stored = await whole_thread(store)
    assert ids_of(stored) == ["call", "result"]
    assert [message.expires_at for message in stored] == [None, None]
    assert len(await raw_numbers(store)) == 2
    assert ids_of(await store.last_messages(1, scope=ANN)) == ["call", "result"]


async def test_result_stands_alone_when_its_call_has_expired(store: Store, clock: ScriptedClock) -> None:
    """The look-up of a tool call does not find an expired one, but an older one with the same id."""
    due = clock.time + HOUR
    await store.append_turn([call("old", "c")], scope=ANN.with_thread("u"))
    await store.append_turn([call("old again", "d")], scope=ANN)
    await store.append_turn([call("gone", "c"), call("gone too", "d")], expires_at=due, scope=ANN)
    clock.time = due
    await store.append_turn([result("of c", "c")], scope=ANN)
    assert ids_of(await store.last_messages(1, scope=ANN)) == ["of c"]
    await store.append_turn([result("of d", "d")], scope=ANN)
    assert ids_of(await store.last_messages(1, scope=ANN)) == ["old again", "of c", "of d"]
    assert [message.expires_at for message in await whole_thread(store)] == [None] * 3


async def test_export_and_import_keep_the_expiry(store: Store, clock: ScriptedClock) -> None:
    """An imported message expires when the exported one does."""
    due = clock.time + HOUR
    await store.append_turn(said("a"), scope=ANN)
    await store.append_turn(said("b"), expires_at=due, scope=ANN)
    await store.import_(await exported(store), scope=BOB)
    assert await exported_body(store, BOB) == await exported_body(store)
    assert [message.expires_at for message in await whole_thread(store, BOB)] == [None, due]
    clock.time = due
    assert ids_of(await whole_thread(store, BOB)) == ["a"]
    thread = await store.get_thread(scope=BOB)
    assert thread is not None
    assert thread.message_count == 1


async def test_import_leaves_out_what_has_expired(store: Store, clock: ScriptedClock) -> None:
    """Messages that expired since the export are neither written nor counted."""
    await store.append_turn(said("a"), scope=ANN)
    await store.append_turn(said("b"), expires_at=clock.time + HOUR, scope=ANN)
    await store.append_turn(said("c"), expires_at=clock.time + HOUR, scope=ANN.with_thread("u"))
    lines = await exported(store)
    clock.time += HOUR
    counts = await store.import_(lines, scope=BOB)
    assert (counts["threads"], counts["messages"]) == (2, 1)
    assert len(await raw_numbers(store)) == 4
    (place,) = await store.append_turn(said("next"), scope=BOB)
    assert place.position == 3
    counts = await store.import_(lines, merge=True, scope=BOB)
    assert counts["messages"] == 0


async def test_import_writes_messages_whose_expired_version_is_stored(
    store: Store, clock: ScriptedClock
) -> None:
    """An expired message is in nobody's way, in the same thread or in another."""
    await store.append_turn(said("a", "b"), scope=ANN)
    lines = await exported(store)
    await store.append_turn(said("a"), expires_at=clock.time + HOUR, scope=BOB)
    await store.append_turn(said("b"), expires_at=clock.time + HOUR, scope=BOB.with_thread("u"))
    clock.time += HOUR
    counts = await store.import_(lines, merge=True, scope=BOB)
    assert counts["messages"] == 2
    assert [(m.id, m.expires_at) for m in await whole_thread(store, BOB)] == [("a", None), ("b", None)]
    assert len(await raw_numbers(store)) == 4


async def test_import_aligns_the_expiry_of_a_call_and_its_result(store: Store, clock: ScriptedClock) -> None:
    """A file in which they differ cannot separate them."""
    due = clock.time + HOUR
    turn = [call("call", "c"), Message("user", "wait", id="wait"), result("result", "c"), *said("after")]
    await store.append_turn(turn, scope=ANN)
    records: list[dict[str, Any]] = [json.loads(line) for line in await exported(store)]
    for record in records:
        if record.get("id") in ("call", "after"):
            record["expires_at"] = (due + HOUR).isoformat()
        if record.get("id") == "result":
            record["expires_at"] = due.isoformat()
    await store.import_(map(json.dumps, records), scope=BOB)
    stored = await whole_thread(store, BOB)
    assert [message.expires_at for message in stored] == [due, due, due, due + HOUR]
    clock.time = due
    assert ids_of(await whole_thread(store, BOB)) == ["after"]
