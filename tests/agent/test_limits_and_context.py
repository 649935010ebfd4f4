"""What a run is given beside its prompt, what its tools may know of it, and how it ends at the tool limit."""

import pytest
from tests.support.agents import ADA, CALL, Mode, answer, both_modes, lookup, model_of

from recollect import Agent, InvalidArgumentError, Memory, Message, Processor, RecollectError, RunContext
from recollect.messages import ToolCall
from recollect.pipeline.context import get_kept_call, tool_context
from recollect.pipeline.processor import StreamPart

pytestmark = [pytest.mark.anyio, both_modes]


class Reader(Processor):
    """Remembers what the caller gave to the run."""

    id = "reader"

    def __init__(self) -> None:
        """Begin with nothing."""
        self.seen: list[object] = []

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at the context."""
        self.seen.append(dict(ctx.context))
        return messages


async def test_processors_find_what_the_caller_gave_to_the_run(mode: Mode) -> None:
    """`context` reaches the processors of its own run, and no other; the model never sees it."""
    reader, model = Reader(), model_of("yes")
    agent = Agent(model, input_processors=[reader])
    await answer(agent, mode, "hi", context={"skill": "sailing"})
    await answer(agent, mode, "hi")
    assert reader.seen == [{"skill": "sailing"}, {}]
    assert "sailing" not in str(model.shown)


async def test_a_context_that_is_no_dict_is_refused(mode: Mode) -> None:
    """It is said before anything is asked."""
    with pytest.raises(InvalidArgumentError, match="context: must be a dict"):
        await answer(Agent(model_of("yes")), mode, "hi", context=["skill"])


async def test_a_run_that_wants_too_many_tools_ends_with_the_answer_for_that(mode: Mode) -> None:
    """The answer is said, kept, and named as what it is; without one the run ends without words."""
    async with Memory() as memory:
        agent = Agent(
            model_of(CALL), tools=[lookup], memory=memory, max_steps=2, limit_answer="I have to stop here."
        )
        result = await answer(agent, mode, "look it up", **ADA)
        stored = await memory.get_messages(**ADA)
    assert result.text == "I have to stop here."
    assert result.finish_reason == "tool_limit"
    assert stored[-1].role == "assistant"
    assert stored[-1].text == "I have to stop here."
    silent = await answer(Agent(model_of(CALL), tools=[lookup], max_steps=2), mode, "look it up")
    assert (silent.text, silent.finish_reason) == ("", "tool_limit")


async def test_the_answer_at_the_limit_passes_the_guards(mode: Mode) -> None:
    """It is an answer like any other."""

    class Shouting(Processor):
        id = "shouting"

        async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
            del ctx
            return [
                message.replace(content=message.text.upper()) if message.text else message
                for message in messages
            ]

    agent = Agent(
        model_of(CALL), tools=[lookup], max_steps=1, limit_answer="enough", output_processors=[Shouting()]
    )
    assert (await answer(agent, mode, "look it up")).text == "ENOUGH"


async def test_a_tool_can_know_its_run_and_keep_something_in_it(mode: Mode) -> None:
    """Two calls of one run share a state; another run has its own."""
    seen: list[tuple[str | None, int]] = []

    async def count() -> str:
        """Count."""
        ctx = tool_context("counter")
        ctx.state["calls"] = ctx.state.get("calls", 0) + 1
        seen.append((ctx.ids.user_id, ctx.state["calls"]))
        return "counted"

    def counted() -> str:
        """Count in a thread."""
        seen.append((tool_context("counter").ids.user_id, -1))
        return "counted"

    calls = [ToolCall("a", "count", {}), ToolCall("b", "count", {}), ToolCall("c", "counted", {})]
    for user in ("ada", "ben"):
        agent = Agent(model_of(calls, "done"), tools=[count, counted])
        await answer(agent, mode, "count", resource_id=user)
    assert sorted(seen, key=str) == [("ada", -1), ("ada", 1), ("ada", 2), ("ben", -1), ("ben", 1), ("ben", 2)]


class OnCalls(Processor):
    """Takes a word out of calls before the tools run."""

    id = "on-calls"

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Edit the copy that is kept."""
        del ctx
        return ToolCall(call.id, call.name, {"word": "***"})


class OnTheWay(Processor):
    """Takes a word out of calls where they pass in the stream."""

    id = "on-the-way"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Edit what goes on."""
        del ctx
        return [ToolCall(part.id, part.name, {"word": "***"}) if isinstance(part, ToolCall) else part]


@pytest.mark.parametrize("guard", [OnCalls, OnTheWay])
async def test_a_tool_can_know_its_call_as_guards_let_it_be_kept(mode: Mode, guard: type[Processor]) -> None:
    """It is given the model's own words, and each call of a step has its own copy, also by the same id."""
    seen: list[tuple[str, object]] = []

    async def look(word: str) -> str:
        """Look."""
        kept = get_kept_call()
        seen.append((word, None if kept is None else kept.arguments["word"]))
        return "seen"

    calls = [ToolCall("a", "look", {"word": "one"}), ToolCall("a", "look", {"word": "two"})]
    await answer(Agent(model_of(calls, "done"), tools=[look]), mode, "look")
    await answer(Agent(model_of(calls, "done"), tools=[look], output_processors=[guard()]), mode, "look")
    assert seen == [("one", "one"), ("two", "two"), ("one", "***"), ("two", "***")]
    assert get_kept_call() is None


async def test_a_tool_of_memory_says_that_it_needs_a_run(mode: Mode) -> None:
    """Called by hand it has no run to serve."""
    del mode
    with pytest.raises(RecollectError, match="the tool of counter can only be called by the model"):
        tool_context("counter")
