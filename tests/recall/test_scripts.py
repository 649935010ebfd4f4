"""A question in another script than Latin: the embedder that knows English alone is not asked."""

from datetime import UTC, datetime

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.embedders import Words

from recollect import Memory, MultilingualEmbedder
from recollect.recall.embedding.minilm import MiniLM
from recollect.recall.question import parse_question
from recollect.recall.results import Recall
from recollect.scope import UNSET

pytestmark = pytest.mark.anyio

TOLD = ("我家的狗害怕打雷", "我每天坐火车上班")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What does my dog fear?", False),
        ("Wovor hat mein Hund Angst, größte Sorge?", False),
        ("Chó của tôi sợ gì?", False),
        ("我的狗怕什么", True),
        ("مم يخاف كلبي؟", True),
        ("Чего боится моя собака?", True),
        ("Rex 怕什么", False),
        ("Rex 到底害怕什么", True),
        ("2023-05-08?", False),
        ("", False),
    ],
)
def test_more_than_half_of_the_letters_decide(text: str, expected: bool) -> None:  # noqa: FBT001 - a table
    """Accents are Latin too; digits and punctuation do not count."""
    assert parse_question(text, datetime(2024, 1, 1, tzinfo=UTC)).is_beyond_latin is expected


async def _ask(question: str, embedder: object) -> Recall:
    async with Memory(user_id="ada", semantic_recall=True, embedder=embedder) as memory:
        for text in TOLD:
            await memory.add_message("user", text)
        await memory.settled()
        return await memory.query(question, explain=True, message_range=0)


async def test_built_in_embedder_is_not_asked_in_another_script() -> None:
    """The search goes by words alone, and a note names the extra."""
    found = await _ask("我家的狗害怕什么", UNSET)
    assert found[0].text == TOLD[0]
    assert found[0].why is not None
    assert found[0].why.vector_score is None
    (note,) = found.notes
    assert "words alone" in note
    assert "recollect[multilingual]" in note


async def test_built_in_embedder_is_asked_in_latin_letters() -> None:
    """German is embedded as before, without a note."""
    found = await _ask("Wovor fürchtet sich mein Hund?", MiniLM())
    assert found.notes == ()
    assert "embed_ms" in found.timings


@pytest.mark.xdist_group("multilingual embedder")
async def test_multilingual_embedder_is_asked_in_every_script() -> None:
    """It finds what shares no word with the question, in the other script."""
    found = await _ask("What frightens my pet?", MultilingualEmbedder())
    assert (found[0].text, found.notes) == (TOLD[0], ())
    found = await _ask("宠物最讨厌的天气", MultilingualEmbedder())
    assert (found[0].text, found.notes) == (TOLD[0], ())


async def test_embedder_of_the_caller_is_asked_in_every_script() -> None:
    """What another embedder knows is not for recall to judge."""
    embedder = Words()
    assert (await _ask("我家的狗害怕什么", embedder)).notes == ()
    assert embedder.asked == ["我家的狗害怕什么"]


class _Noting(MultilingualEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        self.asked.append(text)
        return await super().embed_query(text)


@pytest.mark.xdist_group("multilingual embedder")
async def test_prepare_loads_the_multilingual_embedder() -> None:
    """It embeds a word, so that the first search does not wait for the weights."""
    embedder = _Noting()
    async with Memory(user_id="ada", semantic_recall=True, embedder=embedder) as memory:
        await memory.prepare()
    assert embedder.asked == ["ready"]
