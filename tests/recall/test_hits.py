"""What becomes a hit: never what has nothing to do with the question, and nothing twice."""

from collections.abc import AsyncGenerator

import pytest
from tests.support.embedders import Remembering

from recollect import Memory, Message
from recollect.recall.settings import DEFAULT_THRESHOLD

pytestmark = pytest.mark.anyio

QUESTIONS = (
    "Where is the cello?",
    "xylophone",
    "Who bought bread yesterday?",
    "quarterly revenue of Siemens",
)


@pytest.fixture(scope="module")
def embedder() -> Remembering:
    """The built-in embedder, which embeds each text once."""
    return Remembering()


@pytest.fixture(params=["hybrid", "words"])
async def memory(request: pytest.FixtureRequest, embedder: Remembering) -> AsyncGenerator[Memory]:
    """Ada's memory, with the built-in embedder and with words alone."""
    chosen = None if request.param == "words" else embedder
    async with Memory(resource_id="ada", semantic_recall=True, embedder=chosen) as opened:
        yield opened


async def fill(memory: Memory, *texts: str) -> None:
    """Save messages, and have them embedded."""
    await memory.save_messages([Message("user", text) for text in texts])
    await memory.settled()


async def test_every_hit_is_relevant(memory: Memory) -> None:
    """No hit has relevance 0 though the threshold is 0, and none is below the default threshold."""
    await fill(
        memory,
        "The cello is in the attic.",
        "You may take it.",
        "I bought bread.",
        "\U0001f600",
        "We painted the kitchen yellow.",
        "The rocket launch was put off because of the wind.",
        "Our dog is afraid of thunder.",
    )
    for question in QUESTIONS:
        everything = await memory.query(question, top_k=50, threshold=0, message_range=0)
        assert all(0 < hit.relevance <= 1 for hit in everything)
        found = await memory.query(question, top_k=50, message_range=0)
        assert all(hit.relevance >= DEFAULT_THRESHOLD for hit in found)
        enough = {hit.message.id for hit in everything if hit.relevance >= DEFAULT_THRESHOLD}
        assert {hit.message.id for hit in found} == enough


async def test_nothing_is_found_when_no_word_is_there() -> None:
    """By words alone a question without any known word finds nothing, whatever the threshold."""
    async with Memory(resource_id="ada", embedder=None) as memory:
        await fill(memory, "The cello is in the attic.", "I bought bread.")
        for threshold in (0, None, DEFAULT_THRESHOLD):
            assert len(await memory.query("xylophone lessons", threshold=threshold)) == 0


async def test_irrelevant_message_is_named_among_the_misses(memory: Memory) -> None:
    """The explanation says that a message is less relevant than the threshold."""
    await fill(memory, "The cello is in the attic.", "Take it.", "I like it.", "We ate soup.", "Rain again.")
    found = await memory.query("Where is the cello?", threshold=0.9, explain=True)
    assert {miss.reason for miss in found.misses} <= {"less relevant than 0.9", "not relevant"}
    assert "less relevant than 0.9" in {miss.reason for miss in found.misses}


async def test_relevance_counts_the_words_of_neighbours_half() -> None:
    """An answer leaves out what was asked, and is still relevant."""
    async with Memory(resource_id="ada", embedder=None) as memory:
        await fill(memory, "Where is the cello?", "In the attic.", "I see.", "Bread.", "Butter.", "Jam.")
        found = await memory.query("cello", threshold=0, message_range=0)
        relevance = {hit.text: hit.relevance for hit in found}
    assert relevance == {
        "Where is the cello?": pytest.approx(1.0),
        "In the attic.": pytest.approx(0.5),
        "I see.": pytest.approx(0.5),
    }


async def test_message_with_eight_words_of_a_long_question_is_relevant() -> None:
    """A long question has more words than any answer, so the eight rarest are enough."""
    first, rest = "cello dog thunder train porto kitchen yellow rocket", "harbour violin lantern bicycle"
    async with Memory(resource_id="ada", embedder=None) as memory:
        await fill(memory, first, rest)
        found = await memory.query(f"{first} {rest}", message_range=0)
    # With its neighbour the second has all twelve words, and those count half: six of eight.
    relevance = {hit.text: hit.relevance for hit in found}
    assert relevance == {first: pytest.approx(1.0), rest: pytest.approx(0.75)}


@pytest.mark.parametrize(
    "again",
    ["The cello is in the attic.", "the cello is in the attic", "The CELLO is in the attic!!!"],
)
async def test_same_text_is_shown_once(memory: Memory, again: str) -> None:
    """A text that was said again in other letters takes no place from another one; the misses name it."""
    await fill(memory, "The cello is in the attic.", "We ate soup.", again, "A cello costs much money.")
    found = await memory.query("cello", top_k=3, threshold=0.6, message_range=0, explain=True)
    texts = [hit.text for hit in found]
    assert len(texts) == 2
    assert "A cello costs much money." in texts
    assert "says the same as a message that is shown" in {miss.reason for miss in found.misses}


async def test_text_that_differs_in_little_is_shown_once_by_its_vector(embedder: Remembering) -> None:
    """With vectors, a small change of the words makes no second hit."""
    async with Memory(resource_id="ada", semantic_recall=True, embedder=embedder) as memory:
        first = "My sister keeps her old cello in the attic of our house in Porto, behind the big boxes."
        await fill(memory, first, "We ate soup.", first.replace("house", "home"))
        found = await memory.query("Where is the cello?", message_range=0, threshold=0.6)
        assert len(found) == 1


async def test_texts_without_words_are_not_the_same() -> None:
    """Two messages of emoji have no terms; having none in common makes them no duplicates."""
    async with Memory(resource_id="ada", embedder=None) as memory:
        await fill(memory, "cello", "\U0001f600", "\U0001f60d")
        found = await memory.query("cello", message_range=0)
        assert len(found) == 3
