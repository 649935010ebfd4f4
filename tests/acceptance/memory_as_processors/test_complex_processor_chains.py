"""Document A, "Test: Complex Processor Interactions": `Complex Processor Chains`."""

import pytest
from tests.acceptance.memory_as_processors.agents import ATTACK, STORY, keep_story
from tests.memory.profiles import note_email
from tests.support.agents import ADA, Mode, answer, both_modes, is_unopened, model_of, texts
from tests.support.guards import Validator

from recollect import (
    Agent,
    Memory,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    Store,
    TokenLimiterProcessor,
    UnicodeNormalizer,
)
from recollect.text.tokens import count_tokens

pytestmark = [pytest.mark.anyio, both_modes]


async def test_custom_processor_and_memory_processors(mode: Mode) -> None:
    """A custom validator that raises a `TripWire` acts after the guards and before memory's processors."""
    memory, model = Memory(last_messages=10), model_of("never said")
    guards = [UnicodeNormalizer(), PromptInjectionDetector(), Validator()]
    agent = Agent(model, input_processors=[*guards, *memory.get_input_processors()])
    result = await answer(agent, mode, "a restricted topic")
    assert result.tripwire
    assert (result.tripwire.reason, result.tripwire.processor_id) == ("Restricted topic", "Validator")
    assert model.shown == []
    assert is_unopened(memory)


async def test_multiple_memory_features_with_guardrails(store: Store, mode: Mode) -> None:
    """History, recall and working memory act after all guards, over several turns."""
    async with Memory(
        store,
        last_messages=10,
        semantic_recall=True,
        embedder=None,
        working_memory={"template": "Email: {{email}}", "extractor": note_email},
        **ADA,
    ) as memory:
        await memory.add_message("user", "My boat X is red.", thread_id="elsewhere")
        model = model_of("Mail john@example.com now.", "X is your boat.", mode=mode)
        agent = Agent(
            model,
            input_processors=[
                UnicodeNormalizer(),
                PromptInjectionDetector(),
                ModerationProcessor(),
                *memory.get_input_processors(),
            ],
            output_processors=[PIIDetector(), TokenLimiterProcessor(1000), *memory.get_output_processors()],
        )
        await answer(agent, mode, "Hello, my email is john@example.com")
        await answer(agent, mode, "Tell me about \uff38")
        assert (await answer(agent, mode, ATTACK)).tripwire
        saved = await memory.get_messages()
        known = await memory.get_working_memory()
    shown = model.shown[1]
    assert len(model.shown) == 2
    assert [message.origin for message in shown] == ["memory"] * 4 + ["input"]
    brought_in = "\n".join(message.text for message in shown if message.role == "system")
    assert "My boat X is red." in brought_in
    assert "Email: ***@***.***" in brought_in
    assert texts(message for message in shown if message.role != "system") == [
        ("user", "Hello, my email is ***@***.***"),
        ("assistant", "Mail ***@***.*** now."),
        ("user", "Tell me about X"),
    ]
    assert [message.role for message in saved] == ["user", "assistant"] * 2
    assert known.email == "***@***.***"


async def test_processor_order_affects_final_output(store: Store, mode: Mode) -> None:
    """The same with memory's processors spelled out: the order of the list decides what is kept."""
    first, second = (
        Memory(store, tenant_id=None, resource_id="ada", thread_id=name) for name in ("first", "second")
    )
    full = await keep_story(first, mode, [*first.get_output_processors(), TokenLimiterProcessor(50)])
    cut = await keep_story(second, mode, [TokenLimiterProcessor(50), *second.get_output_processors()])
    assert full == STORY
    assert count_tokens(full) > 50
    assert 40 <= count_tokens(cut) <= 50
