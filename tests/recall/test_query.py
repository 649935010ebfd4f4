"""`Memory.query`: which arguments are valid, how much it returns, and why."""

import json
import math

import pytest
from tests.support.embedders import Words

from recollect import InvalidArgumentError, Memory, Message, Store
from recollect.recall.results import Recall
from recollect.recall.settings import RecallSettings, parse_recall_settings

pytestmark = pytest.mark.anyio

NAN = float("nan")
WRONG: dict[str, tuple[object, ...]] = {
    "top_k": (0, -1, 201, 1.5, "4", None, True, NAN),
    "threshold": (-0.1, 1.1, NAN, float("inf"), "0.5", True, False, [0.5]),
    "scope": ("user", "", None, 1, ["thread"]),
    "message_range": (
        -1,
        21,
        1.5,
        None,
        True,
        "1",
        {"before": -1},
        {"after": 21},
        {"around": 1},
        {"before": None},
    ),
    "max_tokens": (0, 49, -5, None, 10.5, True),
}
CASES = [(name, value) for name, values in WRONG.items() for value in values]


@pytest.fixture
def memory(store: Store) -> Memory:
    """Ada's memory on each engine in turn, searched by words alone."""
    return Memory(store, tenant_id=None, resource_id="ada", embedder=None)


async def fill(memory: Memory, *texts: str, thread_id: str = "default") -> None:
    """Save messages with ids m0, m1 and so on, in a thread."""
    await memory.save_messages(
        [Message("user", text, id=f"{thread_id}{n}") for n, text in enumerate(texts)], thread_id=thread_id
    )


def ids(found: Recall) -> list[str]:
    """Return the ids of the hits."""
    return [message.id for message in found.messages]


@pytest.mark.parametrize(("name", "value"), CASES)
async def test_invalid_options_are_rejected(name: str, value: object) -> None:
    """The error names the option: in a query, in a memory's settings and in the class."""
    for make in (
        lambda: Memory(semantic_recall={name: value}),
        lambda: parse_recall_settings({name: value}),
        lambda: RecallSettings(**{name: value}),  # pyright: ignore[reportArgumentType] - a wrong use
    ):
        with pytest.raises(InvalidArgumentError, match=name):
            make()
    async with Memory(embedder=None) as memory:
        with pytest.raises(InvalidArgumentError, match=name):
            await memory.query("cello", **{name: value})  # pyright: ignore[reportArgumentType] - a wrong use


@pytest.mark.parametrize("value", ["yes", 1, 0, [], {"topk": 3}, {1: 2}, object(), 0.5])
def test_semantic_recall_is_rejected_when_it_is_invalid(value: object) -> None:
    """A value that is neither a bool nor options raises an error at once."""
    with pytest.raises(InvalidArgumentError, match="semantic_recall"):
        Memory(semantic_recall=value)  # pyright: ignore[reportArgumentType] - a wrong use


def test_settings_are_taken_in_every_form() -> None:
    """True, False, a dict and settings are all accepted."""
    values: tuple[object, ...] = (None, False, True)
    assert [parse_recall_settings(value) for value in values] == [None, None, RecallSettings()]
    settings = parse_recall_settings({"top_k": 200, "threshold": 1, "message_range": {"before": 2}})
    assert settings is not None
    assert (settings.before, settings.after) == (2, 0)
    assert parse_recall_settings(settings) is settings


@pytest.mark.parametrize("question", ["", " \n\t ", "?!", "\u200b", "\U0001f600"])
async def test_nothing_is_found_when_the_question_is_empty(memory: Memory, question: str) -> None:
    """A question without a word is no error."""
    await fill(memory, "The cello.")
    found = await memory.query(question, explain=True)
    assert (len(found), found.notes, found.misses) == (0, (), ())


@pytest.mark.parametrize("question", ["a\0b", "\ud800", None, 5, b"cello"])
async def test_question_is_rejected_when_it_is_no_text(memory: Memory, question: object) -> None:
    """NUL, lone surrogates and other types are errors that name the argument."""
    with pytest.raises(InvalidArgumentError, match="question"):
        await memory.query(question)  # pyright: ignore[reportArgumentType] - a wrong use


async def test_question_of_a_megabyte_is_truncated_with_a_note(memory: Memory) -> None:
    """Only its beginning is searched for, and the result says so."""
    await fill(memory, "The cello.", "The last word.")
    found = await memory.query("cello " + "filler " * 150_000 + "last", message_range=0, top_k=1)
    assert ids(found) == ["default0"]
    assert found.notes == ("only the first 4,000 characters of the question were searched for",)


async def test_neighbours_come_with_a_hit_as_far_as_asked_for(memory: Memory) -> None:
    """`message_range` is one number for both sides, or one for each; threads have ends."""
    await fill(memory, *(f"number{n}" for n in range(9)))
    await fill(memory, "elsewhere", thread_id="other")

    async def around(message_range: object, text: str = "number4") -> tuple[list[str], list[str]]:
        found = await memory.query(text, top_k=1, message_range=message_range)  # pyright: ignore[reportArgumentType] - both forms
        return [m.text for m in found[0].before], [m.text for m in found[0].after]

    assert await around(0) == ([], [])
    assert await around(1) == (["number3"], ["number5"])
    assert await around({"before": 2}) == (["number2", "number3"], [])
    assert await around({"before": 1, "after": 3}) == (["number3"], ["number5", "number6", "number7"])
    assert await around(20, "number0") == ([], [f"number{n}" for n in range(1, 9)])
    assert await around(5, "number8") == ([f"number{n}" for n in range(3, 8)], [])


async def test_thread_app_and_project_bound_a_search(memory: Memory) -> None:
    """The scope `thread` keeps to one thread; apps and projects never see each other."""
    await fill(memory, "The cello.", thread_id="a")
    await fill(memory, "A cello for the orchestra.", thread_id="b")
    await memory.add_message("user", "The cello.", thread_id="a", app_id="x")
    await memory.add_message("user", "The cello.", thread_id="a", project_id="y")
    assert ids(await memory.query("cello", within="thread", thread_id="a")) == ["a0"]
    assert sorted(ids(await memory.query("cello", thread_id="a"))) == ["a0", "b0"]
    assert len(await memory.query("cello", thread_id="a", app_id="x")) == 1
    assert len(await memory.query("cello", app_id="x", project_id="y")) == 0
    assert (await memory.query("cello", within="thread", thread_id="a")).searched == 1
    assert len(await memory.query("cello", resource_id="bob")) == 0


async def test_budget_bounds_what_is_shown(memory: Memory) -> None:
    """Hits come first, then neighbours; a hit that does not fit is among the misses."""
    long = [f"cello {name} " + "word " * 230 for name in ("Ann", "Bob", "Cleo")]
    await fill(memory, long[0], "cello short", long[1], "unrelated", long[2])
    found = await memory.query("cello", top_k=3, max_tokens=400, explain=True)
    shown = {m.id: len(m.text) for hit in found for m in (hit.message, *hit.before, *hit.after)}
    assert 0 < sum(shown.values()) <= 400 * 4
    assert "the token budget is used up" in {miss.reason for miss in found.misses}
    none = await memory.query("word", max_tokens=50, explain=True)
    assert [hit.text for hit in none if len(hit.text) > 200] == []


async def test_threshold_leaves_out_what_is_less_relevant(memory: Memory) -> None:
    """Every hit has at least that relevance; the misses say so."""
    await fill(memory, "cello violin", "cello", "nothing of it")
    found = await memory.query("cello violin", threshold=0.9, explain=True)
    assert ids(found) == ["default0"]
    assert found[0].relevance == pytest.approx(1.0)
    assert {miss.reason for miss in found.misses} == {"less relevant than 0.9"}


async def test_hits_are_explained_when_asked_for(store: Store) -> None:
    """Parts sum to the score, ranks count from one, misses are named, and all of it is JSON."""
    async with Memory(
        store, tenant_id=None, resource_id="ada", semantic_recall=True, embedder=Words()
    ) as memory:
        await fill(memory, *(f"The cello number{n}." for n in range(20)))
        await memory.settled()
        found = await memory.query("cello number7", top_k=3, explain=True)
        plain = await memory.query("cello number7", top_k=3)
    assert ids(found) == ids(plain)
    assert found[0].message.id == "default7"
    assert all(hit.why is None for hit in plain)
    assert plain.misses == ()
    for hit in found:
        assert hit.why is not None
        assert math.isclose(sum(hit.why.parts.values()), hit.score, abs_tol=0.002)
    first = found[0].why
    assert first is not None
    assert (first.text_rank, first.vector_rank) == (1, 1)
    assert first.matched_terms == ("cello", "number7")
    assert [miss.reason for miss in found.misses] == ["ranked below the first 3"] * 5
    assert not set(ids(found)) & {miss.message_id for miss in found.misses}
    assert set(found.timings) == {"index_ms", "embed_ms", "rank_ms", "read_ms"}
    values = json.loads(json.dumps(found.to_dict()))
    assert values["hits"][0]["text"] == "The cello number7."
    assert values["hits"][0]["why"]["matched_terms"] == ["cello", "number7"]
    assert "cello" not in json.dumps(found.to_dict(with_text=False))


async def test_result_is_a_sequence_of_hits(memory: Memory) -> None:
    """It has a length, and can be indexed, sliced and iterated."""
    await fill(memory, "cello one", "cello two")
    found = await memory.query("cello", message_range=0)
    assert len(found) == len(list(found)) == len(found[:5]) == 2
    assert found[0] is next(iter(found))
    assert found.searched == 2


async def test_matching_segment_is_returned_when_a_long_message_has_no_vector(memory: Memory) -> None:
    """Without vectors too, only the matching segment of a long message is shown."""
    filler = "Nothing of note happened on that day. " * 60
    await fill(memory, f"{filler}The cello is in the attic. {filler}")
    (hit,) = await memory.query("cello attic")
    assert hit.segment is not None
    assert "The cello is in the attic." in hit.text
    assert len(hit.text) < 1_100


@pytest.mark.parametrize(
    ("said", "question"),
    [("我家的猫很可爱", "猫"), ("毎朝お茶を飲みます", "茶"), ("한강에서 배를 탔어요", "배?")],
)
async def test_single_character_is_found_inside_a_sentence(memory: Memory, said: str, question: str) -> None:
    """A word of one character is found by its terms, in a new message and in a long one's segment."""
    filler = "天气很好。" * 300
    await fill(memory, "Something else", filler, said)
    await fill(memory, f"{filler}{said}。{filler}", thread_id="long")
    found = await memory.query(question, message_range=0, threshold=0.6)
    texts = {hit.message.id: hit.text for hit in found}
    assert texts.keys() == {"default2", "long0"}
    assert said in texts["long0"]
    assert len(texts["long0"]) < 1_100


async def test_deleted_messages_are_never_found(memory: Memory) -> None:
    """Right after a deletion it is neither a hit nor a neighbour."""
    await fill(memory, "The violin.", "The cello.", "after")
    assert len(await memory.query("cello", top_k=1)) == 1
    await memory.delete_messages(["default1"])
    assert len(await memory.query("cello")) == 0
    found = await memory.query("violin")
    assert {m.id for hit in found for m in (hit.message, *hit.after)} == {"default0", "default2"}
