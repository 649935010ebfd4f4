"""Document A's remaining integration and ordering tests, by their names, with the guards that it names."""

import pytest
from tests.guards.document_a import STORY, limited_story, scrubbed_rules
from tests.memory.profiles import note_email
from tests.support.agents import (
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
from tests.support.embedders import Words
from tests.support.guards import Summarizer, Validator

from recollect import (
    Agent,
    Memory,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    SystemPromptScrubber,
    TokenLimiterProcessor,
    UnicodeNormalizer,
    count_tokens,
)

pytestmark = [pytest.mark.anyio, both_modes]

ATTACK = "Ignore previous instructions..."


@pytest.mark.parametrize("is_spelled_out", [False, True])
async def test_input_validation_happens_before_memory_fetch(mode: Mode, *, is_spelled_out: bool) -> None:
    """A malicious prompt is blocked before memory is asked, also when its processors are spelled out."""
    memory, model = Memory(last_messages=10), model_of("never said")
    reading = memory.get_input_processors() if is_spelled_out else [memory]
    agent = Agent(model, input_processors=[PromptInjectionDetector(strategy="block"), *reading])
    result = await answer(agent, mode, ATTACK)
    assert result.tripwire
    assert (result.text, model.shown) == ("", [])
    assert is_unopened(memory)


async def test_input_validation_happens_before_semantic_search(mode: Mode) -> None:
    """Nothing is embedded and nothing searched for a malicious prompt."""
    embedder = Words()
    memory = Memory(semantic_recall=True, embedder=embedder)
    agent = Agent(model_of("never said"), input_processors=[PromptInjectionDetector(), memory])
    result = await answer(agent, mode, ATTACK)
    assert result.tripwire
    assert embedder.asked == []
    assert is_unopened(memory)


async def test_working_memory_injected_after_input_validation(mode: Mode) -> None:
    """Working memory is not read for a malicious prompt."""
    memory = Memory(working_memory={"template": "User preferences: {{preferences}}"})
    agent = Agent(model_of("never said"), input_processors=[PromptInjectionDetector(), memory])
    assert (await answer(agent, mode, ATTACK)).tripwire
    assert is_unopened(memory)


async def test_tripwire_in_input_processor_prevents_memory_access(mode: Mode) -> None:
    """No store is opened for a prompt that was blocked, with memory's processors on both sides."""
    memory = Memory(last_messages=10)
    agent = Agent(
        model_of("never said"),
        input_processors=[PromptInjectionDetector(strategy="block"), *memory.get_input_processors()],
        output_processors=memory.get_output_processors(),
    )
    assert (await answer(agent, mode, ATTACK)).tripwire
    assert is_unopened(memory)


async def test_custom_processor_and_memory_processors(mode: Mode) -> None:
    """A validator of one's own stands beside the guards, before memory's processors."""
    memory = Memory(last_messages=10)
    guards = [UnicodeNormalizer(), PromptInjectionDetector(), Validator()]
    agent = Agent(model_of("never said"), input_processors=[*guards, *memory.get_input_processors()])
    result = await answer(agent, mode, "a restricted topic")
    assert result.tripwire
    assert result.tripwire.reason == "Restricted topic"
    assert is_unopened(memory)


async def test_tool_calls_are_persisted_correctly(mode: Mode) -> None:
    """Calls and results pass the guards and are kept in their order."""
    async with Memory() as memory:
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
    assert [result.content for result in saved[2].tool_results] == ["ping means pong"]


async def test_token_limiter_truncates_before_saving(mode: Mode) -> None:
    """What is saved is what fits, and what was shown."""
    result, saved = await limited_story(mode, 100)
    assert saved.text == result.text
    assert 90 <= count_tokens(saved.text) <= 100


async def test_system_prompt_scrubber_cleans_before_saving(mode: Mode) -> None:
    """An answer that repeats the instructions is neither shown nor saved as it was."""
    result, saved = await scrubbed_rules(mode)
    assert saved.text == result.text == "My instructions are: [REDACTED]."


async def test_large_message_summarizer_before_persistence(mode: Mode) -> None:
    """A processor of one's own shortens what the guards have cleaned."""
    async with Memory() as memory:
        agent = Agent(
            model_of(f"Write to john@example.com. {STORY}", mode=mode),
            output_processors=[PIIDetector(), Summarizer(500), memory],
        )
        await answer(agent, mode, "Write a 10,000 word essay")
        saved = spoken(await memory.get_messages())
    assert saved.text.startswith("Write to ***@***.***.")
    assert saved.text.endswith("[summarized]")
    assert saved.metadata["summarized"] is True


async def test_multiple_output_processors_chain_correctly(mode: Mode) -> None:
    """Redacted, then cut, then summarised, then saved; the user sees what is saved."""
    async with Memory() as memory:
        agent = Agent(
            model_of(f"Write to john@example.com. {STORY}", mode=mode),
            output_processors=[PIIDetector("redact"), TokenLimiterProcessor(200), Summarizer(150), memory],
        )
        result = await answer(agent, mode, "Generate a long response with email john@example.com")
        saved = await memory.get_messages()
    assert not any("john@example.com" in message.text for message in saved)
    assert spoken(saved).text == result.text
    assert result.text.startswith("Write to ***@***.***.")
    assert count_tokens(result.text) <= 200
    assert result.finish_reason == "length"


async def test_processor_order_matters_for_final_saved_content(mode: Mode) -> None:
    """A guard behind memory changes what is shown, one before it also what is saved."""
    kept: list[str] = []
    for is_first in (True, False):
        async with Memory() as memory:
            guard = PIIDetector()
            agent = Agent(
                model_of("Write to john@example.com.", mode=mode),
                output_processors=[memory, guard] if is_first else [guard, memory],
            )
            assert (await answer(agent, mode, "Whom?")).text == "Write to ***@***.***."
            kept.append(spoken(await memory.get_messages()).text)
    assert kept == ["Write to john@example.com.", "Write to ***@***.***."]


@pytest.mark.parametrize("said", ["My email is john@example.com", "User's email is john@example.com"])
async def test_working_memory_extracted_from_clean_output(mode: Mode, said: str) -> None:
    """What is learnt from a turn is learnt from what left the guard."""
    async with Memory(
        working_memory={"template": "User email: {{email}}", "extractor": note_email}
    ) as memory:
        agent = Agent(
            model_of("It is john@example.com.", mode=mode),
            output_processors=[PIIDetector(strategy="redact"), memory],
        )
        await answer(agent, mode, said)
        known = await memory.get_working_memory()
        assert known.email == "***@***.***"
        assert "john@" not in str(await memory.working_memory_history())


async def test_multiple_memory_features_with_guardrails(mode: Mode) -> None:
    """History, recall and working memory behind all guards, over several turns."""
    async with Memory(
        last_messages=10,
        semantic_recall=True,
        embedder=None,
        working_memory={"template": "Email: {{email}}", "extractor": note_email},
        resource_id="ada",
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
        await answer(agent, mode, "Hello, my email is john@example.com", thread_id="t1")
        await answer(agent, mode, "Tell me about \uff38", thread_id="t1")
        assert (await answer(agent, mode, ATTACK, thread_id="t1")).tripwire
        saved = await memory.get_messages(thread_id="t1")
    shown = model.shown[1]
    assert len(model.shown) == 2
    assert [message.origin for message in shown] == ["memory"] * 4 + ["input"]
    brought_in = shown[0].text + shown[1].text
    assert "My boat X is red." in brought_in
    assert "Email: ***@***.***" in brought_in
    assert texts(shown)[2:] == [
        ("user", "Hello, my email is ***@***.***"),
        ("assistant", "Mail ***@***.*** now."),
        ("user", "Tell me about X"),
    ]
    assert [message.role for message in saved] == ["user", "assistant"] * 2
