"""The filters of `Memory.query`: every hit satisfies them, and those that do not take nobody's place."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.embedders import Words
from tests.support.recallers import show_recalled

from recollect import InvalidArgumentError, Memory, Message, Store
from recollect.memory.semantic_recall import SemanticRecallProcessor
from recollect.recall.filters import RecallFilter
from recollect.recall.results import Recall

pytestmark = pytest.mark.anyio

START = datetime(2026, 3, 2, 9, tzinfo=UTC)  # a Monday
HOUR, TICK = timedelta(hours=1), timedelta(microseconds=1)
NAIVE = datetime(2026, 3, 2)  # noqa: DTZ001 - wrong on purpose
EARLY = datetime.min.replace(tzinfo=timezone(14 * HOUR))

WRONG: dict[str, tuple[object, ...]] = {
    "role": ("tool", "system", "User", "", 1, ["user"]),
    "thread_ids": ("t", b"t", 5, {"t": 1}, [""], [None], ["t", 5], ["a\0b"]),
    "after": ("2026-03-02", 5, NAIVE, NAIVE.date(), EARLY),
    "before": ("2026-03-02", 5, NAIVE, NAIVE.date(), EARLY),
    "as_of": ("2026-03-02", 5, NAIVE, NAIVE.date(), EARLY),
    "metadata": (
        "k=v",
        5,
        [("k", 1)],
        {1: 1},
        {"k": []},
        {"k": {}},
        {"k": float("nan")},
        {"k": START},
        {"k": "\0"},
    ),
}
CASES = [(name, value) for name, values in WRONG.items() for value in values]


@pytest.fixture
def memory(store: Store) -> Memory:
    """Ada's memory on each engine in turn, searched by words alone."""
    return Memory(store, tenant_id=None, user_id="ada", embedder=None)


def ids(found: Recall) -> list[str]:
    """Return the ids of the hits."""
    return [message.id for message in found.messages]


async def say(memory: Memory, *messages: Message, thread_id: str = "t", **more: str) -> None:
    """Save messages in a thread."""
    await memory.save_messages(messages, thread_id=thread_id, **more)  # pyright: ignore[reportArgumentType] - ids


@pytest.mark.parametrize(("name", "value"), CASES)
async def test_wrong_filter_is_rejected_by_name(name: str, value: object) -> None:
    """The error names the filter, in the class and in a query."""
    with pytest.raises(InvalidArgumentError) as raised:
        RecallFilter(**{name: value})  # pyright: ignore[reportArgumentType] - a wrong use
    assert raised.value.argument.removeprefix("a key of ").startswith(name)
    async with Memory(embedder=None) as memory:
        with pytest.raises(InvalidArgumentError, match=name):
            await memory.query("cello", **{name: value})  # pyright: ignore[reportArgumentType] - a wrong use


def test_times_that_are_swapped_are_rejected() -> None:
    """The error has both times; a range of no length is valid and finds nothing."""
    with pytest.raises(InvalidArgumentError, match=r"after: is 2026-03-02T10.*before=2026-03-02T09.*swap"):
        RecallFilter(after=START + HOUR, before=START)
    assert RecallFilter(after=START, before=START).after == START


@pytest.mark.parametrize("embedder", [None, Words()], ids=["words", "hybrid"])
async def test_top_k_stays_full_when_hundreds_match_better(store: Store, embedder: Words | None) -> None:
    """What does not pass is left out before the best few hundred are taken."""
    async with Memory(store, user_id="ada", semantic_recall=True, embedder=embedder) as memory:
        noise = [
            Message("assistant", "cello", metadata={"k": 2}, created_at=START + HOUR) for _ in range(450)
        ]
        await say(memory, *noise, thread_id="noise")
        said = [
            Message("user", f"once upon a time a cello {n}", id=f"m{n}", metadata={"k": 1}, created_at=START)
            for n in range(5)
        ]
        await say(memory, *said, thread_id="said")
        await memory.settled()
        filters: list[dict[str, Any]] = [
            {"role": "user"},
            {"thread_ids": ["said"]},
            {"before": START + HOUR},
            {"metadata": {"k": 1}},
            {"as_of": START + HOUR},
        ]
        for narrowing in filters:
            found = await memory.query("cello", top_k=4, **narrowing)
            assert len(found) == 4, narrowing
            assert set(ids(found)) <= {message.id for message in said}
            assert found.searched == 5


async def test_side_is_chosen_by_role(memory: Memory) -> None:
    """Only what the user, or only what the assistant said."""
    await say(memory, Message("user", "a cello?", id="u"), Message("assistant", "the cello!", id="a"))
    assert ids(await memory.query("cello", role="user")) == ["u"]
    assert ids(await memory.query("cello", role="assistant")) == ["a"]
    assert len(await memory.query("cello")) == 2


async def test_threads_are_chosen_by_a_list(memory: Memory) -> None:
    """Any of them, within the app and the project; an empty list, and unknown threads, find nothing."""
    for thread in "abc":
        await say(memory, Message("user", f"cello {thread}", id=thread), thread_id=thread)
    await say(memory, Message("user", "cello", id="other"), thread_id="a", app_id="x")
    assert sorted(ids(await memory.query("cello", thread_ids=["a", "c", "?"]))) == ["a", "c"]
    assert sorted(ids(await memory.query("cello", thread_ids=("b", "b")))) == ["b"]
    assert ids(await memory.query("cello", thread_ids=["a"], app_id="x")) == ["other"]
    assert ids(await memory.query("cello", thread_ids=["a", "b"], within="thread", thread_id="b")) == ["b"]
    for nowhere in ([], ["?"]):
        assert len(await memory.query("cello", thread_ids=nowhere)) == 0
    assert len(await memory.query("cello", thread_ids=["a"], within="thread", thread_id="b")) == 0


async def test_time_range_includes_its_start_and_not_its_end(memory: Memory) -> None:
    """To the microsecond, in any time zone."""
    times = (START - TICK, START, START + HOUR - TICK, START + HOUR)
    await say(
        memory, *(Message("user", f"cello {n}", id=f"m{n}", created_at=time) for n, time in enumerate(times))
    )
    east = START.astimezone(timezone(3 * HOUR))
    found = await memory.query("cello", after=east, before=START + HOUR)
    assert sorted(ids(found)) == ["m1", "m2"]
    assert sorted(ids(await memory.query("cello", after=START))) == ["m1", "m2", "m3"]
    assert sorted(ids(await memory.query("cello", before=START))) == ["m0"]
    assert len(await memory.query("cello", after=START, before=START)) == 0


async def test_metadata_must_be_equal(memory: Memory) -> None:
    """By type and value; several values must all be there, and no value means any message."""
    values: dict[str, Any] = {"i": 1, "f": 1.0, "t": True, "s": "1", "n": None}
    await say(
        memory, *(Message("user", f"cello {name}", id=name, metadata={"k": v}) for name, v in values.items())
    )
    await say(
        memory, Message("user", "cello two", id="two", metadata={"k": 1, "l": "x"}), Message("user", "cello")
    )
    for name, value in values.items():
        expected = {name, "two"} if name == "i" else {name}
        assert set(ids(await memory.query("cello", metadata={"k": value}))) == expected
    assert ids(await memory.query("cello", metadata={"k": 1, "l": "x"})) == ["two"]
    assert len(await memory.query("cello", metadata={"nobody": "has it"})) == 0
    assert len(await memory.query("cello", metadata={}, top_k=20)) == 7


async def test_filters_hold_together(memory: Memory) -> None:
    """A hit satisfies all of them, and so does a near miss."""
    for n, thread in enumerate("ababab"):
        role = "user" if n % 3 else "assistant"
        said = Message(role, "cello", id=f"m{n}", created_at=START + n * HOUR, metadata={"even": n % 2 == 0})
        await say(memory, said, thread_id=thread)
    found = await memory.query(
        "cello",
        role="user",
        thread_ids=["a"],
        after=START + HOUR,
        metadata={"even": True},
        top_k=1,
        explain=True,
    )
    assert sorted([*ids(found), *(miss.message_id for miss in found.misses)]) == ["m2", "m4"]
    assert found.searched == 2


async def test_messages_around_a_hit_are_shown_as_context(memory: Memory, store: Store) -> None:
    """They need not pass the filters; Python, JSON and the prompt say which they are."""
    said = [
        Message("user", "Which one?", id="m0", created_at=START),
        Message("assistant", "The cello.", id="m1", created_at=START),
        Message("user", "Good.", id="m2", created_at=START, metadata={"name": "Ann"}),
    ]
    await say(memory, *said, thread_id="default")
    found = await memory.query("cello", role="assistant")
    (hit,) = found
    assert ([m.id for m in hit.before], hit.message.id, [m.id for m in hit.after]) == (["m0"], "m1", ["m2"])
    shown = json.loads(json.dumps(found.to_dict()))["hits"][0]
    time = START.isoformat()
    assert shown["before"] == [
        {"id": "m0", "role": "user", "created_at": time, "is_context": True, "text": "Which one?"}
    ]
    assert (shown["id"], [one["text"] for one in shown["after"]]) == ("m1", ["Good."])
    assert "Good" not in json.dumps(found.to_dict(with_text=False))
    text = await show_recalled(SemanticRecallProcessor(store, embedder=None, top_k=1), "the cello")
    assert text.splitlines()[4:7] == [
        "  09:00 user, context: Which one?",
        "  09:00 assistant: The cello.",
        "  09:00 Ann (user, context): Good.",
    ]


async def test_later_messages_are_neither_hits_nor_neighbours_as_of_a_time(memory: Memory) -> None:
    """What was said from that time on is not there yet; what was deleted since does not come back."""
    texts = ("cello one", "cello two", "cello three", "cello four")
    said = [Message("user", text, id=f"m{n}", created_at=START + n * HOUR) for n, text in enumerate(texts)]
    await say(memory, *said)
    found = await memory.query("cello two", as_of=START + 2 * HOUR)
    assert sorted(ids(found)) == ["m0", "m1"]
    assert {m.id for hit in found for m in (*hit.before, *hit.after)} <= {"m0", "m1"}
    assert len(await memory.query("cello", as_of=START + 2 * HOUR + TICK)) == 3
    assert len(await memory.query("cello", as_of=START)) == 0
    await memory.delete_messages(["m0"], thread_id="t")
    assert ids(await memory.query("cello", as_of=START + 2 * HOUR)) == ["m1"]


async def test_relative_times_count_from_the_time_of_the_search(memory: Memory) -> None:
    """The words "last week" mean the week before `as_of`, and not the one before today."""
    days = [
        Message("user", f"cello {n}", id=f"m{n}", created_at=START - n * timedelta(days=7)) for n in range(4)
    ]
    await say(memory, *days[::-1])
    for week in range(3):
        as_of = START - week * timedelta(days=7) + timedelta(days=1)
        found = await memory.query("cello last week", as_of=as_of, top_k=1, threshold=0)
        assert ids(found) == [f"m{week + 1}"]


SPEAKERS = (None, "Ann", "Bob", "Late")
VOCABULARY = ("cello", "dog", "thunder", "train", "Ann", "kitchen", "yesterday", "I", "why?")
QUESTIONS = (
    "cello",
    "What did Ann say of the dog?",
    "Was Late on the train?",
    "thunder in the kitchen",
    "why",
)


def conversation() -> list[tuple[str, Message]]:
    """Return messages with their threads, by time; later ones have long answers and one more speaker."""
    found: list[tuple[str, Message]] = []
    for n in range(90):
        role = "assistant" if n % 2 else "user"
        words = [VOCABULARY[(n * step + n // 7) % len(VOCABULARY)] for step in range(1, 5)]
        text = " ".join(words * (6 if n > 40 and n % 2 else 1))
        speaker = SPEAKERS[n % 4] if n > 60 else SPEAKERS[n % 3]
        metadata = None if speaker is None or role == "assistant" else {"name": speaker}
        message = Message(role, text, id=f"m{n}", created_at=START + n * HOUR, metadata=metadata)
        found.append((f"thread {n // 10 % 5}", message))
    return found


@pytest.mark.parametrize("embedder", [None, Words()], ids=["words", "hybrid"])
@pytest.mark.parametrize("there", [1, 30, 70])
async def test_search_as_of_a_time_finds_what_was_found_then(
    store: Store, embedder: Words | None, there: int
) -> None:
    """Hits, scores and neighbours are those of a memory in which nothing was said since."""
    said = conversation()
    async with Memory(store, user_id="ada", semantic_recall=True, embedder=embedder) as memory:
        for user, messages in (("ada", said), ("then", said[:there])):
            for thread, message in messages:
                await memory.save_messages([message], thread_id=thread, user_id=user)
        await memory.settled()
        for question in QUESTIONS:
            options: dict[str, Any] = {"top_k": 200, "max_tokens": 100_000, "explain": True, "threshold": 0}
            now = await memory.query(question, as_of=START + there * HOUR, **options)
            then = await memory.query(question, as_of=START + there * HOUR, user_id="then", **options)
            assert now.searched == then.searched == there
            assert [_summarize(now)] == [_summarize(then)]


def _summarize(found: Recall) -> list[tuple[object, ...]]:
    return [
        (
            hit.message.id,
            round(hit.score, 3),
            round(hit.relevance, 3),
            [m.id for m in hit.before],
            [m.id for m in hit.after],
            hit.why and hit.why.matched_terms,
        )
        for hit in found
    ]


class Said(NamedTuple):
    """A message to save, and its thread."""

    thread: str
    message: Message


VALUES = (None, True, 1, 1.0, "1", "x")
USERS = count()


@st.composite
def conversations(draw: st.DrawFn) -> list[Said]:
    """Messages that all have the word; the other words, sides, threads, times and values differ."""
    words = st.lists(st.sampled_from(VOCABULARY), max_size=3)
    said: list[Said] = []
    for n in range(draw(st.integers(0, 14))):
        message = Message(
            draw(st.sampled_from(("user", "assistant"))),
            " ".join(["cello", *draw(words), f"number{n}"]),
            id=f"m{n}",
            created_at=START + draw(st.integers(0, 5)) * HOUR,
            metadata=draw(st.none() | st.fixed_dictionaries({"k": st.sampled_from(VALUES)})),
        )
        said.append(Said(draw(st.sampled_from("tuv")), message))
    return said


times = st.none() | st.integers(0, 6).map(lambda hours: START + hours * HOUR)


@st.composite
def filters(draw: st.DrawFn) -> dict[str, Any]:
    """Any filters."""
    after, before = draw(times), draw(times)
    if after is not None and before is not None and after > before:
        after, before = before, after
    return {
        "role": draw(st.sampled_from((None, "user", "assistant"))),
        "thread_ids": draw(st.none() | st.lists(st.sampled_from("tuvw"))),
        "after": after,
        "before": before,
        "metadata": draw(st.none() | st.dictionaries(st.just("k"), st.sampled_from(VALUES))),
        "as_of": draw(times),
    }


def passes(said: Said, narrowing: dict[str, Any]) -> bool:
    """Whether a message satisfies the filters, told in plain Python."""
    message = said.message
    wanted: dict[str, object] = narrowing["metadata"] or {}
    time = message.created_at
    return (
        narrowing["role"] in (None, message.role)
        and (narrowing["thread_ids"] is None or said.thread in narrowing["thread_ids"])
        and (narrowing["after"] is None or time >= narrowing["after"])
        and (narrowing["before"] is None or time < narrowing["before"])
        and (narrowing["as_of"] is None or time < narrowing["as_of"])
        and all(
            key in message.metadata and repr(message.metadata[key]) == repr(v) for key, v in wanted.items()
        )
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conversations(), filters(), st.integers(1, 5))
async def test_hits_are_the_best_of_those_that_pass(
    memory: Memory, said: Sequence[Said], narrowing: dict[str, Any], top_k: int
) -> None:
    """Whatever the filters: all hits pass, the best come first, and `top_k` is full if enough pass."""
    user = f"user {next(USERS)}"
    for thread, message in said:
        await memory.save_messages([message], thread_id=thread, user_id=user)
    expected = {one.message.id for one in said if passes(one, narrowing)}
    all_of_them = await memory.query("cello", top_k=200, max_tokens=100_000, user_id=user, **narrowing)
    assert set(ids(all_of_them)) == expected
    scores = [hit.score for hit in all_of_them]
    assert scores == sorted(scores, reverse=True)
    best = await memory.query("cello", top_k=top_k, max_tokens=100_000, user_id=user, **narrowing)
    assert ids(best) == ids(all_of_them)[:top_k]
    assert len(best) == min(top_k, len(expected))
    assert best.searched == len(expected)
