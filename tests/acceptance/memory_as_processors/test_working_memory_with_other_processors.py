"""Document A, "Testing Strategy for WorkingMemory": `WorkingMemory with other processors`."""

import pytest
from tests.acceptance.memory_as_processors.agents import ATTACK
from tests.memory.profiles import note_all, note_email, note_topic
from tests.support.agents import ADA, Mode, answer, both_modes, is_unopened, model_of

from recollect import Agent, Memory, PIIDetector, PromptInjectionDetector, Store

pytestmark = [pytest.mark.anyio, both_modes]


async def test_working_memory_injected_after_input_validation(mode: Mode) -> None:
    """A malicious prompt is blocked before working memory is read."""
    memory = Memory(working_memory={"template": "User preferences: {{preferences}}"})
    model = model_of("never said")
    agent = Agent(model, input_processors=[PromptInjectionDetector(strategy="block"), memory])
    assert (await answer(agent, mode, ATTACK)).tripwire
    assert model.shown == []
    assert is_unopened(memory)


async def test_working_memory_extraction_happens_on_cleaned_output(store: Store, mode: Mode) -> None:
    """The extractor is shown what left the guard, of the user's message and of the answer."""
    memory = Memory(
        store, working_memory={"template": "User email: {{email}}", "extractor": note_email}, **ADA
    )
    agent = Agent(
        model_of("Your email is john@example.com.", mode=mode),
        output_processors=[PIIDetector(strategy="redact"), memory],
    )
    await answer(agent, mode, "My email is john@example.com")
    known = await memory.get_working_memory()
    assert known.email == "***@***.***"
    assert "john@" not in str(await memory.working_memory_history())


async def test_working_memory_persisted_with_message_history(store: Store, mode: Mode) -> None:
    """The first conversation fills it in, and its messages are kept too."""
    memory = Memory(store, working_memory={"template": "Topic: {{topic}}", "extractor": note_topic}, **ADA)
    agent = Agent(model_of("Gladly.", mode=mode), memory=memory)
    result = await answer(agent, mode, "Let's talk about quantum computing")
    known = await memory.get_working_memory()
    assert "quantum computing" in str(known.topic)
    assert len(await memory.get_messages()) == 2
    assert (result.saved, known.run_id) == (True, result.run_id)


async def test_working_memory_with_semantic_recall_coordination(store: Store, mode: Mode) -> None:
    """What was said in another thread and working memory both give context, and working memory learns."""
    async with Memory(
        store,
        semantic_recall=True,
        embedder=None,
        working_memory={"template": "Context: {{context}}", "extractor": note_all},
        **ADA,
    ) as memory:
        await memory.add_message("user", "Project deadline is Friday", thread_id="earlier")
        await memory.add_message("assistant", "Noted the Friday deadline", thread_id="earlier")
        await memory.update_working_memory({"context": "planning"})
        model = model_of("By Friday.", mode=mode)
        await answer(Agent(model, memory=memory), mode, "What's the timeline of the project?")
        known = await memory.get_working_memory()
    shown = model.shown[0]
    assert [message.origin for message in shown] == ["memory", "memory", "input"]
    assert "Context: planning" in shown[0].text
    assert "Friday deadline" in shown[1].text
    assert "timeline" in str(known.context)
