"""What a store promises about search rows: by its text, then by its terms, a message is always found."""

from dataclasses import replace

import pytest
from tests.storage.contract.samples import (
    ANN,
    ELSEWHERE,
    OTHERS,
    call,
    exported,
    index_all,
    result,
    said,
    terms_of,
    whole_thread,
)
from tests.storage.tables import raw_search_rows

from recollect.messages import FilePart, Message, ReasoningPart, TextPart
from recollect.scope import Scope
from recollect.storage import search_rows
from recollect.storage.records import Placement, SearchRow
from recollect.storage.rows import to_micros
from recollect.storage.store import Store

pytestmark = pytest.mark.anyio

TEXTS = ("The cats sat; the cat sits.", "日本語のテキスト\uff1f", "naïve café?", "...", "a " * 300)


async def test_row_holds_the_text_when_nobody_has_analysed_it(store: Store) -> None:
    """Right after the append a message is searched by its text."""
    turn = [Message("user", text) for text in TEXTS]
    places = await store.append_turn(turn, scope=ANN)
    expected = [_row(place, message) for place, message in zip(places, turn, strict=True)]
    assert (await store.search_rows(scope=ANN)).rows == expected
    assert await raw_search_rows(store) == []


async def test_row_holds_the_terms_when_they_are_stored(store: Store) -> None:
    """Terms take the place of the text, message by message."""
    turn = [Message("user", text) for text in TEXTS]
    places = await store.append_turn(turn, scope=ANN)
    epoch = await store.pin_erase_epoch(scope=ANN)
    for done in range(1, len(TEXTS) + 1):
        terms = terms_of(places[done - 1].number, TEXTS[done - 1])
        assert await store.put_search_rows([terms], erase_epoch=epoch, scope=ANN) == 1
        expected = [
            _row(place, message, is_indexed=index < done)
            for index, (place, message) in enumerate(zip(places, turn, strict=True))
        ]
        assert (await store.search_rows(scope=ANN)).rows == expected


async def test_only_what_user_and_assistant_said_has_a_row(store: Store) -> None:
    """Tool messages, system messages and messages without text are not searched."""
    turn = [
        Message("user", "question"),
        Message("system", "rule"),
        call("call", "c"),
        result("result", "c"),
        Message("tool", "output"),
        Message("assistant", ""),
        Message("assistant", [ReasoningPart("thought")]),
        Message("user", [FilePart("image/png", data="aGk=", name="cat")]),
        Message("assistant", [ReasoningPart("hm"), TextPart("two"), TextPart("parts")]),
    ]
    places = await store.append_turn(turn, scope=ANN)
    expected = [_row(places[0], turn[0]), _row(places[-1], turn[-1])]
    assert (await store.search_rows(scope=ANN)).rows == expected
    assert [message.number for message in (await store.unindexed_messages(None, scope=ANN)).messages] == [
        places[0].number,
        places[-1].number,
    ]


async def test_nothing_is_stored_when_a_message_is_not_searched(store: Store) -> None:
    """Terms of a tool message or of an empty one would never be read."""
    places = await store.append_turn([call("call", "c"), result("result", "c")], scope=ANN)
    epoch = await store.pin_erase_epoch(scope=ANN)
    items = [terms_of(place.number, "tool", bytes(4)) for place in places]
    assert await store.put_search_rows(items, model_id="m", erase_epoch=epoch, scope=ANN) == 0
    assert (await store.search_rows(scope=ANN))[1:] == ([], [], None)
    assert await raw_search_rows(store) == []


async def test_rows_span_threads_apps_and_projects(store: Store) -> None:
    """All of a user is searched at once, in the order of the integer ids."""
    places = (ELSEWHERE[2], ANN, ELSEWHERE[0], ANN.with_thread("u"), ELSEWHERE[1])
    numbers = [
        (await store.append_turn(said(f"word {index}"), scope=place))[0].number
        for index, place in enumerate(places)
    ]
    for _ in range(2):
        rows = (await store.search_rows(scope=ANN)).rows
        assert [row.number for row in rows] == numbers
        assert [(row.app_id, row.project_id, row.thread_id) for row in rows] == [
            (place.app_id, place.project_id, place.thread_id) for place in places
        ]
        await index_all(store)


async def test_rows_are_read_from_a_number_on(store: Store) -> None:
    """`after` gives exactly what is new to a cache, `limit` a page of it and where the next one begins."""
    places = await store.append_turn(said("a", "b", "c", "d"), scope=ANN)
    numbers = [place.number for place in places]
    for index, number in enumerate([0, *numbers]):
        for limit in (None, 1, 2, 4, 9):
            found = await store.search_rows(after=number, limit=limit, scope=ANN)
            page = numbers[index:][:limit]
            assert [row.number for row in found.rows] == page
            assert found.up_to == (page[-1] if len(page) == limit else None)


async def test_pages_give_every_row_and_vector_once(store: Store) -> None:
    """A large user is read page by page, among other users and messages that are not searched."""
    expected: list[int] = []
    for turn in range(7):
        places = await store.append_turn([*said(f"a {turn}", f"b {turn}"), Message("system", "x")], scope=ANN)
        expected += [place.number for place in places[:2]]
        await store.append_turn(said("theirs"), scope=OTHERS[0])
    await index_all(store, model_id="m")
    for limit in (1, 3, 5, 100):
        rows: list[int] = []
        vectors: list[int] = []
        after: int | None = 0
        while after is not None:
            found = await store.search_rows(after=after, vectors_from=after + 1, limit=limit, scope=ANN)
            assert len(found.rows) <= limit
            rows += [row.number for row in found.rows]
            vectors += [row.number for row in found.vectors]
            after = found.up_to
        assert rows == vectors == expected


async def test_row_names_the_speaker_when_the_metadata_do(store: Store) -> None:
    """A name counts where it is text; anything else is nobody's name."""
    kinds: list[object] = ["Ann", "Zoë \U0001f600", "", 5, None, ["Ann"], {"first": "Ann"}, True]
    turn = [Message("user", "hi", metadata={"name": name}) for name in kinds]
    await store.append_turn(
        [*turn, Message("user", "hi"), Message("user", "hi", metadata={"x": 1})], scope=ANN
    )
    for _ in range(2):
        rows = (await store.search_rows(scope=ANN)).rows
        assert [row.speaker for row in rows] == ["Ann", "Zoë \U0001f600", "", *[None] * 7]
        await index_all(store)


async def test_message_sent_again_has_one_row(store: Store) -> None:
    """A message keeps its terms when it is sent again."""
    await store.append_turn(said("a"), scope=ANN)
    await index_all(store)
    await store.append_turn(said("a"), scope=ANN)
    assert len((await store.search_rows(scope=ANN)).rows) == len(await raw_search_rows(store)) == 1
    assert await store.count_unindexed(scope=ANN) == 0


@pytest.mark.parametrize("way", ["message", "number", "thread", "history", "user", "prune"])
async def test_rows_go_with_their_messages(store: Store, way: str) -> None:
    """Whatever deletes a message deletes its search rows in the same transaction, and no others."""
    places = await store.append_turn(said("gone"), scope=ANN)
    stays = await store.append_turn(said("stays"), scope=ANN.with_thread("u"))
    theirs = await store.append_turn(said("theirs"), scope=OTHERS[0])
    for scope in (ANN, OTHERS[0]):
        await index_all(store, scope, model_id="m")
    match way:
        case "message":
            await store.delete_messages(["gone"], scope=ANN)
        case "number":
            await store.delete_message_number(places[0].number, tenant_id=1)
        case "thread":
            await store.delete_thread(scope=ANN)
        case "history":
            await store.clear_history(scope=ANN)
        case "prune":
            kept = (await whole_thread(store, ANN.with_thread("u")))[0].created_at
            await store.prune(kept, scope=ANN)
        case _:
            await store.erase(scope=ANN)
    left = [] if way in ("history", "user") else [stays[0].number]
    assert [row.number for row in await raw_search_rows(store)] == [*left, theirs[0].number]
    assert await _numbers(store, ANN) == left
    assert await _numbers(store, OTHERS[0]) == [theirs[0].number]


async def test_rows_of_a_whole_unit_go_with_it(store: Store) -> None:
    """What is deleted together with a tool call is not found any more."""
    spoken = Message("assistant", [TextPart("looking"), *call("x", "c").parts], id="call")
    places = await store.append_turn([*said("before"), spoken, result("result", "c")], scope=ANN)
    await index_all(store)
    await store.delete_messages(["result"], scope=ANN)
    assert await _numbers(store, ANN) == [places[0].number]
    assert [row.number for row in await raw_search_rows(store)] == [places[0].number]


async def test_rows_are_the_users_own(store: Store) -> None:
    """Another user, or the same name in another tenant, is searched apart."""
    mine = (await store.append_turn(said("mine"), scope=ANN))[0].number
    for other in OTHERS:
        assert (await store.search_rows(scope=other)).rows == []
        theirs = (await store.append_turn(said("theirs"), scope=other))[0].number
        await index_all(store, other)
        assert await _numbers(store, other) == [theirs]
        assert await _numbers(store, ANN) == [mine]
    assert await store.count_unindexed(scope=ANN) == 1


async def test_imported_messages_are_searched_by_their_text(store: Store) -> None:
    """An export has no search rows, so the imported messages wait for theirs."""
    await store.append_turn([*said("one", "two"), call("c", "x"), result("r", "x")], scope=ANN)
    before = await exported(store)
    await index_all(store, model_id="m")
    assert await exported(store) == before
    await store.import_(before, scope=OTHERS[1])
    numbers = [m.number for m in await whole_thread(store, OTHERS[1]) if m.is_conversation]
    rows = (await store.search_rows(scope=OTHERS[1])).rows
    assert [(row.number, row.text) for row in rows] == list(zip(numbers, ("one", "two"), strict=True))
    assert await store.count_unindexed("m", scope=OTHERS[1]) == 2


async def test_message_waits_until_its_terms_are_stored(store: Store) -> None:
    """What was said is listed by number and text, oldest first, and counted."""
    places = await store.append_turn(said("one", "...", "three"), scope=ANN)
    waiting = [(place.number, text) for place, text in zip(places, ("one", "...", "three"), strict=True)]
    assert (await store.unindexed_messages(None, scope=ANN)).messages == waiting
    assert (await store.unindexed_messages(None, limit=1, scope=ANN)).messages == waiting[:1]
    assert (await store.unindexed_messages(None, after=places[0].number, scope=ANN)).messages == waiting[1:]
    assert await store.count_unindexed(scope=ANN) == 3
    epoch = await store.pin_erase_epoch(scope=ANN)
    await store.put_search_rows([terms_of(places[1].number, "...")], erase_epoch=epoch, scope=ANN)
    assert (await store.unindexed_messages(None, scope=ANN)).messages == [waiting[0], waiting[2]]
    assert await store.count_unindexed(scope=ANN) == 2
    assert await index_all(store) == 2
    assert await store.count_unindexed(scope=ANN) == 0


@pytest.mark.parametrize("way", ["message", "thread", "history", "user"])
async def test_nothing_is_stored_when_the_message_was_deleted_meanwhile(store: Store, way: str) -> None:
    """An analyser that was still at work when its message went stores nothing."""
    places = await store.append_turn(said("gone"), scope=ANN)
    waiting = await store.unindexed_messages(None, scope=ANN)
    match way:
        case "message":
            await store.delete_messages(["gone"], scope=ANN)
        case "thread":
            await store.delete_thread(scope=ANN)
        case "history":
            await store.clear_history(scope=ANN)
        case _:
            await store.erase(scope=ANN)
    items = [terms_of(places[0].number, "gone")]
    assert await store.put_search_rows(items, erase_epoch=waiting.erase_epoch, scope=ANN) == 0
    assert await raw_search_rows(store) == []


async def test_nothing_is_stored_when_the_user_was_erased_and_came_back(store: Store) -> None:
    """The erase epoch differs, so rows of the old life are not stored, whatever their number."""
    await store.append_turn(said("gone"), scope=ANN)
    old = (await store.unindexed_messages(None, scope=ANN)).erase_epoch
    await store.erase(scope=ANN)
    (place,) = await store.append_turn(said("new"), scope=ANN)
    new = await store.pin_erase_epoch(scope=ANN)
    items = [terms_of(place.number, "gone")]
    assert old != new
    assert await store.put_search_rows(items, erase_epoch=old, scope=ANN) == 0
    assert await raw_search_rows(store) == []
    assert await store.put_search_rows(items, erase_epoch=new, scope=ANN) == 1


async def test_rest_is_stored_when_one_message_was_deleted(store: Store) -> None:
    """Deleting one message does not stop the work on the others."""
    places = await store.append_turn(said("gone", "stays"), scope=ANN)
    waiting = await store.unindexed_messages(None, scope=ANN)
    await store.delete_messages(["gone"], scope=ANN)
    items = [terms_of(place.number, "x") for place in places]
    assert await store.put_search_rows(items, erase_epoch=waiting.erase_epoch, scope=ANN) == 1
    assert [row.number for row in await raw_search_rows(store)] == [places[1].number]


async def test_rows_are_stored_only_for_messages_of_the_user(store: Store) -> None:
    """The number of somebody else's message is nobody's here."""
    mine = (await store.append_turn(said("mine"), scope=ANN))[0].number
    for other in OTHERS:
        theirs = (await store.append_turn(said("theirs"), scope=other))[0].number
        epoch = await store.pin_erase_epoch(scope=ANN)
        items = [terms_of(number, "x", bytes(4)) for number in (theirs, mine)]
        for replaces in (False, True):
            stored = await store.put_search_rows(
                items, model_id="m", erase_epoch=epoch, replace=replaces, scope=ANN
            )
            assert stored == 1
            assert theirs not in [row.number for row in await raw_search_rows(store)]


async def test_rows_of_others_stay_when_their_numbers_are_replaced(store: Store) -> None:
    """Replacing rows under the numbers of another user or tenant leaves theirs as they were."""
    mine = (await store.append_turn(said("mine"), scope=ANN))[0].number
    numbers = [(await store.append_turn(said("theirs"), scope=other))[0].number for other in OTHERS]
    for other in OTHERS:
        await index_all(store, other, model_id="m")
    before = await raw_search_rows(store)
    items = [terms_of(number, "x", bytes(4)) for number in (mine, *numbers)]
    epoch = await store.pin_erase_epoch(scope=ANN)
    assert await store.put_search_rows(items, model_id="m", erase_epoch=epoch, replace=True, scope=ANN) == 1
    assert [row for row in await raw_search_rows(store) if row.number != mine] == before


async def test_rows_of_another_analyser_count_as_missing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an update of the analyser a message is searched by its text until it has new terms."""
    (place,) = await store.append_turn(said("word"), scope=ANN)
    await index_all(store, model_id="m", vector=b"abcd")
    monkeypatch.setattr(search_rows, "ANALYSER_VERSION", search_rows.ANALYSER_VERSION + 1)
    found = await store.search_rows(scope=ANN)
    assert [(row.text, row.term_hashes) for row in found.rows] == [("word", None)]
    assert [row.vector for row in found.vectors] == [b"abcd"]
    assert await store.count_unindexed(scope=ANN) == await store.count_unindexed("m", scope=ANN) == 1
    assert await index_all(store) == 1
    found = await store.search_rows(scope=ANN)
    assert [(row.text, row.term_hashes) for row in found.rows] == [
        (None, terms_of(place.number, "word").term_hashes)
    ]
    assert [row.vector for row in found.vectors] == [b"abcd"]
    assert await store.count_unindexed("m", scope=ANN) == 0


async def test_terms_are_replaced_when_they_are_stored_again(store: Store) -> None:
    """The last terms count; a message has one set of them."""
    (place,) = await store.append_turn(said("word"), scope=ANN)
    epoch = await store.pin_erase_epoch(scope=ANN)
    for terms in (terms_of(place.number, "one"), replace(terms_of(place.number, "two three"), asks=True)):
        await store.put_search_rows([terms], erase_epoch=epoch, scope=ANN)
        (row,) = (await store.search_rows(scope=ANN)).rows
        assert (row.asks, row.term_hashes, row.term_counts) == (
            terms.asks,
            terms.term_hashes,
            terms.term_counts,
        )
    assert len(await raw_search_rows(store)) == 1


async def test_epoch_is_raised_only_when_rows_are_replaced(store: Store) -> None:
    """Caches read new rows by their numbers, and start over where rows were replaced."""
    (place,) = await store.append_turn(said("word"), scope=ANN)
    erase_epoch, epoch = await store.pin_erase_epoch(scope=ANN), await store.epoch(scope=ANN)
    items = [terms_of(place.number, "word")]
    await store.put_search_rows(items, erase_epoch=erase_epoch, scope=ANN)
    assert await store.epoch(scope=ANN) == epoch
    await store.put_search_rows(items, erase_epoch=erase_epoch, replace=True, scope=ANN)
    assert await store.epoch(scope=ANN) > epoch
    assert await store.pin_erase_epoch(scope=ANN) == erase_epoch


def _row(place: Placement, message: Message, *, is_indexed: bool = False) -> SearchRow:
    terms = terms_of(place.number, message.text)
    found = (terms.asks, terms.term_hashes, terms.term_counts, None)
    return SearchRow(
        place.number,
        ANN.app_id,
        ANN.project_id,
        "t",
        place.position,
        to_micros(message.created_at),
        None,
        message.role == "assistant",
        None,
        *(found if is_indexed else (None, None, None, message.text)),
    )


async def _numbers(store: Store, scope: Scope) -> list[int]:
    return [row.number for row in (await store.search_rows(scope=scope)).rows]
