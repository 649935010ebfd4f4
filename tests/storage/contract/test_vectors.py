"""What a store promises about vectors: written in the background, deleted with their messages, never back."""

from collections.abc import Sequence

import pytest
from tests.storage.contract.samples import ANN, ELSEWHERE, OTHERS, call, exported, result, said

from recollect.messages import Message
from recollect.scope import Scope
from recollect.storage.records import MessageVectors, VectorRow
from recollect.storage.store import Store

pytestmark = pytest.mark.anyio

MODEL = "tiny"


async def test_message_waits_until_it_has_vectors(store: Store) -> None:
    """What was said is listed by number and text, oldest first, until its vectors are kept."""
    places = await store.append_turn([*said("one", "two"), call("c", "x"), result("r", "x")], scope=ANN)
    waiting = await store.without_vectors(MODEL, scope=ANN)
    assert waiting.messages == [(places[0].number, "one"), (places[1].number, "two")]
    assert await _put(store, [places[0].number]) == 1
    assert (await store.without_vectors(MODEL, scope=ANN)).messages == [(places[1].number, "two")]
    assert (await store.without_vectors(MODEL, limit=1, after=places[1].number, scope=ANN)).messages == []


async def test_message_without_a_term_never_waits(store: Store) -> None:
    """There is nothing to embed in a row of dots."""
    await store.append_turn(said("...", "\U0001f600"), scope=ANN)
    assert (await store.without_vectors(MODEL, scope=ANN)).messages == []


async def test_vectors_come_back_as_they_were_kept(store: Store) -> None:
    """Bytes, spans, model and dimensions are the same, stamps grow."""
    numbers = [place.number for place in await store.append_turn(said("a", "b"), scope=ANN)]
    long = MessageVectors(numbers[0], bytes(range(16)), bytes(range(8)))
    await _put(store, [long, numbers[1]])
    rows = (await store.search_rows(scope=ANN)).vectors
    assert [row[1:] for row in rows] == [
        (numbers[0], MODEL, 2, bytes(range(16)), bytes(range(8))),
        (numbers[1], MODEL, 2, bytes(8), bytes(4)),
    ]
    assert rows[0].stamp < rows[1].stamp


async def test_only_newer_vectors_are_read(store: Store) -> None:
    """A cache that names the last stamp it saw gets what came later, also for older messages."""
    numbers = [place.number for place in await store.append_turn(said("a", "b", "c"), scope=ANN)]
    await _put(store, [numbers[2]])
    seen = (await store.search_rows(scope=ANN)).vectors
    await _put(store, [numbers[0]])
    newer = await store.search_rows(after=numbers[2], vectors_after=seen[-1].stamp, scope=ANN)
    assert (newer.rows, [row.number for row in newer.vectors]) == ([], [numbers[0]])


async def test_vectors_of_another_model_are_replaced_when_asked_for(store: Store) -> None:
    """A message counts as embedded whatever the model, unless one model is asked for."""
    numbers = [place.number for place in await store.append_turn(said("a", "b"), scope=ANN)]
    await _put(store, numbers)
    assert (await store.without_vectors("other", scope=ANN)).messages == []
    waiting = await store.without_vectors("other", any_model=False, scope=ANN)
    assert [message.number for message in waiting.messages] == numbers
    await _put(store, [numbers[0]], model_id="other")
    rows = (await store.search_rows(scope=ANN)).vectors
    assert {(row.number, row.model_id) for row in rows} == {(numbers[0], "other"), (numbers[1], MODEL)}


@pytest.mark.parametrize("way", ["message", "unit", "number", "thread", "history", "user"])
async def test_vectors_go_with_their_messages(store: Store, way: str) -> None:
    """Whatever removes a message removes its vectors in the same step, and no others."""
    places = await store.append_turn(said("gone"), scope=ANN)
    kept = await store.append_turn(said("stays"), scope=ANN.with_thread("u"))
    theirs = await store.append_turn(said("theirs"), scope=OTHERS[0])
    await _put(store, [places[0].number, kept[0].number])
    await _put(store, [theirs[0].number], scope=OTHERS[0])
    await _remove(store, way, places[0].number)
    left = [] if way in ("history", "user") else [kept[0].number]
    assert await _numbers(store, ANN) == left
    assert await _numbers(store, OTHERS[0]) == [theirs[0].number]


@pytest.mark.parametrize("way", ["message", "thread", "history", "user"])
async def test_vectors_are_not_stored_when_something_was_removed(store: Store, way: str) -> None:
    """An embedder that was still at work when its message went stores nothing."""
    places = await store.append_turn(said("gone", "other"), scope=ANN)
    epoch = (await store.without_vectors(MODEL, scope=ANN)).epoch
    await _remove(store, way, places[0].number)
    assert await _put(store, [place.number for place in places], epoch=epoch) == 0
    await store.append_turn(said("new"), scope=ANN)
    assert await _put(store, [places[0].number]) == 0
    assert await _numbers(store, ANN) == []


async def test_vectors_are_kept_only_for_messages_of_the_user(store: Store) -> None:
    """The number of somebody else's message is nobody's here."""
    theirs = await store.append_turn(said("theirs"), scope=OTHERS[0])
    mine = await store.append_turn(said("mine"), scope=ANN)
    assert await _put(store, [theirs[0].number, mine[0].number]) == 1
    assert await _numbers(store, ANN) == [mine[0].number]


async def test_erasing_counts_vectors(store: Store) -> None:
    """The report names them like every other kind."""
    places = await store.append_turn(said("a", "b"), scope=ANN)
    await _put(store, [place.number for place in places])
    assert (await store.erase(scope=ANN)).counts["vectors"] == 2


async def test_export_leaves_vectors_out(store: Store) -> None:
    """They are made again where the messages are imported."""
    places = await store.append_turn(said("a"), scope=ANN)
    before = await exported(store)
    await _put(store, [places[0].number])
    assert await exported(store) == before
    await store.import_(before, scope=OTHERS[1])
    assert len((await store.without_vectors(MODEL, scope=OTHERS[1])).messages) == 1


async def test_messages_are_found_by_number_in_all_threads(store: Store) -> None:
    """They come in the order of the numbers; what is not there, or not the user's, is left out."""
    numbers: list[int] = []
    for place in (ELSEWHERE[0], ANN, ANN.with_thread("u"), OTHERS[0]):
        numbers += [p.number for p in await store.append_turn(said(f"in {len(numbers)}"), scope=place)]
    found = await store.messages_by_number([*numbers[::-1], 10**15], scope=ANN)
    assert [message.number for message in found] == numbers[:3]
    assert [message.text for message in found] == ["in 0", "in 1", "in 2"]
    assert await store.messages_by_number([], scope=ANN) == []


async def _put(
    store: Store,
    items: Sequence[int | MessageVectors],
    *,
    model_id: str = MODEL,
    epoch: int | None = None,
    scope: Scope = ANN,
) -> int:
    vectors = [
        item if isinstance(item, MessageVectors) else MessageVectors(item, bytes(8), bytes(4))
        for item in items
    ]
    known = await store.epoch(scope=scope) if epoch is None else epoch
    return await store.put_vectors(vectors, model_id=model_id, dimensions=2, epoch=known, scope=scope)


async def _numbers(store: Store, scope: Scope) -> list[int]:
    rows: list[VectorRow] = (await store.search_rows(scope=scope)).vectors
    return [row.number for row in rows]


async def _remove(store: Store, way: str, number: int) -> None:
    match way:
        case "message":
            await store.delete_messages(["gone"], scope=ANN)
        case "unit":
            turn = [Message("assistant", [*call("x", "c").parts], id="call"), result("result", "c")]
            await store.append_turn(turn, scope=ANN)
            await store.delete_messages(["result", "gone"], scope=ANN)
        case "number":
            await store.delete_message_number(number, tenant_id=1)
        case "thread":
            await store.delete_thread(scope=ANN)
        case "history":
            await store.clear_history(scope=ANN)
        case _:
            await store.erase(scope=ANN)
