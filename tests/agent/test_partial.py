"""What is kept of a run that was broken off is what was seen, and the reason is what is heard."""

import asyncio
import re

import pytest
from tests.support.agents import ADA, CALL, lookup, texts
from tests.support.guards import SsnGuard, Waiter
from tests.support.models import Halting

from recollect import (
    Agent,
    Event,
    Memory,
    Message,
    Processor,
    RunContext,
    Span,
    SpanGuard,
    TextDelta,
    ToolCall,
)
from recollect.pipeline.processor import StreamPart
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class LongLimit(Processor):
    """Aborts once it has been shown more than fifteen characters."""

    id = "long-limit"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Count."""
        ctx.state["seen"] = ctx.state.get("seen", 0) + (len(part.text) if isinstance(part, TextDelta) else 0)
        if ctx.state["seen"] > 15:
            ctx.abort("too long")
        return [part]


class Refuser(Processor):
    """Aborts whenever a turn is finished."""

    id = "refuser"
    observes = True

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Abort."""
        del messages
        ctx.abort("never")


class Pins(SpanGuard):
    """Redacts four digits in words that hold four digits."""

    id = "pins"

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Find them."""
        del start, ctx
        return [Span(*match.span(), "<PIN 0000>") for match in re.finditer(r"\b\d{4}\b", text)]

    def open_from(self, text: str) -> int:
        """Say where one may have begun."""
        match = re.search(r"\b\d{1,4}\Z", text)
        return match.start() if match else len(text)


async def cancelled(agent: Agent, model: Halting) -> str:
    """Stream until the model halts, cancel the task, and return the text that was seen."""
    seen: list[str] = []

    async def consume() -> None:
        async for event in agent.stream("hi", save_partial=True, **ADA):
            seen.append(event.text)  # noqa: PERF401 - what was seen counts when it is cut off too

    task = asyncio.create_task(consume())
    await model.halted.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return "".join(seen)


async def test_text_that_a_guard_held_back_is_not_saved_when_a_stream_is_cancelled() -> None:
    """Stored equals seen: the beginning of a secret that nobody saw is not kept either."""
    async with Memory() as memory:
        model = Halting("Your number is ", "123-4")
        seen = await cancelled(Agent(model, memory=memory, output_processors=[SsnGuard()]), model)
        saved = await memory.get_messages(**ADA)
    assert seen == "Your number is "
    assert texts(saved) == [("user", "hi"), ("assistant", seen)]


async def test_what_was_seen_is_saved_when_a_guard_would_edit_its_own_words_again() -> None:
    """Stored equals seen, whatever a guard does to text that it has released."""
    async with Memory() as memory:
        model = Halting("Pin 1234. ", "That ", "was it. ")
        seen = await cancelled(Agent(model, memory=memory, output_processors=[Pins()]), model)
        saved = await memory.get_messages(**ADA)
    assert seen.startswith("Pin <PIN 0000>.")
    assert texts(saved) == [("user", "hi"), ("assistant", seen)]


@pytest.mark.parametrize("guard", [LongLimit(), Refuser()])
async def test_cancellation_is_heard_when_a_guard_stands_in_the_way_of_saving(guard: Processor) -> None:
    """A guard's state of the run is not used again, and its trip never takes the place of a cancellation."""
    async with Memory() as memory:
        model = Halting("0123456789")
        await cancelled(Agent(model, memory=memory, output_processors=[guard]), model)
        saved = await memory.get_messages(**ADA)
    assert len(saved) == (0 if guard.id == "refuser" else 2)


async def test_timeout_is_heard_when_saving_fails() -> None:
    """What runs out of time ends in a TimeoutError."""
    async with Memory() as memory:
        agent = Agent(Halting("one "), memory=memory, output_processors=[Refuser()])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent.stream("hi", save_partial=True, **ADA).result(), 0.05)


async def test_block_is_left_quietly_when_saving_fails(caplog: pytest.LogCaptureFixture) -> None:
    """Leaving `async with` raises nothing; the log and the trace say that nothing was saved."""
    async with Memory() as memory:
        agent = Agent(Halting("one ", "two "), memory=memory, output_processors=[Refuser()])
        async with agent.stream("hi", save_partial=True, **ADA) as stream:
            await stream.next_event()
        assert await memory.get_messages(**ADA) == []
    assert "could not be saved" in caplog.text


@pytest.mark.parametrize("events", [1, 2, 3, 4])
async def test_what_waits_for_its_turn_is_not_saved_when_a_stream_is_left(events: int) -> None:
    """A guard releases everything at once; what was not read yet was not seen, and is not kept."""
    async with Memory() as memory:
        model = ScriptedModel([["Let me see.", CALL], "It means pong."])
        agent = Agent(model, tools=[lookup], memory=memory, output_processors=[Waiter()])
        seen: list[Event] = []
        async with agent.stream("hi", save_partial=True, **ADA) as stream:
            async for event in stream:
                seen.append(event)
                if len(seen) == events:
                    break
        saved = await memory.get_messages(**ADA)
    assert [event.type for event in seen] == ["text", "tool_call", "tool_result", "text"][:events]
    spoken = [message.text for message in saved if message.role == "assistant"]
    assert "\n".join(spoken) == "".join(event.text for event in seen)
    assert [call for m in saved for call in m.tool_calls] == [e.tool_call for e in seen if e.tool_call]
    assert [r for m in saved for r in m.tool_results] == [e.tool_result for e in seen if e.tool_result]


async def test_tool_call_is_kept_as_a_guard_redacts_it_when_a_stream_is_left() -> None:
    """Tool parts and the prompt of a partial turn have left the guards."""
    call = ToolCall("c", "lookup", {"word": "123-45-6789"})

    def lookup(word: str) -> str:
        """Look a word up."""
        return word

    async with Memory() as memory:
        model = Halting("Let me see. ", call)
        model.go_on.set()
        agent = Agent(model, tools=[lookup], memory=memory, output_processors=[SsnGuard()])
        async with agent.stream("mine is 123-45-6789", save_partial=True, **ADA) as stream:
            async for event in stream:
                if event.type == "tool_call":
                    break
        saved = await memory.get_messages(**ADA)
    assert saved[0].text == "mine is [REDACTED]"
    assert saved[1].tool_calls[0].arguments == {"word": "[REDACTED]"}
    assert saved[1].metadata == {"aborted": True}
