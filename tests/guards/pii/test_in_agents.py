"""`PIIDetector` in an agent with memory, for `generate` and `stream`."""

import pytest
from tests.support.agents import (
    CALL,
    Mode,
    answer,
    both_modes,
    events_of,
    lookup,
    model_of,
    spoken,
    streamed_text,
    texts,
)

from recollect import Agent, Memory, PIIDetector, ToolCall

pytestmark = [pytest.mark.anyio, both_modes]


async def test_model_is_not_shown_what_an_input_guard_redacts(mode: Mode) -> None:
    """Before memory on the input side the model sees the masked prompt, and memory keeps it."""
    async with Memory() as memory:
        model = model_of("Noted.", mode=mode)
        agent = Agent(model, memory=memory, input_processors=[PIIDetector()])
        await answer(agent, mode, "Call +1 415 555 0132")
        saved = await memory.get_messages()
    assert model.shown[0][-1].text == "Call [REDACTED]"
    assert texts(saved)[0] == ("user", "Call [REDACTED]")


async def test_blocked_answer_leaves_nothing_behind(mode: Mode) -> None:
    """A tripwire instead of text, and no message is kept."""
    async with Memory() as memory:
        agent = Agent(
            model_of("It is 4111 1111 1111 1111.", mode=mode),
            output_processors=[PIIDetector("block"), memory],
        )
        result = await answer(agent, mode, "Which card?")
        saved = await memory.get_messages()
    assert result.tripwire
    assert result.tripwire.processor_id == "pii"
    assert result.tripwire.reason == "personal data found: card"
    assert result.text == ""
    assert saved == []


async def test_tool_arguments_and_results_are_kept_clean(mode: Mode) -> None:
    """The tool gets what the model wrote; what is shown and kept of the call and its result is redacted."""
    call = ToolCall(CALL.id, CALL.name, {"word": "ada@example.org"})
    async with Memory() as memory:
        agent = Agent(
            model_of(call, "Done.", mode=mode),
            tools=[lookup],
            memory=memory,
            output_processors=[PIIDetector()],
        )
        await answer(agent, mode, "Look it up")
        saved = await memory.get_messages()
    assert saved[1].tool_calls[0].arguments == {"word": "***@***.***"}
    assert saved[2].tool_results[0].content == "***@***.*** means pong"


async def test_what_streams_is_what_is_stored(mode: Mode) -> None:
    """A refresh shows nothing that the stream did not, whatever was cut where."""
    text = "Card 4111 1111 1111 1111, mail a@b.example, key sk-proj-" + "a1" * 300 + ", bye."
    async with Memory() as memory:
        agent = Agent(model_of(text, mode=mode), output_processors=[PIIDetector(), memory])
        events = await events_of(agent, "go")
        saved = await memory.get_messages()
    assert streamed_text(events) == saved[1].text == "Card [REDACTED], mail ***@***.***, key [REDACTED], bye."


async def test_stored_text_is_redacted_only_when_the_guard_comes_before_memory(mode: Mode) -> None:
    """A guard after memory changes what is shown, one before it also what is saved."""
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
