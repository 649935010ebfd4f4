"""Document A, "Testing Strategy for SemanticRecall": `SemanticRecall with other processors`."""

from collections.abc import AsyncGenerator

import pytest
from tests.acceptance.memory_as_processors.agents import ATTACK
from tests.support.agents import Mode, answer, both_modes, model_of
from tests.support.embedders import Words

from recollect import Agent, Memory, Message, PromptInjectionDetector, Store, UnicodeNormalizer

pytestmark = [pytest.mark.anyio, both_modes]

GUIDE = [
    Message("user", "API documentation needed"),
    Message("assistant", "Here is the API guide: send a key in the header, then call the search endpoint."),
]


@pytest.fixture
async def memory(store: Store) -> AsyncGenerator[tuple[Memory, Words]]:
    """A memory on each engine in turn, and its embedder, which knows what it was asked."""
    embedder = Words()
    async with Memory(
        store,
        last_messages=5,
        semantic_recall=True,
        embedder=embedder,
        tenant_id=None,
        resource_id="ada",
        thread_id="now",
    ) as found:
        await found.save_messages(GUIDE, thread_id="old")
        await found.settled()
        yield found, embedder


async def test_input_validation_happens_before_semantic_search(
    memory: tuple[Memory, Words], mode: Mode
) -> None:
    """A malicious prompt is blocked before anything is embedded or searched."""
    recall, embedder = memory
    model = model_of("never said", mode=mode)
    agent = Agent(model, input_processors=[PromptInjectionDetector(strategy="block"), recall])
    result = await answer(agent, mode, ATTACK)
    assert result.tripwire
    assert (embedder.asked, model.shown) == ([], [])
    assert result.trace.find("semantic-recall", "input") is None


async def test_normalized_input_used_for_semantic_search(memory: tuple[Memory, Words], mode: Mode) -> None:
    """The embedder is asked about the file, not about the ligature."""
    recall, embedder = memory
    agent = Agent(model_of("ok", mode=mode), input_processors=[UnicodeNormalizer(), recall])
    await answer(agent, mode, "Find the \ufb01le")
    assert embedder.asked == ["Find the file"]


async def test_semantic_recall_adds_context_before_message_history(
    memory: tuple[Memory, Words], mode: Mode
) -> None:
    """The recalled context is a system message after the history and before the prompt.

    On purpose not where the name of this test, the specification's own, says. The history is the same as in
    the last turn but for its end, the recalled context is not. Providers cache what prompts begin with.
    """
    recall, _ = memory
    await recall.save_messages([Message("user", "Good morning"), Message("assistant", "Hello!")])
    model = model_of("Like this.", mode=mode)
    await answer(Agent(model, memory=recall), mode, "How do I use the API?")
    (shown,) = model.shown
    assert [message.role for message in shown] == ["user", "assistant", "system", "user"]
    recalled = shown.pop(2)
    assert recalled.origin == "memory"
    assert "Here is the API guide" in recalled.text
    assert "From other conversations" in recalled.text
    assert [message.text for message in shown] == ["Good morning", "Hello!", "How do I use the API?"]
