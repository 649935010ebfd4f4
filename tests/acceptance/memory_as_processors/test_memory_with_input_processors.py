"""Document A, "Test: Input Processor Ordering": `Memory with Input Processors`."""

import pytest
from tests.acceptance.memory_as_processors.agents import ATTACK, THREAT
from tests.support.agents import ADA, Mode, answer, both_modes, dump, is_unopened, model_of, texts
from tests.support.embedders import Words

from recollect import (
    Agent,
    Memory,
    ModerationProcessor,
    PromptInjectionDetector,
    Store,
    UnicodeNormalizer,
)

pytestmark = [pytest.mark.anyio, both_modes]


async def test_prompt_injection_blocked_before_memory_access(mode: Mode, sqlite_url: str) -> None:
    """A blocked prompt opens no store, asks no embedder and no model, and changes no row."""
    embedder, model = Words(), model_of("Hello.", "never said", mode=mode)
    async with Memory(sqlite_url, semantic_recall=True, embedder=embedder, **ADA) as memory:
        await answer(Agent(model, memory=memory), mode, "Hi!")
        await memory.settled()
    before, asked, read = dump(sqlite_url), [*embedder.asked], [*embedder.read]
    memory = Memory(sqlite_url, semantic_recall=True, embedder=embedder, **ADA)
    agent = Agent(model, input_processors=[PromptInjectionDetector(strategy="block"), memory])
    result = await answer(agent, mode, ATTACK)
    assert is_unopened(memory)
    assert result.tripwire
    assert result.tripwire.processor_id == "prompt-injection-detector"
    assert result.text == ""
    assert len(model.shown) == 1
    assert before["messages"]
    assert (dump(sqlite_url), embedder.asked, embedder.read) == (before, asked, read)


async def test_normalized_input_used_for_semantic_search(store: Store, mode: Mode) -> None:
    """The embedder is asked about the file, not about the ligature, and the file is kept."""
    embedder = Words()
    async with Memory(store, semantic_recall=True, embedder=embedder, **ADA) as memory:
        agent = Agent(model_of("Here.", mode=mode), memory=memory, input_processors=[UnicodeNormalizer()])
        await answer(agent, mode, "I put it into a drawer.")
        await memory.settled()
        result = await answer(agent, mode, "Find the \ufb01le")
        await memory.settled()
        saved = await memory.get_messages()
    assert embedder.asked[-1] == "Find the file"
    assert not any("\ufb01" in text for text in embedder.asked + embedder.read)
    assert result.prompt[-1].text == "Find the file"
    assert texts(saved)[2] == ("user", "Find the file")


async def test_moderation_happens_before_memory_retrieval(mode: Mode) -> None:
    """Inappropriate content is blocked before memory opens its store."""
    memory, model = Memory(last_messages=10), model_of("never said")
    agent = Agent(model, input_processors=[ModerationProcessor(strategy="block"), memory])
    assert (await answer(agent, mode, THREAT)).tripwire
    assert model.shown == []
    assert is_unopened(memory)
