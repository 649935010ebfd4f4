"""Prompts that ask for nothing bring nothing, however many stored messages have the same words."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest
from tests.support.embedders import Remembering, Words

from recollect import Memory, Message
from recollect.recall.small_talk import is_small_talk

pytestmark = pytest.mark.anyio

UNSEEN = cast(
    "dict[str, list[str]]",
    json.loads((Path(__file__).parents[1] / "data" / "small_talk_unseen.json").read_text("utf-8")),
)
"""Prompts that neither the lists of words nor the classifier were made from."""

SHARES = {"hybrid": 0.9, "words": 0.7}
"""The least share of small talk that must bring nothing."""


@pytest.fixture(scope="module")
def embedder() -> Remembering:
    """The built-in embedder, which embeds each prompt once."""
    return Remembering()


@pytest.fixture(params=list(SHARES))
def kind(request: pytest.FixtureRequest) -> str:
    """Search with the built-in embedder, and by words alone."""
    return cast("str", request.param)


@pytest.fixture
async def memory(kind: str, embedder: Remembering) -> AsyncGenerator[Memory]:
    """A memory in which every prompt was said before, so that each search would find something."""
    chosen = None if kind == "words" else embedder
    async with Memory(resource_id="ada", semantic_recall=True, embedder=chosen) as opened:
        for name, texts in UNSEEN.items():
            await opened.save_messages([Message("user", text) for text in texts], thread_id=name)
        await opened.settled()
        yield opened


async def test_small_talk_brings_nothing(memory: Memory, kind: str) -> None:
    """Greetings, thanks and agreement find nothing, in several languages and misspelt too."""
    prompts = UNSEEN["small_talk"]
    answered = [prompt for prompt in prompts if len(await memory.query(prompt)) > 0]
    assert 1 - len(answered) / len(prompts) >= SHARES[kind], answered


async def test_prompts_with_content_are_searched_for(memory: Memory) -> None:
    """However short they are, none is taken for small talk, and each finds what was said."""
    for prompt in UNSEEN["content"]:
        found = await memory.query(prompt)
        assert found.notes == ()
        assert prompt in [hit.text for hit in found], prompt


async def test_small_talk_is_searched_for_when_the_threshold_is_zero(memory: Memory) -> None:
    """Who asks for everything gets it, and without a threshold too."""
    for threshold in (0, None):
        found = await memory.query("thanks a lot!", threshold=threshold, message_range=0)
        assert found.searched == sum(map(len, UNSEEN.values()))
        assert any("thank" in hit.text.lower() for hit in found)


async def test_note_says_that_nothing_was_searched(memory: Memory) -> None:
    """Nobody has to guess why nothing was found."""
    found = await memory.query("thanks a lot!", explain=True)
    assert (len(found), found.searched) == (0, 0)
    assert found.notes == ("small talk: there is nothing to look for",)


async def test_classifier_is_asked_for_vectors_of_its_own_embedder_alone() -> None:
    """Another embedder's vectors mean something else to it, and its prompts are judged by their words."""
    async with Memory(resource_id="ada", semantic_recall=True, embedder=Words(dimensions=384)) as memory:
        await memory.add_message("user", "hold on, brb")
        await memory.settled()
        assert not is_small_talk("hold on, brb")
        assert len(await memory.query("hold on, brb")) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("thanks!", True),
        ("THANKS!!!", True),
        ("thaaaaanks", True),
        ("sooo good", True),
        ("how are you?", True),
        ("who am I?", False),
        ("what did I say?", False),
        ("sorry, my bad", True),
        ("thanks, Rex", False),
        ("thanks " * 30, False),
        ("你好", True),
        ("我的猫", False),
    ],
)
def test_words_decide(text: str, expected: bool) -> None:  # noqa: FBT001 - a case
    """All words must be small talk, few enough, and not ask about the person who writes them."""
    assert is_small_talk(text) is expected
