"""The chain itself: what hooks must return, what reaches the model, and what is kept."""

from typing import Any

import pytest
from tests.support.agents import (
    CALL,
    Mode,
    answer,
    both_modes,
    events_of,
    lookup,
    model_of,
    streamed_text,
    texts,
)
from tests.support.contexts import context, new_run
from tests.support.guards import EmailGuard, Hoarder, Summarizer, Waiter

from recollect import (
    Agent,
    Memory,
    Message,
    Processor,
    RecollectError,
    RunContext,
    TextDelta,
    ToolCall,
    ToolResult,
    TripWire,
)
from recollect.pipeline.processor import StreamPart
from recollect.testing import ScriptedModel

pytestmark = [pytest.mark.anyio]


class Returns(Processor):
    """Returns something of a wrong type from one of its hooks."""

    id = "returns"

    def __init__(self, value: object) -> None:
        """Take what to return."""
        self._value: Any = value


class BadInput(Returns):
    """Does so for the prompt."""

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Return it."""
        del messages, ctx
        return self._value


class BadCall(Returns):
    """Does so for a tool call."""

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Return it."""
        del call, ctx
        return self._value


class BadToolResult(Returns):
    """Does so for a tool result."""

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:
        """Return it."""
        del result, ctx
        return self._value


class BadStream(Returns):
    """Does so in the stream."""

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Return it."""
        del part, ctx
        return self._value


class BadFinish(Returns):
    """Does so at the end of the stream."""

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Return it."""
        del ctx
        return self._value


class BadResult(Returns):
    """Does so for the turn."""

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Return it."""
        del messages, ctx
        return self._value


WRONG = [
    (BadInput(None), "returns.: process_input must return a list of Message values"),
    (BadInput(["text"]), "returns.: process_input must return a list of Message values"),
    (BadCall(None), "returns.: process_tool_call must return a ToolCall, not NoneType"),
    (BadCall(ToolCall("other", "lookup")), "returns.: process_tool_call must keep the id of the call"),
    (BadToolResult("x"), "returns.: process_tool_result must return a ToolResult, not str"),
    (BadToolResult(ToolResult("other", "lookup")), "returns.: process_tool_result must keep the id"),
    (BadStream(None), "returns.: process_output_stream must return a list of TextDelta"),
    (BadStream(TextDelta("x")), "returns.: process_output_stream must return a list of TextDelta"),
    (BadStream(["text"]), "returns.: process_output_stream must return a list of TextDelta"),
    (BadFinish(None), "returns.: finish_output_stream must return a list of TextDelta"),
    (BadFinish(["text"]), "returns.: finish_output_stream must return a list of TextDelta"),
    (BadResult(()), "returns.: process_output_result must return a list of Message values"),
]


@both_modes
@pytest.mark.parametrize(("processor", "problem"), WRONG)
async def test_hook_that_returns_the_wrong_thing_is_named(
    mode: Mode, processor: Processor, problem: str
) -> None:
    """The error says which processor it was; the run fails and nothing is kept."""
    async with Memory() as memory:
        agent = Agent(
            model_of(["Hm.", CALL], "pong", mode=mode),
            tools=[lookup],
            input_processors=[processor, memory] if isinstance(processor, BadInput | BadToolResult) else [],
            output_processors=[memory]
            if isinstance(processor, BadInput | BadToolResult)
            else [processor, memory],
        )
        with pytest.raises(RecollectError, match=problem):
            await answer(agent, mode, "hi")
        assert await memory.get_messages() == []


class Rewrite(Processor):
    """Rewrites the prompt: edits one message, drops another, adds a third."""

    id = "rewrite"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Do so to what the caller said."""
        del ctx
        kept = [
            m.replace(content="edited") if m.text == "edit me" else m for m in messages if m.text != "drop me"
        ]
        return [*kept, Message("user", "added", id="added")]


class RewriteView(Rewrite):
    """Does the same to what the model is shown only."""

    id = "rewrite-view"
    edits = "view"


PROMPT = [{"role": "user", "content": "drop me"}, {"role": "user", "content": "edit me"}]


@both_modes
async def test_edits_are_shown_and_kept_when_a_processor_edits_the_turn(mode: Mode) -> None:
    """What an input guard makes of the prompt is what the model sees and what memory keeps."""
    async with Memory() as memory:
        model = model_of("ok", mode=mode)
        await answer(Agent(model, input_processors=[Rewrite()], memory=memory), mode, PROMPT)
        stored = await memory.get_messages()
    assert texts(model.shown[0]) == [("user", "edited"), ("user", "added")]
    assert texts(stored) == [("user", "edited"), ("user", "added"), ("assistant", "ok")]


@both_modes
async def test_edits_are_shown_and_not_kept_when_a_processor_edits_the_view(mode: Mode) -> None:
    """A view is the model's alone, also where a later processor edits the turn."""
    async with Memory() as memory:
        model = model_of("ok", mode=mode)
        await answer(Agent(model, input_processors=[RewriteView()], memory=memory), mode, PROMPT)
        stored = await memory.get_messages()
    assert texts(model.shown[0]) == [("user", "edited"), ("user", "added")]
    assert texts(stored) == [("user", "drop me"), ("user", "edit me"), ("assistant", "ok")]


class Shout(Processor):
    """Writes the prompt in capitals."""

    id = "shout"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Do so to every message, memory's too."""
        del ctx
        return [message.replace(content=message.text.upper()) for message in messages]


@both_modes
async def test_editing_memory_in_the_prompt_does_not_touch_the_store(mode: Mode) -> None:
    """Messages that memory brought in are changed in the view, and stay as they are in the store."""
    async with Memory() as memory:
        await memory.add_message("user", "old")
        model = model_of("ok", mode=mode)
        agent = Agent(model, input_processors=[memory, Shout()], output_processors=[memory])
        await answer(agent, mode, "new")
        stored = await memory.get_messages()
    assert texts(model.shown[0]) == [("user", "OLD"), ("user", "NEW")]
    assert texts(stored) == [("user", "old"), ("user", "NEW"), ("assistant", "ok")]


class Adds(Processor):
    """Adds a message of its own to the finished turn."""

    id = "adds"

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Add a disclaimer."""
        del ctx
        return [*messages, Message("assistant", "No advice.", id="disclaimer")]


@both_modes
async def test_message_added_in_the_result_is_shown_and_kept(mode: Mode) -> None:
    """What a result hook adds to the turn is not lost without a word."""
    async with Memory() as memory:
        agent = Agent(model_of("ok", mode=mode), output_processors=[Adds(), memory])
        result = await answer(agent, mode, "hi")
        stored = await memory.get_messages()
    assert texts(stored) == [("user", "hi"), ("assistant", "ok"), ("assistant", "No advice.")]
    assert "No advice." in result.text


class Signs(Processor):
    """Adds a message before and one after the finished answer."""

    id = "signs"

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Put the answer between them."""
        del ctx
        prompt = [message for message in messages if message.origin == "input"]
        spoken = [message for message in messages if message.origin == "response"]
        return [*prompt, Message("assistant", "@b.co"), *spoken, Message("assistant", "End.")]


@both_modes
async def test_messages_stay_apart_when_some_were_added_before_a_guard_that_holds_back(mode: Mode) -> None:
    """What a guard held back of one message goes out with that message, in the order that is kept."""
    async with Memory() as memory:
        agent = Agent(model_of("I am a", mode=mode), output_processors=[Signs(), EmailGuard(), memory])
        events = await events_of(agent, "hi")
        stored = await memory.get_messages()
    assert [m.text for m in stored] == ["hi", "I am a", "@b.co", "End."]
    assert streamed_text(events) == "I am a\n@b.co\nEnd."


class Drops(Processor):
    """Takes what the assistant said out of the finished turn."""

    id = "drops"

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Keep the rest."""
        del ctx
        return [message for message in messages if message.role != "assistant"]


@both_modes
async def test_message_dropped_in_the_result_is_neither_shown_nor_kept(mode: Mode) -> None:
    """A result hook may drop the answer."""
    async with Memory() as memory:
        result = await answer(
            Agent(model_of("ok", mode=mode), output_processors=[Drops(), memory]), mode, "hi"
        )
        stored = await memory.get_messages()
    assert result.text == ""
    assert texts(stored) == [("user", "hi")]


async def test_text_waits_for_a_result_hook_and_passes_the_processors_after_it() -> None:
    """What a holding stage releases goes through the rest of the list, tool rounds included."""
    agent = Agent(
        ScriptedModel([["Let me see.", CALL], "a long answer"], chunk_size=2),
        tools=[lookup],
        output_processors=[Hoarder(), Summarizer(6), Waiter()],
    )
    events = await events_of(agent, "hi")
    assert [event.type for event in events] == ["text", "tool_call", "tool_result", "text", "done"]
    assert [event.text for event in events if event.text] == [
        "Let me... [summarized]",
        "\na long... [summarized]",
    ]


async def test_text_streams_on_when_nobody_must_wait() -> None:
    """Without a holding stage every chunk is released as it comes, memory or not."""
    async with Memory() as memory:
        events = await events_of(Agent(ScriptedModel("abcdef", chunk_size=2), memory=memory), "hi")
    assert [event.text for event in events if event.text] == ["ab", "cd", "ef"]


class Asker(Processor):
    """Asks the run's model."""

    id = "asker"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Ask."""
        await ctx.ask("is this bad?", bool)
        return messages


async def test_processor_cannot_ask_a_model_that_gives_no_values() -> None:
    """The offline model, and a run without one, say that they cannot be asked."""
    with pytest.raises(RecollectError, match="cannot be asked"):
        await Agent("offline", input_processors=[Asker()]).generate("hi")
    with pytest.raises(RecollectError, match="no model that a processor could ask"):
        await Asker().process_input([], context(new_run()))


async def test_run_context_knows_its_run() -> None:
    """A processor sees the run's ids, id, instructions and trace, and has a state of its own."""
    run = new_run("r1", resource_id="ada")
    run.instructions = "be kind"
    one, two = context(run, processor_id="one"), context(run, processor_id="two")
    one.state["x"] = 1
    one.note("a remark")
    assert (one.run_id, one.ids.user_id, one.instructions, one.trace) == (
        "r1",
        "ada",
        "be kind",
        run.trace,
    )
    assert (two.state, context(run, processor_id="one").state) == ({}, {"x": 1})
    assert run.trace.entry("one", "input").notes == ["a remark"]
    with pytest.raises(TripWire) as caught:
        one.abort("no", metadata={"k": 1})
    assert (caught.value.processor_id, caught.value.metadata, bool(caught.value)) == ("one", {"k": 1}, True)


async def test_plain_processor_does_nothing() -> None:
    """Every hook of the base passes on what it is given."""
    plain, ctx = Processor(), context(new_run())
    messages, call, result = [Message("user", "x")], ToolCall("c", "f"), ToolResult("c", "f")
    assert await plain.process_input(messages, ctx) == messages
    assert await plain.process_output_result(messages, ctx) == messages
    assert await plain.process_tool_call(call, ctx) is call
    assert await plain.process_tool_result(result, ctx) is result
    assert await plain.process_output_stream(TextDelta("x"), ctx) == [TextDelta("x")]
    assert await plain.finish_output_stream(ctx) == []
