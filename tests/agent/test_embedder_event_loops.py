"""One HTTP embedder under many event loops: sync memories that share it, repeated runs, threads."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic_ai import Embedder
from pydantic_ai.embeddings import WrapperEmbeddingModel
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.providers.openai import OpenAIProvider
from tests.agent.openai_server import ChatServer

from recollect import Agent, Memory
from recollect.recall.embedding.embedder import CheckedEmbedder, as_embedder
from recollect.testing import ScriptedModel

TEXTS = ["The ferry leaves at nine.", "Bring a coat."]


@pytest.fixture
def provider(server: ChatServer) -> OpenAIProvider:
    """A provider that makes its own HTTP client, as in every program."""
    return OpenAIProvider(base_url=server.url, api_key="none")


@pytest.fixture
def embedder(provider: OpenAIProvider) -> Embedder:
    """An embedder of that provider."""
    return Embedder(OpenAIEmbeddingModel("tiny", provider=provider))


async def _talk(memory: Memory) -> None:
    """Save and search, each of which asks the embedder; nothing was searched by words alone."""
    agent = Agent(ScriptedModel("At nine."), memory=memory)
    await agent.generate("When does the ferry leave?", resource_id="ada")
    await memory.settled()
    result = await agent.generate("And the ferry?", resource_id="ada", thread_id="another")
    notes = [note for entry in result.trace for note in entry.notes]
    assert not [note for note in notes if "embedder" in note]


def test_two_sync_memories_share_an_embedder(embedder: Embedder, tmp_path: Path) -> None:
    """Each has a loop of its own, and both are answered again and again."""
    memories = [Memory(tmp_path / f"{n}.db", semantic_recall=True, embedder=embedder) for n in range(2)]
    with memories[0].sync, memories[1].sync:
        for memory in memories * 3:
            memory.portals.get().run(_talk(memory))


def test_one_memory_runs_under_repeated_asyncio_run(embedder: Embedder, tmp_path: Path) -> None:
    """Each loop is a new one, and messages are embedded and searched in each."""
    memory = Memory(tmp_path / "a.db", semantic_recall=True, embedder=embedder)

    async def run() -> None:
        await _talk(memory)
        await memory.close()

    for _ in range(4):
        asyncio.run(run())


def _embed(checked: CheckedEmbedder) -> int:
    async def run() -> int:
        await checked.embed_query(TEXTS[0])
        return len(await checked.embed_documents(TEXTS))

    return asyncio.run(run())


def test_loops_of_many_threads_share_an_embedder(embedder: Embedder) -> None:
    """Requests of several loops at once go through clients of their own."""
    checked = as_embedder(embedder)
    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(_embed, [checked] * 24)) == {2}


def test_embedder_that_is_wrapped_or_named_is_shared_too(
    embedder: Embedder, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrapper around the model, and a name whose model is made on first use."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    wrapped = Embedder(WrapperEmbeddingModel(embedder.model))
    for one in (wrapped, Embedder("openai:tiny")):
        checked = as_embedder(one)
        assert [_embed(checked) for _ in range(3)] == [2, 2, 2]


def test_embedder_is_usable_when_others_have_closed_its_client(
    embedder: Embedder, provider: OpenAIProvider
) -> None:
    """Who enters the provider closes the client at the end; the next request makes another."""
    checked = as_embedder(embedder)

    async def close() -> None:
        async with provider:
            await checked.embed_query(TEXTS[0])

    for _ in range(2):
        asyncio.run(close())
        assert _embed(checked) == 2
