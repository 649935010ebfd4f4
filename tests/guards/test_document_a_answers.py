"""Document A's ordering and edge-case tests with the real moderation, scrubber and token limiter."""

import pytest
from tests.guards.document_a import RULES, STORY, limited_story, scrubbed_rules
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
from tests.support.guards import EmailGuard
from tests.support.traps import ResultTrap

from recollect import (
    Agent,
    Memory,
    ModerationProcessor,
    SystemPromptScrubber,
    TokenLimiterProcessor,
    ToolCallFilterProcessor,
    count_tokens,
)

pytestmark = [pytest.mark.anyio, both_modes]

THREAT = "I will kill you."


async def test_moderation_happens_before_memory_retrieval(mode: Mode) -> None:
    """Inappropriate content is blocked before memory is accessed."""
    memory = Memory(last_messages=10)
    agent = Agent(model_of("never said"), input_processors=[ModerationProcessor(strategy="block"), memory])
    assert (await answer(agent, mode, THREAT)).tripwire
    assert is_unopened(memory)


async def test_moderation_blocks_inappropriate_output_before_saving(mode: Mode) -> None:
    """A blocked answer leaves no message, the prompt's own included."""
    async with Memory() as memory:
        agent = Agent(model_of(THREAT, mode=mode), output_processors=[ModerationProcessor(), memory])
        result = await answer(agent, mode, "Say something awful")
        assert await memory.get_messages() == []
    assert result.tripwire
    assert (result.text, result.saved) == ("", False)


async def test_token_limit_applied_before_persistence(mode: Mode) -> None:
    """What is kept has at most a hundred tokens, and is what was shown."""
    result, saved = await limited_story(mode, 100)
    assert 90 <= count_tokens(saved.content) <= 100
    assert saved.content == result.text


async def test_system_prompt_leaks_cleaned_before_saving(mode: Mode) -> None:
    """The saved message has the mark, and nothing of the instructions."""
    _, saved = await scrubbed_rules(mode)
    assert saved.content == "My instructions are: [REDACTED]."


async def test_multiple_memory_features_with_guardrails(mode: Mode) -> None:
    """Over several turns guards, history, other threads and view processors work together."""
    async with Memory(last_messages=10, other_threads=2, resource_id="ada") as memory:
        await memory.add_message("user", "my boat is red", thread_id="elsewhere")
        model = model_of([CALL], f"Mail a@b.example now. {RULES} Bye.", "X is a letter.", mode=mode)
        agent = Agent(
            model,
            instructions=RULES,
            tools=[lookup],
            input_processors=[
                ModerationProcessor(),
                *memory.get_input_processors(),
                ToolCallFilterProcessor(),
                TokenLimiterProcessor(1000),
            ],
            output_processors=[
                ModerationProcessor(),
                EmailGuard(),
                SystemPromptScrubber(),
                TokenLimiterProcessor(1000),
                *memory.get_output_processors(),
            ],
        )
        await answer(agent, mode, "Hello", thread_id="t1")
        await answer(agent, mode, "Tell me about X", thread_id="t1")
        saved = await memory.get_messages(thread_id="t1")
    last = model.shown[2]
    assert [message.origin for message in last] == ["memory", "memory", "memory", "input"]
    assert "my boat is red" in last[0].text
    assert texts(last)[1:] == [
        ("user", "Hello"),
        ("assistant", "Mail ***@***.*** now. [REDACTED]. Bye."),
        ("user", "Tell me about X"),
    ]
    assert [message.role for message in saved] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]


@pytest.mark.parametrize("is_spelled_out", [False, True])
async def test_processor_order_affects_final_output(mode: Mode, *, is_spelled_out: bool) -> None:
    """Memory before the limiter keeps the full text, behind it the cut one; the user sees the cut one."""
    kept: list[str] = []
    for is_first in (True, False):
        async with Memory() as memory:
            saving = memory.get_output_processors() if is_spelled_out else [memory]
            limiter = TokenLimiterProcessor(50)
            agent = Agent(
                model_of(STORY, mode="generate"),
                output_processors=[*saving, limiter] if is_first else [limiter, *saving],
            )
            result = await answer(agent, mode, "Write a long response")
            kept.append(spoken(await memory.get_messages()).content)
        assert count_tokens(result.text) <= 50
    assert kept[0] == STORY
    assert count_tokens(kept[1]) <= 50
    assert STORY.startswith(kept[1])


async def test_error_in_output_processor_prevents_memory_corruption(mode: Mode) -> None:
    """An error behind the guards reaches the caller, and nothing is kept."""
    async with Memory() as memory:
        agent = Agent(
            model_of("fine", mode=mode),
            output_processors=[
                SystemPromptScrubber(),
                TokenLimiterProcessor(10),
                ResultTrap(ValueError("Processing failed")),
                *memory.get_output_processors(),
            ],
        )
        with pytest.raises(ValueError, match="Processing failed"):
            await answer(agent, mode, "Test")
        assert await memory.get_messages() == []
