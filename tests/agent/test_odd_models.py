"""Models and readers that do not behave: what came before is kept, nothing hangs, and the cause is told."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from tests.support.agents import lookup

from recollect import Agent, Memory, Message, Processor, RunContext, TextDelta, ToolCall, ToolResult
from recollect.errors import ModelError
from recollect.messages import TextPart
from recollect.pipeline.processor import StreamPart
from recollect.pipeline.recovery import Delivery
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Letters:
    """An async iterator that is no generator: it cannot be closed."""

    def __init__(self) -> None:
        self._left = ["a", "b"]

    def __aiter__(self) -> "Letters":
        return self

    async def __anext__(self) -> str:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop(0)


class ModelOf:
    """A model that answers with what a function returns."""

    def __init__(self, respond: Any) -> None:  # noqa: ANN401 - also what no model should return
        self.respond = lambda messages: respond()  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType] # noqa: ARG005


async def test_model_may_answer_with_any_async_iterator() -> None:
    """It need not be a generator."""
    assert (await Agent(ModelOf(Letters)).generate("hi")).text == "ab"


async def test_model_that_answers_with_something_else_is_told_so() -> None:
    """The error says what to write."""
    with pytest.raises(ModelError, match="returned a list; write an async generator"):
        await Agent(ModelOf(lambda: ["a"])).generate("hi")


async def _swallows_cancellation() -> AsyncIterator[str]:
    yield "one "
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    yield "bye"


async def test_leaving_ends_a_run_whose_model_swallows_the_cancellation() -> None:
    """What was read is kept, and nobody waits for ever."""
    async with Memory() as memory:
        stream = Agent(ModelOf(_swallows_cancellation), memory=memory).stream("hi", save_partial=True)
        assert (await anext(stream)).text == "one "
        await asyncio.sleep(0.01)
        async with asyncio.timeout(10):
            await stream.aclose()
        assert [message.text for message in await memory.get_messages()] == ["hi", "one "]


async def _fails_when_closed() -> AsyncIterator[str]:
    try:
        for _ in range(100):
            yield "word "
    finally:
        raise OSError("connection lost while closing")


class Trips(Processor):
    """Stops at the first chunk."""

    id = "trips"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Stop."""
        del part
        ctx.abort("no")


async def test_trip_stays_a_trip_when_the_model_fails_while_it_is_closed() -> None:
    """Why the run ended is what the caller hears."""
    result = await Agent(ModelOf(_fails_when_closed), output_processors=[Trips()]).stream("hi").result()
    assert result.tripwire
    assert result.tripwire.reason == "no"


async def test_partial_turn_is_kept_when_the_model_fails_while_it_is_closed() -> None:
    """The reader has left, and has what it has."""
    async with Memory() as memory:
        async with Agent(ModelOf(_fails_when_closed), memory=memory).stream(
            "hi", save_partial=True
        ) as stream:
            await anext(stream)
        assert [message.text for message in await memory.get_messages()] == ["hi", "word "]


async def _cancels_itself() -> AsyncIterator[str]:
    yield "one "
    raise asyncio.CancelledError


async def test_cancellation_of_the_models_own_is_a_failure_of_the_model() -> None:
    """Nobody cancelled the reader."""
    async with Memory() as memory:
        stream = Agent(ModelOf(_cancels_itself), memory=memory).stream("hi", save_partial=True)
        with pytest.raises(ModelError, match="gave up something"):
            await stream.result()
        assert await memory.get_messages() == []


class Fatal(BaseException):
    """Ends a program."""


async def _is_fatal() -> AsyncIterator[str]:
    yield "one "
    raise Fatal


async def test_what_ends_a_program_reaches_the_reader() -> None:
    """A stream that was cut does not look finished."""
    stream = Agent(ModelOf(_is_fatal)).stream("hi")
    with pytest.raises(Fatal):
        await stream.result()
    gc.collect()


async def test_reader_is_not_left_waiting_when_the_stream_is_closed_before_it_began() -> None:
    """Another task closes it."""
    stream = Agent(ScriptedModel("hello")).stream("hi")
    reader = asyncio.ensure_future(anext(stream, None))
    closer = asyncio.ensure_future(stream.aclose())
    async with asyncio.timeout(10):
        await closer
        assert await reader is None


async def test_stream_that_is_lost_in_a_cycle_ends_in_order() -> None:
    """Its task is not collected half-way: the model's own end is reached."""
    ended = asyncio.Event()

    async def speak() -> AsyncIterator[str]:
        try:
            for _ in range(100):
                yield "word "
        finally:
            await asyncio.sleep(0)
            ended.set()

    holder: dict[str, object] = {}
    stream = Agent(ModelOf(speak)).stream("hi")
    holder |= {"me": holder, "stream": stream}
    await anext(stream)
    del holder, stream
    gc.collect()
    async with asyncio.timeout(10):
        await ended.wait()


def test_call_that_is_repeated_later_was_not_received_with_the_first() -> None:
    """Each delivered call counts once."""
    call = ToolCall("c1", "lookup")
    released = [
        Message("assistant", [call]),
        Message("tool", [ToolResult("c1", "lookup")]),
        Message("assistant", [call]),
    ]
    kept = Delivery(0, [call, ToolResult("c1", "lookup")]).trim(released)
    assert [message.role for message in kept] == ["assistant", "tool"]


class StopsAtOnce(Processor):
    """Ends the answer before the model is asked."""

    id = "stops"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stop."""
        ctx.stop()
        return messages


async def test_model_is_not_asked_when_the_input_side_ends_the_answer() -> None:
    """`ctx.stop` means no further request."""
    model = ScriptedModel("never said")
    result = await Agent(model, input_processors=[StopsAtOnce()]).generate("hi")
    assert (result.text, result.finish_reason, model.shown) == ("", "stop", [])


class Rebuilds(Processor):
    """Makes a new call of every call."""

    id = "rebuilds"

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Build it again."""
        del ctx
        return ToolCall(call.id, call.name, dict(call.arguments))


async def test_guard_may_build_a_new_call_whatever_the_model_wrote() -> None:
    """Also of one whose arguments cannot be stored."""
    odd = ToolCall("c1", "lookup", {"x": object()})
    model = ScriptedModel([[odd], "done"])
    assert (await Agent(model, output_processors=[Rebuilds()]).generate("hi")).text == "done"


async def test_chunks_come_through_a_holding_guard_only_as_far_as_they_are_asked_for() -> None:
    """A guard that holds text back does not let the model run ahead of a paused reader."""

    class Holds(Processor):
        id = "holds"

        async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
            begun = ctx.state.setdefault("begun", part)
            return [part] if begun is part and isinstance(part, TextDelta) else []

    read = 0

    async def speak() -> AsyncIterator[str]:
        nonlocal read
        for _ in range(1000):
            read += 1
            yield "x"

    async with Agent(ModelOf(speak), output_processors=[Holds()]).stream("hi") as stream:
        await anext(stream)
        for _ in range(100):
            await asyncio.sleep(0)
        assert read <= 32


class Redacts(Processor):
    """Edits what the model said itself, before it is asked again."""

    id = "redacts"
    edits = "view"
    every_step = True

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Replace its words, and keep its calls."""
        del ctx
        return [
            m.replace(content=[TextPart("REDACTED"), *m.tool_calls]) if m.role == "assistant" else m
            for m in messages
        ]


async def test_model_is_shown_its_own_words_as_processors_left_them() -> None:
    """The provider's own form of an answer is used only for messages that nobody has edited."""
    asked: list[str] = []

    async def speak(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        asked.append(str(messages))
        if len(asked) == 1:
            yield "secret "
            yield {0: DeltaToolCall(name="lookup", json_args='{"word": "x"}', tool_call_id="c1")}
        else:
            yield "done"

    agent = Agent(FunctionModel(stream_function=speak), tools=[lookup], input_processors=[Redacts()])
    assert (await agent.generate("hi")).text == "secret \ndone"
    assert "REDACTED" in asked[1]
    assert "secret" not in asked[1]
