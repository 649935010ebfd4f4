"""Hooks that are set or written in unusual ways, what they drop, and what order is kept."""

from collections.abc import Awaitable
from typing import Any, Literal

import pytest
from tests.support.agents import CALL, Mode, answer, both_modes, events_of, lookup, model_of, texts
from tests.support.guards import EmailGuard, Hoarder, SsnGuard, Waiter

from recollect import (
    Agent,
    InvalidArgumentError,
    Memory,
    Message,
    Processor,
    RecollectError,
    RunContext,
    StorageError,
    TextDelta,
    ToolCall,
    ToolResult,
    TripWire,
)
from recollect.pipeline.processor import StreamPart

pytestmark = pytest.mark.anyio


class NotAsync(Processor):
    """Has hooks that were written without async."""

    id = "not-async"

    def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:  # pyright: ignore[reportIncompatibleMethodOverride] - the mistake
        """Pass on."""
        del ctx
        return messages


class NotAsyncStream(Processor):
    """The same in the stream."""

    id = "not-async"

    def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:  # pyright: ignore[reportIncompatibleMethodOverride] - the mistake
        """Pass on."""
        del ctx
        return [part]


@both_modes
async def test_hook_is_named_when_it_is_not_async(mode: Mode) -> None:
    """The error says which processor it is and what to write."""
    with pytest.raises(RecollectError, match=r"not-async.: process_input is not async; write `async def"):
        await answer(Agent(model_of("ok"), input_processors=[NotAsync()]), mode, "hi")
    with pytest.raises(RecollectError, match=r"not-async.: process_output_stream is not async"):
        await answer(Agent(model_of("ok"), output_processors=[NotAsyncStream()]), mode, "hi")


@both_modes
async def test_hook_runs_when_it_is_set_on_the_instance(mode: Mode) -> None:
    """A hook counts wherever it comes from; a plain function may return what can be awaited."""
    shout = Processor()

    async def upper(part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        del ctx
        return [TextDelta(part.text.upper())] if isinstance(part, TextDelta) else [part]

    def plain(part: StreamPart, ctx: RunContext) -> Awaitable[list[StreamPart]]:
        return upper(part, ctx)

    vars(shout)["process_output_stream"] = plain
    result = await answer(Agent(model_of("ok then", mode=mode), output_processors=[shout]), mode, "hi")
    assert result.text == "OK THEN"


class DropsCalls(Processor):
    """Lets no call through in the stream."""

    id = "drops-calls"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Drop calls alone."""
        del ctx
        return [] if isinstance(part, ToolCall) else [part]


class DropsCallMessages(Processor):
    """Drops messages with calls from the turn."""

    id = "drops-call-messages"

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Drop them, and put a remark beside the result."""
        del ctx
        return [self._add_remark(m) for m in messages if not m.tool_calls]

    def _add_remark(self, message: Message) -> Message:
        return message


class Remarks(DropsCallMessages):
    """Leaves something beside the result in its message."""

    id = "remarks"

    def _add_remark(self, message: Message) -> Message:
        if not message.tool_results:
            return message
        return message.replace(role="assistant", content=[*message.parts, *Message("user", "seen").parts])


@both_modes
@pytest.mark.parametrize("processor", [DropsCalls(), DropsCallMessages()])
async def test_result_goes_with_its_call_when_a_hook_drops_the_call(mode: Mode, processor: Processor) -> None:
    """No result is shown or kept without its call, also for a memory in the middle of the list."""
    async with Memory() as memory:
        agent = Agent(
            model_of(CALL, "done", mode=mode), tools=[lookup], output_processors=[processor, memory, Waiter()]
        )
        events = await events_of(agent, "hi")
        stored = await memory.get_messages()
    assert [event.type for event in events if event.type.startswith("tool")] == []
    assert texts(stored) == [("user", "hi"), ("assistant", "done")]


async def test_rest_of_a_message_stays_when_a_result_goes_with_its_call() -> None:
    """Only the result is dropped."""
    result = await Agent(model_of(CALL, "done"), tools=[lookup], output_processors=[Remarks()]).generate("hi")
    assert texts(result.messages) == [("user", "hi"), ("assistant", "seen"), ("assistant", "done")]
    assert [m for m in result.messages if m.tool_results] == []


class TooLate(Processor):
    """Lets text out in the stream and changes it in the result."""

    id = "too-late"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Pass on."""
        del ctx
        return [part]

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Change what was released."""
        del ctx
        return [m.replace(content="else") if m.role == "assistant" else m for m in messages]


class EditsTools(Processor):
    """Lets tool parts out in the stream and changes them in the result."""

    id = "edits-tools"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Pass on."""
        del ctx
        return [part]

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Change results."""
        del ctx
        other = ToolResult(CALL.id, CALL.name, "else")
        return [m.replace(content=[other]) if m.tool_results else m for m in messages]


class Observes(Processor):
    """Promises to observe, and edits."""

    id = "observes"
    observes = True

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Change the answer."""
        del ctx
        return [m.replace(content="else") if m.role == "assistant" else m for m in messages]


@both_modes
@pytest.mark.parametrize(
    ("processor", "problem"),
    [
        (TooLate(), r"too-late.: process_output_result changed text .* drop the stream hook"),
        (
            EditsTools(),
            "edits-tools.: .* changed tool calls or results .*change it there, or drop the stream hook",
        ),
        (Observes(), "observes.: process_output_result changed text .*remove `observes`"),
    ],
)
async def test_released_text_is_never_edited_again(mode: Mode, processor: Processor, problem: str) -> None:
    """A processor that changes in the turn what was released gets an error that says what to do."""
    async with Memory() as memory:
        agent = Agent(
            model_of(["See.", CALL], "ok", mode=mode), tools=[lookup], output_processors=[processor, memory]
        )
        with pytest.raises(RecollectError, match=problem):
            await answer(agent, mode, "hi")
        assert await memory.get_messages() == []


class Inserts(Processor):
    """Puts a message before the prompt, and the last first."""

    id = "inserts"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Do so."""
        del ctx
        return [Message("user", "by the way"), messages[-1], *messages[:-1]]


class Hides(Processor):
    """Hides messages from the model, not from memory."""

    id = "hides"
    edits = "view"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Show the last alone, and one more that is not kept."""
        del ctx
        return [Message("user", "shown only"), messages[-1]]


class BringsBack(Processor):
    """Shows again what was hidden, in other words."""

    id = "brings-back"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Do so under the id that it had."""
        del ctx
        return [*messages, Message("user", "B", id="b", origin="input")]


def say(*words: str) -> list[Message]:
    """Return a prompt whose messages have ids."""
    return [Message("user", word, id=word) for word in words]


@both_modes
@pytest.mark.parametrize(
    ("processors", "kept"),
    [
        ([Inserts()], ["by the way", "c", "a", "b"]),
        ([Hides(), Inserts()], ["a", "b", "by the way", "c"]),
        ([Hides(), BringsBack()], ["a", "c", "B"]),
    ],
)
async def test_messages_are_kept_in_the_order_in_which_they_are_shown(
    mode: Mode, processors: list[Processor], kept: list[str]
) -> None:
    """What a processor puts before the prompt is stored before it; what was hidden stays in its place."""
    async with Memory() as memory:
        agent = Agent(model_of("ok"), input_processors=[*processors], output_processors=[memory])
        await answer(agent, mode, say("a", "b", "c"))
        stored = await memory.get_messages()
    assert [message.text for message in stored] == [*kept, "ok"]


class Checks(Processor):
    """Looks at tool calls."""

    id = "checks"

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Pass on."""
        del ctx
        return call


class Reads(Processor):
    """Looks at tool results."""

    id = "reads"

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:
        """Pass on."""
        del ctx
        return result


@pytest.mark.parametrize(
    ("side", "processor", "problem"),
    [
        (
            "input",
            Checks(),
            "checks has only process_tool_call, which would never run here; put it into output",
        ),
        ("output", Reads(), "reads has only process_tool_result, .* put it into input_processors"),
        ("input", Hoarder(), "hoarder has only process_output_stream and finish_output_stream"),
    ],
)
def test_processor_is_refused_when_none_of_its_hooks_would_run(
    side: Literal["input", "output"], processor: Processor, problem: str
) -> None:
    """A guard in the wrong list is no guard, and is said at construction."""
    sides: dict[str, Any] = {f"{side}_processors": [processor]}
    with pytest.raises(InvalidArgumentError, match=problem):
        Agent("offline", **sides)


def test_processor_is_taken_on_either_side_when_it_has_hooks_of_both() -> None:
    """A guard of both sides may be used on one, and one without hooks anywhere."""
    for guard in (SsnGuard(), EmailGuard(), Processor()):
        Agent("offline", input_processors=[guard])
        Agent("offline", output_processors=[guard])


class Splitter(Processor):
    """Splits each text into two chunks."""

    id = "splitter"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Cut text in the middle."""
        del ctx
        if not isinstance(part, TextDelta):
            return [part]
        middle = len(part.text) // 2
        return [TextDelta(part.text[:middle]), TextDelta(part.text[middle:])]


@both_modes
async def test_text_is_whole_when_a_hook_splits_a_chunk(mode: Mode) -> None:
    """All chunks go on, in order, and the trace counts them once."""
    agent = Agent(model_of("Hello, world", mode=mode), output_processors=[Splitter()])
    result = await answer(agent, mode, "hi")
    assert result.text == "Hello, world"
    entry = result.trace.find("splitter", "stream")
    assert entry is not None
    assert (entry.characters_in, entry.characters_out) == (12, 12)


class Broken(Processor):
    """Looks on, and fails in every hook."""

    id = "broken"
    observes = True

    def __init__(self, error: Exception) -> None:
        """Take the error to fail with."""
        self._error = error

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Fail."""
        del messages, ctx
        raise self._error

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Fail."""
        del call, ctx
        raise self._error

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Fail."""
        del part, ctx
        raise self._error

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Fail."""
        del ctx
        raise self._error

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Fail."""
        del messages, ctx
        raise self._error


@both_modes
@pytest.mark.parametrize("error", [OSError("disk full"), StorageError("gone")])
async def test_turn_is_saved_when_an_observer_fails(
    mode: Mode, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Its error is in the trace and in the log, and nothing more comes of it."""
    broken = Broken(error)
    async with Memory() as memory:
        agent = Agent(
            model_of(["Let me see. ", CALL], "It means pong.", mode=mode),
            tools=[lookup],
            memory=memory,
            input_processors=[broken],
            output_processors=[broken],
        )
        result = await answer(agent, mode, "what?")
        assert (result.text, result.saved) == ("Let me see. \nIt means pong.", True)
        assert len(await memory.get_messages()) == 4
    assert {entry.phase for entry in result.trace if entry.error} == {
        "input",
        "tool_call",
        "stream",
        "result",
    }
    assert "broken failed, and the run goes on" in caplog.text


@pytest.mark.parametrize("error", [InvalidArgumentError("user_id", "is missing"), TripWire("no")])
async def test_run_ends_when_an_observer_finds_a_mistake_or_trips(error: Exception) -> None:
    """What the caller must see is not hidden."""
    agent = Agent(model_of("ok"), output_processors=[Broken(error)])
    with pytest.raises(type(error)):
        await agent.generate("hi", raise_on_tripwire=True)
