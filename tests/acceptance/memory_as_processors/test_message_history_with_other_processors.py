"""Document A, "Testing Strategy for MessageHistory": `MessageHistory with other processors`."""

import pytest
from tests.acceptance.memory_as_processors.agents import (
    ATTACK,
    STORY,
    THREAT,
    keep_story,
    leak_rules,
    tell_story,
)
from tests.support.agents import (
    ADA,
    CALL,
    Mode,
    answer,
    both_modes,
    is_unopened,
    lookup,
    model_of,
    spoken,
    texts,
)
from tests.support.guards import Summarizer

from recollect import (
    Agent,
    Memory,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    Store,
    SystemPromptScrubber,
    TokenLimiterProcessor,
    UnicodeNormalizer,
)
from recollect.text.tokens import count_tokens

pytestmark = [pytest.mark.anyio, both_modes]


async def test_input_validation_happens_before_memory_fetch(mode: Mode) -> None:
    """A malicious prompt is blocked before memory opens its store."""
    memory, model = Memory(last_messages=10), model_of("never said")
    agent = Agent(model, input_processors=[PromptInjectionDetector(strategy="block"), memory])
    result = await answer(agent, mode, ATTACK)
    assert result.tripwire
    assert result.tripwire.processor_id == "prompt-injection-detector"
    assert (result.text, model.shown) == ("", [])
    assert is_unopened(memory)


async def test_pii_redacted_before_saving_to_memory(store: Store, mode: Mode) -> None:
    """Neither the user's own message nor the answer keeps the number."""
    memory = Memory(store, **ADA)
    model = model_of("Your SSN is 123-45-6789, yes.", mode=mode)
    agent = Agent(model, output_processors=[PIIDetector(strategy="redact"), memory])
    result = await answer(agent, mode, "My SSN is 123-45-6789")
    assert texts(await memory.get_messages()) == [
        ("user", "My SSN is [REDACTED]"),
        ("assistant", "Your SSN is [REDACTED], yes."),
    ]
    assert result.text == "Your SSN is [REDACTED], yes."


async def test_tool_calls_are_persisted_correctly(store: Store, mode: Mode) -> None:
    """Calls and results pass the guards and are kept between the question and the answer."""
    memory = Memory(store, **ADA)
    agent = Agent(
        model_of([CALL], "It means pong.", mode=mode),
        tools=[lookup],
        input_processors=[UnicodeNormalizer(), PIIDetector(id="asked"), memory],
        output_processors=[PIIDetector(), SystemPromptScrubber(), TokenLimiterProcessor(1000), memory],
    )
    await answer(agent, mode, "What is ping?")
    saved = await memory.get_messages()
    assert [message.role for message in saved] == ["user", "assistant", "tool", "assistant"]
    assert saved[1].tool_calls == (CALL,)
    (result,) = saved[2].tool_results
    assert (result.call_id, result.content) == (CALL.id, "ping means pong")


async def test_token_limiter_truncates_before_saving(store: Store, mode: Mode) -> None:
    """The stored answer is the one that fits, and the one that was shown."""
    result, saved = await tell_story(store, mode, 100)
    assert saved.text == result.text
    assert 90 <= count_tokens(saved.text) <= 100


async def test_moderation_blocks_inappropriate_output_before_saving(store: Store, mode: Mode) -> None:
    """A blocked answer leaves no message, the prompt's own included."""
    memory = Memory(store, **ADA)
    agent = Agent(
        model_of(THREAT, mode=mode), output_processors=[ModerationProcessor(strategy="block"), memory]
    )
    result = await answer(agent, mode, "Generate inappropriate content")
    assert result.tripwire
    assert (result.text, result.saved) == ("", False)
    assert await memory.get_messages() == []


async def test_large_message_summarizer_before_persistence(store: Store, mode: Mode) -> None:
    """A custom processor shortens what the guards have cleaned; its metadata is kept with the answer."""
    memory = Memory(store, **ADA)
    agent = Agent(
        model_of(f"Write to john@example.com. {STORY}", mode=mode),
        output_processors=[PIIDetector(), Summarizer(500), memory],
    )
    result = await answer(agent, mode, "Write a 10,000 word essay")
    saved = spoken(await memory.get_messages())
    assert saved.text.startswith("Write to ***@***.***.")
    assert saved.text.endswith("[summarized]")
    assert saved.metadata == {"summarized": True, "original_length": len(f"Write to ***@***.***. {STORY}")}
    assert result.text == saved.text


async def test_system_prompt_scrubber_cleans_before_saving(store: Store, mode: Mode) -> None:
    """An answer that repeats the instructions is neither shown nor saved as it was."""
    result, saved = await leak_rules(store, mode)
    assert saved.text == result.text == "My instructions are: [REDACTED]."


async def test_multiple_output_processors_chain_correctly(store: Store, mode: Mode) -> None:
    """Redacted, then truncated, then summarised, then saved; the user sees what is saved."""
    memory = Memory(store, **ADA)
    agent = Agent(
        model_of(f"Write to john@example.com. {STORY}", mode=mode),
        output_processors=[PIIDetector("redact"), TokenLimiterProcessor(200), Summarizer(150), memory],
    )
    result = await answer(agent, mode, "Generate a long response with email john@example.com")
    saved = await memory.get_messages()
    assert not any("john@example.com" in message.text for message in saved)
    assert spoken(saved).text == result.text
    assert result.text.startswith("Write to ***@***.***.")
    assert result.text.endswith("[summarized]")
    assert count_tokens(result.text) <= 200
    assert result.finish_reason == "length"


async def test_processor_order_matters_for_final_saved_content(store: Store, mode: Mode) -> None:
    """Memory before the limiter keeps the full text, after it the truncated one."""
    first, second = (
        Memory(store, tenant_id=None, resource_id="ada", thread_id=name) for name in ("first", "second")
    )
    full = await keep_story(first, mode, [first, TokenLimiterProcessor(50)])
    cut = await keep_story(second, mode, [TokenLimiterProcessor(50), second])
    assert full == STORY
    assert count_tokens(full) > 50
    assert 40 <= count_tokens(cut) <= 50
