"""Which speakers a question names: in any case, by first name, or misspelt, and never by a common word."""

import pytest
from tests.support.timing import assert_costs_little_more

from recollect import Memory, Message
from recollect.recall.names import Name, find_names
from recollect.recall.question import Question

pytestmark = pytest.mark.anyio

SPEAKERS = ["Fahim Khan", "Will", "Ann", "Jean-Luc", "Żółć", "Gabriela"]


def named(text: str, speakers: list[str] = SPEAKERS) -> set[str]:
    """Return the speakers that a text names."""
    return {name.speaker for name in find_names(text, speakers)}


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("What did Fahim Khan say?", "Fahim Khan"),
        ("what did fahim khan say?", "Fahim Khan"),
        ("WHAT DID FAHIM SAY?", "Fahim Khan"),
        ("fahim's sister", "Fahim Khan"),
        ("What did Faheem say?", "Fahim Khan"),
        ("what did fahym say", "Fahim Khan"),
        ("what about gabriella's boat?", "Gabriela"),
        ("What did Gabreila say?", "Gabriela"),
        ("What did Will say?", "Will"),
        ("is ann here?", "Ann"),
        ("what of jean-luc?", "Jean-Luc"),
        ("żółć?", "Żółć"),
    ],
)
def test_speaker_is_named_in_any_case_by_first_name_or_misspelt(text: str, speaker: str) -> None:
    """People do not write names as they are stored."""
    assert named(text) == {speaker}


@pytest.mark.parametrize(
    "text",
    [
        "will it rain?",
        "What will happen?",
        "Anna's cello",  # names of three letters may not be misspelt
        "Annual reports of the willow",
        "khan",  # a surname alone
        "what a fatal mistake",
        "What did the family say of Gabon?",
        "",
    ],
)
def test_nobody_is_named_by_a_common_word_or_another_name(text: str) -> None:
    """A small letter makes "will" a verb, and a word that is far from a name is not that name."""
    assert named(text) == set()


def test_misspelling_counts_only_where_no_name_fits() -> None:
    """Who names Ann means nobody else with a similar word."""
    assert named("Did Ann see Faheem?") == {"Ann"}


def test_first_name_of_two_speakers_names_neither() -> None:
    """Whom of the two it means is not known; the whole name says it."""
    speakers = ["Ann Lee", "Ann Poe", "Bob"]
    assert named("What did Ann say?", speakers) == set()
    assert named("what did ann poe say?", speakers) == {"Ann Poe"}
    assert named("What did Ann Lee say to Bob?", speakers) == {"Ann Lee", "Bob"}


def test_misspelling_of_two_names_names_neither() -> None:
    """A word that is as near to one speaker as to another means neither."""
    assert named("what did marie say?", ["Maria", "Marin"]) == set()


def test_name_is_returned_as_the_question_has_it() -> None:
    """So that it can be taken out of the question's words, and replaced by "I"."""
    question = Question("what does faheem's dog eat?")
    names = question.find_names(SPEAKERS)
    assert names == [Name("faheem", "Fahim Khan")]
    assert "faheem" not in question.terms_without(names)
    assert question.rephrase_as(names) == "what does my dog eat?"


async def test_named_speaker_is_preferred_though_the_name_is_misspelt() -> None:
    """Of two who said nearly the same, the one who is asked about comes first."""
    async with Memory(resource_id="ada", embedder=None) as memory:
        for name, text in (("Bruno", "I play the old cello."), ("Fahim Khan", "I play the new cello.")):
            message = Message("user", text, metadata={"name": name})
            await memory.save_messages([message], thread_id=name)
        for question in ("Which cello has Fahim?", "which cello has faheem?", "Which cello has FAHIM KHAN?"):
            found = await memory.query(question, top_k=2, message_range=0, explain=True)
            assert found[0].text == "I play the new cello."
            assert found[0].why is not None
            assert found[0].why.parts["speaker"] > 0
            assert "cello" in found[0].why.matched_terms


def test_names_cost_little_when_there_are_many_or_long_ones() -> None:
    """A thousand speakers, exact, similar or with endless names, cost little more than a substring search."""
    letters = [chr(97 + n) for n in range(26)]
    exact = [f"speaker{n}" for n in range(999)] + ["n" * 1_000_000]
    similar = [f"speak{one}{other}" for one in letters for other in letters]
    endless = [f"n{'a' * 3_000}{letter}" for letter in letters]
    text = "What did speaker7 say of speaker70x? " * 50
    misspelt = " ".join(f"spekk{one}{other}" for one in letters for other in letters)
    assert {name.speaker for name in find_names(text, exact)} == {"speaker7"}

    def look(text: str) -> list[str]:
        return [name for name in exact if name in text]

    assert_costs_little_more(
        lambda work: work(),
        lambda: look(text),
        lambda: find_names(text, exact),
        lambda: find_names(misspelt[:4_000], similar),
        lambda: find_names(" ".join(similar[:5]).replace("k", "z"), similar),
        lambda: find_names("n" + "b" * 3_001, endless),
    )
