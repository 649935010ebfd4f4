"""What a store promises about search rows: one for each message of the conversation, as long as it exists."""

import pytest
from tests.storage.contract.samples import (
    ANN,
    ELSEWHERE,
    OTHERS,
    call,
    exported,
    result,
    said,
    whole_thread,
)

from recollect.messages import FilePart, Message, ReasoningPart, TextPart
from recollect.scope import Scope
from recollect.storage.records import Placement, SearchRow
from recollect.storage.rows import to_micros
from recollect.storage.store import Store
from recollect.text.terms import analyse

pytestmark = pytest.mark.anyio


async def test_row_holds_the_terms_of_the_text(store: Store) -> None:
    """A row has the message's integer id and what the analyser makes of its text."""
    texts = ["The cats sat; the cat sits.", "日本語のテキスト\uff1f", "naïve café?", "...", "a " * 300]
    turn = [Message("user", text) for text in texts]
    places = await store.append_turn(turn, scope=ANN)
    expected = [_row(place, message) for place, message in zip(places, turn, strict=True)]
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


async def test_rows_span_threads_apps_and_projects(store: Store) -> None:
    """All of a user is searched at once, in the order of the integer ids."""
    places = (ELSEWHERE[2], ANN, ELSEWHERE[0], ANN.with_thread("u"), ELSEWHERE[1])
    numbers = [
        (await store.append_turn(said(f"word {index}"), scope=place))[0].number
        for index, place in enumerate(places)
    ]
    rows = (await store.search_rows(scope=ANN)).rows
    assert [row.number for row in rows] == numbers
    assert [(row.app_id, row.project_id, row.thread_id) for row in rows] == [
        (place.app_id, place.project_id, place.thread_id) for place in places
    ]


async def test_rows_are_read_from_a_number_on(store: Store) -> None:
    """`after` gives exactly what is new to a cache, `limit` the newest of it."""
    places = await store.append_turn(said("a", "b", "c", "d"), scope=ANN)
    numbers = [place.number for place in places]
    for index, number in enumerate(numbers):
        for limit in (None, 0, 1, 2, 9):
            rows = (await store.search_rows(after=number, limit=limit, scope=ANN)).rows
            later = numbers[index + 1 :]
            assert [row.number for row in rows] == later[0 if limit is None else max(len(later) - limit, 0) :]


async def test_row_names_the_speaker_when_the_metadata_do(store: Store) -> None:
    """A name counts where it is text; anything else is nobody's name."""
    kinds: list[object] = ["Ann", "Zoë \U0001f600", "", 5, None, ["Ann"], {"first": "Ann"}, True]
    turn = [Message("user", "hi", metadata={"name": name}) for name in kinds]
    await store.append_turn(
        [*turn, Message("user", "hi"), Message("user", "hi", metadata={"x": 1})], scope=ANN
    )
    rows = (await store.search_rows(scope=ANN)).rows
    assert [row.speaker for row in rows] == ["Ann", "Zoë \U0001f600", "", *[None] * 7]


async def test_message_sent_again_has_one_row(store: Store) -> None:
    """A row is written once, with the message."""
    await store.append_turn(said("a"), scope=ANN)
    await store.append_turn(said("a"), scope=ANN)
    assert len((await store.search_rows(scope=ANN)).rows) == 1


@pytest.mark.parametrize("way", ["message", "number", "thread", "history", "user"])
async def test_rows_go_with_their_messages(store: Store, way: str) -> None:
    """Whatever removes a message removes its row, and no other row."""
    places = await store.append_turn(said("gone"), scope=ANN)
    await store.append_turn(said("stays"), scope=ANN.with_thread("u"))
    await store.append_turn(said("theirs"), scope=OTHERS[0])
    match way:
        case "message":
            await store.delete_messages(["gone"], scope=ANN)
        case "number":
            await store.delete_message_number(places[0].number, tenant_id=1)
        case "thread":
            await store.delete_thread(scope=ANN)
        case "history":
            await store.clear_history(scope=ANN)
        case _:
            await store.erase(scope=ANN)
    left = ["stays"] if way in ("message", "number", "thread") else []
    assert await _terms(store, ANN) == [analyse(text).hashes for text in left]
    assert await _terms(store, OTHERS[0]) == [analyse("theirs").hashes]


async def test_rows_of_a_whole_unit_go_with_it(store: Store) -> None:
    """What is deleted together with a tool call is not found any more."""
    spoken = Message("assistant", [TextPart("looking"), *call("x", "c").parts], id="call")
    await store.append_turn([*said("before"), spoken, result("result", "c")], scope=ANN)
    await store.delete_messages(["result"], scope=ANN)
    assert await _terms(store, ANN) == [analyse("before").hashes]


async def test_rows_are_the_users_own(store: Store) -> None:
    """Another user, or the same name in another tenant, is searched apart."""
    for other in OTHERS:
        await store.append_turn(said("mine"), scope=ANN)
        assert (await store.search_rows(scope=other)).rows == []
        await store.append_turn(said("theirs"), scope=other)
        assert await _terms(store, ANN) == [analyse("mine").hashes]


async def test_rows_are_built_again_by_an_import(store: Store) -> None:
    """An imported user is searched like the one that was exported."""
    turn = [*said("one", "two"), call("c", "x"), result("r", "x")]
    await store.append_turn(turn, scope=ANN)
    await store.import_(await exported(store), scope=OTHERS[1])
    assert await _terms(store, OTHERS[1]) == await _terms(store, ANN)
    numbers = [m.number for m in await whole_thread(store, OTHERS[1]) if m.is_conversation]
    assert [row.number for row in (await store.search_rows(scope=OTHERS[1])).rows] == numbers


def _row(place: Placement, message: Message) -> SearchRow:
    terms = analyse(message.text)
    return SearchRow(
        number=place.number,
        app_id=ANN.app_id,
        project_id=ANN.project_id,
        thread_id="t",
        position=place.position,
        created_at=to_micros(message.created_at),
        speaker=None,
        asks=any(mark in message.text for mark in "?\uff1f\u061f"),
        term_hashes=terms.hashes,
        term_counts=terms.counts,
    )


async def _terms(store: Store, scope: Scope) -> list[bytes]:
    return [row.term_hashes for row in (await store.search_rows(scope=scope)).rows]
