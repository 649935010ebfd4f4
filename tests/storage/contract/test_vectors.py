"""What a store promises about vectors: stored with the search rows of their messages, model by model."""

from collections.abc import Sequence

import pytest
from tests.storage.contract.samples import ANN, ELSEWHERE, OTHERS, index_all, said, terms_of
from tests.storage.tables import raw_search_rows

from recollect.scope import Scope
from recollect.storage.store import Store

pytestmark = pytest.mark.anyio

MODEL = "tiny"


async def test_message_waits_until_it_has_vectors(store: Store) -> None:
    """Terms alone do not do where a model is named; without a model they do."""
    places = await store.append_turn(said("one", "two"), scope=ANN)
    await index_all(store)
    assert await store.count_unindexed(scope=ANN) == 0
    waiting = await store.unindexed_messages(MODEL, scope=ANN)
    assert waiting.messages == [(places[0].number, "one"), (places[1].number, "two")]
    assert waiting.newest_model is None
    await _put(store, [places[0].number])
    assert (await store.unindexed_messages(MODEL, scope=ANN)).messages == [(places[1].number, "two")]
    assert await store.count_unindexed(MODEL, scope=ANN) == 1


async def test_message_without_a_term_waits_for_no_vector(store: Store) -> None:
    """There is nothing to embed in a row of dots once the analyser has seen it."""
    await store.append_turn(said("...", "\U0001f600"), scope=ANN)
    assert await store.count_unindexed(MODEL, scope=ANN) == 2
    await index_all(store)
    assert await store.count_unindexed(MODEL, scope=ANN) == 0


async def test_vectors_come_back_as_they_were_stored(store: Store) -> None:
    """Bytes, segments and model are the same, sorted by number and segment."""
    numbers = [place.number for place in await store.append_turn(said("a", "b"), scope=ANN)]
    many = [bytes([n, 0, n, 0]) for n in range(256)]
    await _put(store, numbers[1:])
    await _put(store, numbers[:1], vectors=many)
    rows = (await store.search_rows(scope=ANN)).vectors
    assert rows == [
        *((numbers[0], segment, MODEL, vector) for segment, vector in enumerate(many)),
        (numbers[1], 0, MODEL, bytes(4)),
    ]


async def test_newest_model_is_that_of_the_newest_message_with_a_vector(store: Store) -> None:
    """An embedder compares it, and its number of dimensions, with its own."""
    numbers = [place.number for place in await store.append_turn(said("a", "b", "c"), scope=ANN)]
    await _put(store, numbers[1:2], model_id="new", vectors=[bytes(6)])
    await _put(store, numbers[:1])
    assert (await store.unindexed_messages(MODEL, scope=ANN)).newest_model == ("new", 3)
    assert (await store.unindexed_messages(MODEL, scope=OTHERS[0])).newest_model is None


async def test_vectors_are_read_from_a_number_on_and_by_number(store: Store) -> None:
    """A cache names where its rows end, and the older messages whose vectors it lacks."""
    numbers = [place.number for place in await store.append_turn(said("a", "b", "c", "d"), scope=ANN)]
    await _put(store, numbers)
    last = numbers[3]
    assert await _numbers(store, vectors_from=numbers[2]) == numbers[2:]
    assert await _numbers(store, vectors_from=None) == []
    assert await _numbers(store, vectors_from=last + 1) == []
    assert await _numbers(store, vectors_from=None, vectors_of=[numbers[1], last, 10**15]) == [
        numbers[1],
        last,
    ]
    assert await _numbers(store, vectors_from=last, vectors_of=numbers[:1]) == [numbers[0], last]
    assert await _numbers(store, vectors_from=None, vectors_of=numbers, scope=OTHERS[0]) == []
    assert [row.number for row in (await store.search_rows(after=last, scope=ANN)).vectors] == numbers


async def test_vectors_stay_when_terms_are_stored_without_any(store: Store) -> None:
    """Analysing a message again does not cost its vectors."""
    numbers = [place.number for place in await store.append_turn(said("a"), scope=ANN)]
    await _put(store, numbers, vectors=[b"abcd", b"efgh"])
    before = (await store.search_rows(scope=ANN)).vectors
    await _put(store, numbers, vectors=[], model_id=None)
    assert (await store.search_rows(scope=ANN)).vectors == before
    await _put(store, numbers, vectors=[], model_id="other")
    assert (await store.search_rows(scope=ANN)).vectors == before


async def test_vectors_of_another_model_are_replaced_when_asked_for(store: Store) -> None:
    """A message counts as embedded whatever the model, unless one model is asked for."""
    numbers = [place.number for place in await store.append_turn(said("a", "b"), scope=ANN)]
    await _put(store, numbers, vectors=[bytes(4)] * 3)
    assert await store.count_unindexed("other", scope=ANN) == 0
    waiting = await store.unindexed_messages("other", any_model=False, scope=ANN)
    assert [message.number for message in waiting.messages] == numbers
    await _put(store, numbers[:1], model_id="other", replace=True)
    rows = (await store.search_rows(scope=ANN)).vectors
    assert [(row.number, row.segment, row.model_id) for row in rows] == [
        (numbers[0], 0, "other"),
        *((numbers[1], segment, MODEL) for segment in range(3)),
    ]
    waiting = await store.unindexed_messages("other", any_model=False, scope=ANN)
    assert [message.number for message in waiting.messages] == numbers[1:]


async def test_vectors_are_dropped_when_rows_are_replaced_without_any(store: Store) -> None:
    """Replacing leaves nothing of the earlier rows."""
    numbers = [place.number for place in await store.append_turn(said("a"), scope=ANN)]
    await _put(store, numbers, vectors=[bytes(4)] * 3)
    await _put(store, numbers, vectors=[], model_id=None, replace=True)
    assert [row[:2] for row in await raw_search_rows(store)] == [(numbers[0], 0)]
    assert await _numbers(store) == []


async def test_one_message_has_vectors_of_one_model_when_two_embedders_race(store: Store) -> None:
    """The later vectors take the place of all earlier ones, also where they are fewer."""
    numbers = [place.number for place in await store.append_turn(said("a", "b"), scope=ANN)]
    await _put(store, numbers, vectors=[bytes(4)] * 3)
    await _put(store, numbers[:1], model_id="other", vectors=[bytes(6)] * 2)
    rows = (await store.search_rows(scope=ANN)).vectors
    assert [(row.number, row.model_id) for row in rows] == [
        *[(numbers[0], "other")] * 2,
        *[(numbers[1], MODEL)] * 3,
    ]


async def test_erasing_counts_search_rows(store: Store) -> None:
    """The report counts one for each segment, like every other kind."""
    numbers = [place.number for place in await store.append_turn(said("a", "b", "c"), scope=ANN)]
    await _put(store, numbers[:2], vectors=[bytes(4)] * 2)
    await index_all(store)
    assert (await store.erase(scope=ANN)).counts["search_rows"] == 5
    assert await raw_search_rows(store) == []


async def test_messages_are_found_by_number_in_all_threads(store: Store) -> None:
    """They come in the order of the numbers; what is not there, or not the user's, is left out."""
    numbers: list[int] = []
    for place in (ELSEWHERE[0], ANN, ANN.with_thread("u"), OTHERS[0]):
        numbers += [p.number for p in await store.append_turn(said(f"in {len(numbers)}"), scope=place)]
    found = await store.messages_by_number([*numbers[::-1], 10**15], scope=ANN)
    assert [message.number for message in found] == numbers[:3]
    assert [message.text for message in found] == ["in 0", "in 1", "in 2"]
    assert [message.text for message in await store.messages_by_number(numbers[1:2], scope=ANN)] == ["in 1"]
    assert await store.messages_by_number([], scope=ANN) == []


async def _put(
    store: Store,
    numbers: Sequence[int],
    *,
    model_id: str | None = MODEL,
    vectors: Sequence[bytes] = (bytes(4),),
    replace: bool = False,
) -> None:
    items = [terms_of(number, "word", *vectors) for number in numbers]
    epoch = await store.pin_erase_epoch(scope=ANN)
    stored = await store.put_search_rows(
        items, model_id=model_id, erase_epoch=epoch, replace=replace, scope=ANN
    )
    assert stored == len(numbers)


async def _numbers(
    store: Store, *, vectors_from: int | None = 0, vectors_of: Sequence[int] = (), scope: Scope = ANN
) -> list[int]:
    found = await store.search_rows(vectors_from=vectors_from, vectors_of=vectors_of, scope=scope)
    return [row.number for row in found.vectors]
