"""Without an extra there is one error, and its text is the command to run; recall alone goes on by words."""

import sys
import warnings
from collections.abc import Callable

import pytest

from recollect import (
    Agent,
    Memory,
    MissingExtraError,
    MultilingualEmbedder,
    PromptInjectionDetector,
    open_store,
)
from recollect.cli.data.embedders import find_embedder
from recollect.guards.injection import detector
from recollect.recall.embedding import embedder
from recollect.recall.embedding.minilm import MiniLM

pytestmark = pytest.mark.anyio


def _is_not_there(*_: object) -> bool:
    return False


@pytest.fixture
def no_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Act as if the packages of the built-in embedder were missing, and nobody had been warned yet."""
    monkeypatch.setattr(MiniLM, "is_installed", _is_not_there)
    embedder._warn_of_words_alone.cache_clear()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - it warns once


async def test_an_agent_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be made without it, and says what to install when it is asked."""
    monkeypatch.setitem(sys.modules, "recollect.agent.provider", None)
    with pytest.raises(MissingExtraError) as caught:
        await Agent().generate("Hello")
    assert str(caught.value) == "pip install 'recollect[agent]'"


async def test_postgres_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver is imported when a server is opened."""
    monkeypatch.setitem(sys.modules, "recollect.storage.postgres.engine", None)
    with pytest.raises(MissingExtraError) as caught:
        await open_store("postgresql://localhost/nothing")
    assert str(caught.value) == "pip install 'recollect[postgres]'"


def _find_embedder() -> None:
    find_embedder("openai:text-embedding-3-small")


def _default_embedder() -> None:
    embedder.default_embedder()


@pytest.mark.usefixtures("no_embedder")
@pytest.mark.parametrize(
    ("extra", "use"),
    [
        ("guard", lambda: PromptInjectionDetector(classifier=True)),
        ("agent", _find_embedder),
        ("multilingual", lambda: find_embedder("multilingual")),
        ("embed", _default_embedder),
    ],
)
def test_other_parts_name_theirs(
    extra: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classifier of injections, a provider's embedder, and the offline ones where they are asked for."""
    monkeypatch.setattr(MultilingualEmbedder, "is_installed", _is_not_there)
    monkeypatch.setattr(detector, "is_installed", _is_not_there)
    monkeypatch.setitem(sys.modules, "recollect.agent.provider", None)
    with pytest.raises(MissingExtraError) as caught:
        use()
    assert str(caught.value) == f"pip install 'recollect[{extra}]'"


@pytest.mark.usefixtures("no_embedder")
async def test_recall_without_an_embedder_warns_once_and_searches_by_words() -> None:
    """The second memory says nothing more; both find what the words find."""
    first = Memory(semantic_recall=True)
    with pytest.warns(UserWarning, match=r"words alone.*pip install 'recollect\[embed\]'"):
        first.get_input_processors()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with first, Memory(semantic_recall=True) as second:
            for memory in (first, second):
                await memory.add_message("user", "My dog Rex is afraid of thunder.")
                found = await memory.query("thunder")
                assert [hit.text for hit in found] == ["My dog Rex is afraid of thunder."]
