"""Chats with an assistant: what its user said comes first, and what only the assistant said is found too."""

from collections.abc import AsyncGenerator

import pytest
from tests.recall.rows import SampleMessage, index_of
from tests.support.embedders import Remembering

from recollect import Memory, Message

pytestmark = pytest.mark.anyio

ADVICE = (
    "There are many things to keep in mind. First, take your time and compare prices at several places. "
    "Second, ask friends for their advice, as they may have made the same choice before. Third, write down "
    "what matters most to you, and decide after a good night of sleep. "
)
TALK = (
    ("I bought a cello.", f"A cello is a fine choice! {ADVICE}"),
    ("We painted the kitchen yellow.", f"A yellow kitchen cheers everybody up. {ADVICE}"),
    ("I am allergic to peanuts.", f"Peanuts are in many sauces, so read labels. {ADVICE}"),
    ("How do I tune it?", f"Use a tuner such as the Korgmaster, string by string. {ADVICE}"),
)


@pytest.fixture(scope="module")
def embedder() -> Remembering:
    """The built-in embedder, which embeds each text once."""
    return Remembering()


@pytest.fixture(params=["hybrid", "words"])
async def memory(request: pytest.FixtureRequest, embedder: Remembering) -> AsyncGenerator[Memory]:
    """A chat with an assistant whose answers have the words of its user, among much else."""
    chosen = None if request.param == "words" else embedder
    async with Memory(resource_id="ada", semantic_recall=True, embedder=chosen) as opened:
        for place, (said, answer) in enumerate(TALK):
            turn = [Message("user", said), Message("assistant", answer)]
            await opened.save_messages(turn, thread_id=f"t{place}")
        await opened.settled()
        yield opened


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which cello did I buy?", "I bought a cello."),
        ("What colour is my yellow kitchen?", "We painted the kitchen yellow."),
        ("Am I allergic to peanuts?", "I am allergic to peanuts."),
    ],
)
async def test_user_is_preferred_over_an_answer_with_the_same_words(
    memory: Memory, question: str, answer: str
) -> None:
    """The user's short message comes before the assistant's long one."""
    found = await memory.query(question, message_range=0, explain=True)
    assert found[0].text == answer
    assert found[0].why is not None
    assert found[0].why.parts["by the assistant"] == 0
    by_assistant = [hit.why for hit in found if hit.message.role == "assistant" and hit.why is not None]
    assert all(why.parts["by the assistant"] < 0 for why in by_assistant)


async def test_word_of_the_assistant_alone_finds_its_message(memory: Memory) -> None:
    """What only the assistant said is asked for too."""
    found = await memory.query("What was that tuner, the Korgmaster?", message_range=0)
    assert "Korgmaster" in " ".join(hit.text for hit in found[:2])
    only = await memory.query("Korgmaster", role="assistant", message_range=0)
    assert "Korgmaster" in only[0].text


def test_chat_is_one_with_an_assistant_when_its_answers_are_much_longer() -> None:
    """Two people, one of whom is stored as the assistant, write about as much as each other."""
    user, short, long = (
        SampleMessage(["cello"] * 5),
        SampleMessage(["dog"] * 8, is_assistant=True),
        SampleMessage(["dog"] * 11, is_assistant=True),
    )
    assert index_of([user, long, user, long]).is_chat_with_assistant
    for said in ([], [user], [long], [user, short, user, short], [user, user]):
        assert not index_of(said).is_chat_with_assistant
