"""What a store promises about writing turns: whole or not at all, once, and in order."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.storage.contract.samples import (
    ANN,
    ELSEWHERE,
    OTHERS,
    UNICODE,
    exported,
    ids_of,
    said,
    whole_thread,
)

from recollect.errors import ConflictError, InvalidArgumentError
from recollect.messages import FilePart, Message, Origin, ReasoningPart, Role, TextPart, ToolCall, ToolResult
from recollect.scope import Scope
from recollect.storage.records import Placement
from recollect.storage.store import Store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

ZONE = timezone(timedelta(hours=-9, minutes=-30))
ZERO = datetime(2024, 1, 1, tzinfo=UTC)


async def test_message_comes_back_equal_when_it_was_appended(store: Store) -> None:
    """A stored message equals the given one and knows where it stands."""
    message = Message("user", "hello", id="m", metadata={"mood": "fine"})
    (place,) = await store.append_turn([message], scope=ANN, run_id="run")
    (stored,) = await whole_thread(store)
    assert stored == message
    assert (stored.thread_id, stored.run_id) == ("t", "run")
    assert (stored.position, stored.number, True) == place


async def test_run_id_is_none_when_none_was_given(store: Store) -> None:
    """A turn outside a run leaves its messages without a run."""
    await store.append_turn(said("a"), scope=ANN)
    assert [message.run_id for message in await whole_thread(store)] == [None]


async def test_every_kind_of_part_comes_back_equal(store: Store) -> None:
    """Parts survive storage with all their fields."""
    parts = [
        TextPart(UNICODE),
        ToolCall("c", "look up", {"deep": [{"x": [1, 2.5, None, True, UNICODE]}], "": {}}),
        ToolResult("c", "look up", [None, {"n": 10**30}], is_error=True),
        ToolResult("d", "nothing"),
        ReasoningPart("hm", signature="proof"),
        ReasoningPart(""),
        FilePart("image/png", data="aGk=", name="ü.png"),
        FilePart("text/plain", url="https://example.org/?q=1"),
    ]
    message = Message("assistant", parts, id="m")
    await store.append_turn([message], scope=ANN)
    assert await whole_thread(store) == [message]
    assert (await whole_thread(store))[0].parts == tuple(parts)


async def test_text_comes_back_unchanged(store: Store) -> None:
    """No character of a text is lost or changed, whoever said it and wherever it came from."""
    texts = ["", " ", UNICODE, "x" * 300_000, "\n"]
    roles: list[Role] = ["user", "assistant", "tool", "system"]
    origins: list[Origin] = ["memory", "input", "system", "response"]
    turn = [
        Message(role, text, origin=origin)
        for role, origin in zip(roles, origins, strict=True)
        for text in texts
    ]
    await store.append_turn(turn, scope=ANN)
    assert [message.text for message in await whole_thread(store)] == texts * 4
    assert await whole_thread(store) == turn


async def test_metadata_comes_back_with_numbers_and_order_kept(store: Store) -> None:
    """Metadata is JSON that nothing rounds, sorts or folds."""
    metadata: dict[str, object] = {
        "z": 0.1,
        "a": 10**30,
        "": [-0.0, 1e-300, 2.0],
        UNICODE: {UNICODE: None},
    }
    await store.append_turn([Message("user", "x", metadata=metadata)], scope=ANN)
    (stored,) = await whole_thread(store)
    assert repr(dict(stored.metadata)) == repr(metadata)


async def test_time_comes_back_to_the_microsecond(store: Store) -> None:
    """The time of a message is the same moment after storage, told in UTC."""
    times = [
        datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1961, 4, 12, 6, 7, 0, 1, tzinfo=ZONE),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ]
    await store.append_turn([Message("user", "x", created_at=time) for time in times], scope=ANN)
    stored = [message.created_at for message in await whole_thread(store)]
    assert stored == times
    assert [time.utcoffset() for time in stored] == [timedelta(0)] * len(times)


async def test_longest_ids_are_kept_when_they_do_not_compress(store: Store) -> None:
    """Ids of 512 bytes work in all places at once."""
    longest = [bytes((seed * 31 + n * n) % 94 + 33 for n in range(512)).decode() for seed in range(6)]
    user, thread, app, project, message, run = longest
    scope = Scope(2**63 - 1, user, thread, app, project)
    await store.append_turn([Message("user", "x", id=message)], scope=scope, run_id=run)
    (stored,) = await store.messages_by_id([message], scope=scope)
    assert (stored.id, stored.run_id, stored.thread_id) == (message, run, thread)


async def test_ids_are_told_apart_by_every_character(store: Store) -> None:
    """Ids differ by case, by accents, by composition and by blanks."""
    names = [
        "a",
        "A",
        "ä",
        "a\u0308",
        " a",
        "a ",
        "\U0001f600",
        "\U0001f601",
        "%",
        "_",
        "null",
        "1",
        "01",
    ]
    await store.append_turn([Message("user", "x", id=name) for name in names], scope=ANN)
    for name in names:
        assert ids_of(await store.messages_by_id([name], scope=ANN)) == [name]


async def test_positions_count_up_from_one(store: Store) -> None:
    """Each thread has positions of its own, without gaps."""
    first = await store.append_turn(said("a", "b"), scope=ANN)
    second = await store.append_turn(said("c"), scope=ANN)
    other = await store.append_turn(said("d"), scope=ANN.with_thread("u"))
    assert [place.position for place in first + second + other] == [1, 2, 3, 1]


async def test_integer_ids_grow_over_all_threads_and_users(store: Store) -> None:
    """A later message has a higher integer id, wherever it stands."""
    numbers: list[int] = []
    for scope in (ANN, ANN.with_thread("u"), *OTHERS, *ELSEWHERE, ANN):
        turn = said(f"a{len(numbers)}", f"b{len(numbers)}")
        numbers += [place.number for place in await store.append_turn(turn, scope=scope)]
    assert numbers == sorted(set(numbers))


async def test_position_is_not_used_again_after_a_deletion(store: Store) -> None:
    """A new message takes neither the position nor the integer id of a deleted one."""
    gone = (await store.append_turn(said("a", "b"), scope=ANN))[-1]
    await store.delete_messages(["b"], scope=ANN)
    (new,) = await store.append_turn(said("c"), scope=ANN)
    assert new.position == 3
    assert new.number > gone.number


async def test_nothing_is_written_when_a_whole_turn_is_sent_again(store: Store, clock: ScriptedClock) -> None:
    """Sending a turn again returns its places and changes nothing, not even a time."""
    places = await store.append_turn(said("a", "b"), scope=ANN)
    before = await exported(store)
    clock.tick()
    assert await store.append_turn(said("a", "b"), scope=ANN) == known(places)
    assert await exported(store) == before


async def test_first_version_stays_when_a_message_is_sent_again_changed(store: Store) -> None:
    """An id that is there already is not written again, whatever comes with it."""
    await store.append_turn([Message("user", "first", id="m")], scope=ANN, run_id="one")
    await store.append_turn([Message("assistant", "second", id="m")], scope=ANN, run_id="two")
    (stored,) = await whole_thread(store)
    assert (stored.role, stored.text, stored.run_id) == ("user", "first", "one")


async def test_only_what_is_new_is_written_when_a_turn_overlaps(store: Store) -> None:
    """New messages go to the end of the thread; places come back in the order of the turn."""
    (old,) = await store.append_turn(said("b"), scope=ANN)
    places = await store.append_turn(said("a", "b", "c"), scope=ANN)
    assert ids_of(await whole_thread(store)) == ["b", "a", "c"]
    assert [place.position for place in places] == [2, 1, 3]
    assert [place.is_new for place in places] == [True, False, True]
    assert places[1].number == old.number


async def test_conflict_is_raised_when_another_thread_has_the_id(store: Store) -> None:
    """An id of another thread of the user is refused, and none of the turn is written."""
    await store.append_turn(said("a"), scope=ANN)
    before = await exported(store)
    with pytest.raises(ConflictError, match="'a'"):
        await store.append_turn(said("new", "a"), scope=ANN.with_thread("u"))
    assert await exported(store) == before
    assert await store.get_thread(scope=ANN.with_thread("u")) is None


async def test_conflict_leaves_the_store_usable(store: Store) -> None:
    """After a refused turn the next one is written as if nothing had been."""
    await store.append_turn(said("a"), scope=ANN)
    with pytest.raises(ConflictError):
        await store.append_turn(said("a"), scope=ANN.with_thread("u"))
    (place,) = await store.append_turn(said("b"), scope=ANN)
    assert place.position == 2


async def test_same_id_is_another_message_elsewhere(store: Store) -> None:
    """Another user, tenant, app or project may use the same ids."""
    await store.append_turn([Message("user", "mine", id="m")], scope=ANN)
    for other in (*OTHERS, *ELSEWHERE):
        await store.append_turn([Message("user", "theirs", id="m")], scope=other)
        assert [message.text for message in await whole_thread(store)] == ["mine"]
        assert [message.text for message in await whole_thread(store, other)] == ["theirs"]


async def test_turn_is_refused_when_an_id_is_in_it_twice(store: Store) -> None:
    """Two messages of one turn cannot share an id; nothing is written."""
    with pytest.raises(InvalidArgumentError, match="same id") as raised:
        await store.append_turn(said("a", "b", "a"), scope=ANN)
    assert raised.value.argument == "messages"
    assert await store.get_thread(scope=ANN) is None


async def test_any_iterable_can_be_a_turn(store: Store) -> None:
    """A generator of messages is a turn like a list of them."""
    await store.append_turn((message for message in said("a", "b")), scope=ANN)
    assert ids_of(await whole_thread(store)) == ["a", "b"]


async def test_turns_stay_together_when_written_at_once(store: Store) -> None:
    """Concurrent turns of one thread never mix, and each gets the places it stands at."""
    turns = [said(f"{n}a", f"{n}b", f"{n}c") for n in range(20)]
    places = await asyncio.gather(*(store.append_turn(turn, scope=ANN) for turn in turns))
    stored = {(m.position, m.number): m.id for m in await whole_thread(store)}
    assert [position for position, _ in stored] == list(range(1, 61))
    for turn, spots in zip(turns, places, strict=True):
        assert [stored[spot[:2]] for spot in spots] == ids_of(turn)
        assert [spot.position - spots[0].position for spot in spots] == [0, 1, 2]


async def test_message_is_written_once_when_sent_many_times_at_once(store: Store) -> None:
    """Concurrent copies of one turn all get the same places, and one of them wrote it."""
    places = await asyncio.gather(*(store.append_turn(said("a", "b"), scope=ANN) for _ in range(50)))
    assert [known(one) for one in places] == [known(places[0])] * 50
    assert [[place.is_new for place in one] for one in places].count([True, True]) == 1
    assert [[place.is_new for place in one] for one in places].count([False, False]) == 49
    assert ids_of(await whole_thread(store)) == ["a", "b"]


async def test_one_refused_turn_does_not_harm_others_written_at_once(store: Store) -> None:
    """Of concurrent turns only the one in conflict fails."""
    await store.append_turn(said("taken"), scope=ANN.with_thread("u"))
    turns = [said("a"), said("taken"), said("b")]
    outcomes = await asyncio.gather(
        *(store.append_turn(turn, scope=ANN) for turn in turns), return_exceptions=True
    )
    assert isinstance(outcomes[1], ConflictError)
    assert sorted(ids_of(await whole_thread(store))) == ["a", "b"]


async def test_turn_of_a_run_is_written_once_when_it_is_sent_again(store: Store) -> None:
    """The same turn of the same run changes nothing and returns the same places."""
    turn = run_of("r", "hi", "hello")
    places = await store.append_turn(turn, scope=ANN, run_id="r")
    before = await exported(store)
    assert await store.append_turn(turn, scope=ANN, run_id="r") == known(places)
    assert await exported(store) == before


async def test_conflict_is_raised_when_a_run_is_stored_with_another_turn(store: Store) -> None:
    """Other words, more messages or fewer, or another thread: nothing of it is written."""
    await store.append_turn(run_of("r", "hi", "hello"), scope=ANN, run_id="r")
    before = await exported(store)
    others = [
        (run_of("r", "hi", "good day"), ANN),
        (run_of("r", "hi", "hello", "and more"), ANN),
        (run_of("r", "hi"), ANN),
        (run_of("r", "hi", "hello", "and more")[2:], ANN.with_thread("u")),
    ]
    for turn, scope in others:
        with pytest.raises(ConflictError, match="'r'"):
            await store.append_turn(turn, scope=scope, run_id="r")
    assert await exported(store) == before


async def test_one_run_is_stored_when_two_of_one_id_are_written_at_once(store: Store) -> None:
    """Of many answers to one run one is kept, whole, and the others are told."""
    turns = [run_of("r", "hi", f"answer {n}", *["more"] * n) for n in range(10)]
    outcomes = await asyncio.gather(
        *(store.append_turn(turn, scope=ANN, run_id="r") for turn in turns), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes].count(ConflictError) == 9
    kept = next(n for n, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException))
    assert await whole_thread(store) == turns[kept]


async def test_runs_are_told_apart_when_one_id_begins_with_the_other(store: Store) -> None:
    """The ids of a run may look like those of another."""
    await store.append_turn(run_of("job:1", "hi", "one"), scope=ANN, run_id="job:1")
    await store.append_turn(run_of("job", "hi", "two"), scope=ANN, run_id="job")
    assert [message.text for message in await whole_thread(store)] == ["hi", "one", "hi", "two"]


def known(places: list[Placement]) -> list[Placement]:
    """Return places as those of messages that are stored already."""
    return [place._replace(is_new=False) for place in places]


def run_of(run_id: str, *said: str) -> list[Message]:
    """Return the turn of a run: the prompt, and what was said to it, with ids that follow from the run's."""
    prompt = Message("user", said[0], id=f"{run_id}:prompt.0000", created_at=ZERO)
    answers = [
        Message("assistant", text, id=f"{run_id}:{step:04d}", created_at=ZERO)
        for step, text in enumerate(said[1:])
    ]
    return [prompt, *answers]
