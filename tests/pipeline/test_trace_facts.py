"""What the trace says of streams, tools and trips: counts and short diffs, and each thing once."""

import asyncio

import pytest
from tests.support.agents import CALL, Mode, answer, both_modes, lookup, model_of
from tests.support.contexts import new_run
from tests.support.guards import Bystander, EmailGuard, KeywordBlocker, SsnGuard, WordLimit

from recollect import (
    Agent,
    Memory,
    Message,
    Processor,
    Result,
    RunContext,
    TextDelta,
    ToolCall,
    ToolResult,
    TripWire,
)
from recollect.pipeline.output import OutputChain
from recollect.pipeline.processor import StreamPart
from recollect.trace import Phase, TraceEntry

pytestmark = pytest.mark.anyio

NUMBER = "123-45-6789"


def entry_of(result: Result, processor_id: str, phase: Phase) -> TraceEntry:
    """Return an entry that must be there."""
    entry = result.trace.find(processor_id, phase)
    assert entry is not None
    return entry


@both_modes
async def test_characters_are_counted_in_a_stream(mode: Mode) -> None:
    """What goes into each processor and what comes out is counted, whether it edits or passes on."""
    agent = Agent(
        model_of(f"My number is {NUMBER}.", mode=mode),
        output_processors=[Bystander(), SsnGuard(), WordLimit(2, stop=False)],
    )
    result = await answer(agent, mode, "hi")
    counted = {
        name: (
            entry_of(result, name, "stream").characters_in,
            entry_of(result, name, "stream").characters_out,
        )
        for name in ("bystander", "SsnGuard", "word-limit")
    }
    assert result.text == "My number "
    assert counted == {"bystander": (25, 25), "SsnGuard": (25, 24), "word-limit": (24, 10)}


async def test_calls_are_counted_one_by_one_in_a_stream() -> None:
    """Each chunk is one call, on the fast path and on the slow one; the end of the text is one more."""
    result = await answer(
        Agent(model_of("abcdef", mode="stream", chunk_size=2), output_processors=[WordLimit(9), Bystander()]),
        "stream",
        "hi",
    )
    assert (
        entry_of(result, "word-limit", "stream").calls,
        entry_of(result, "bystander", "stream").calls,
    ) == (
        3,
        4,
    )


class Edits(Processor):
    """Edits calls and results, and drops and adds parts of the stream."""

    id = "edits"

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Change the arguments."""
        del ctx
        return ToolCall(call.id, call.name, {"word": "[R]"})

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:
        """Change the content."""
        del ctx
        return ToolResult(result.call_id, result.name, "[R]")

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Drop results, and add a call of its own."""
        del ctx
        if isinstance(part, ToolResult):
            return []
        return [part, ToolCall("more", "lookup")] if isinstance(part, ToolCall) else [part]


@both_modes
async def test_tool_hooks_say_what_they_changed(mode: Mode) -> None:
    """The ids of calls and results that were edited, dropped or added are in the trace, their text is not."""
    agent = Agent(
        model_of(CALL, "ok", mode=mode),
        tools=[lookup],
        input_processors=[Edits()],
        output_processors=[Edits()],
    )
    result = await answer(agent, mode, "hi")
    assert entry_of(result, "edits", "tool_call").changes == ["~ call call-1"]
    assert entry_of(result, "edits", "tool_result").changes == ["~ result call-1"]
    assert entry_of(result, "edits", "stream").changes == ["+ call more", "- result call-1"]


@both_modes
async def test_tool_hooks_say_nothing_when_they_changed_nothing(mode: Mode) -> None:
    """A processor that passes everything on leaves no change in the trace."""
    agent = Agent(
        model_of(CALL, "ok", mode=mode),
        tools=[lookup],
        input_processors=[Bystander(), SsnGuard()],
        output_processors=[Bystander(), SsnGuard()],
    )
    result = await answer(agent, mode, "hi")
    assert [entry.changes for entry in result.trace if entry.changes] == []


@both_modes
async def test_cleaned_tool_parts_are_changes_when_a_guard_cleans_them(mode: Mode) -> None:
    """A redacted result is named by its id."""

    def tell() -> str:
        return NUMBER

    agent = Agent(
        model_of(ToolCall("c1", "tell"), "ok", mode=mode), tools=[tell], output_processors=[SsnGuard()]
    )
    result = await answer(agent, mode, "hi")
    assert entry_of(result, "SsnGuard", "stream").changes == ["~ result c1"]


@both_modes
async def test_trip_is_no_error_in_the_trace(mode: Mode) -> None:
    """A trip is a trip, and the messages that were looked at are counted."""
    result = await answer(Agent(model_of("x"), input_processors=[KeywordBlocker("bad")]), mode, "this is bad")
    entry = entry_of(result, "keyword-blocker", "input")
    assert (entry.tripwire, entry.error, entry.messages_in, entry.messages_out) == ("injection", None, 1, 0)


class TripsAt(Processor):
    """Trips on a word in the stream."""

    id = "trips-at"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Look at each chunk."""
        del ctx
        if isinstance(part, TextDelta) and "x" in part.text:
            raise TripWire("an x")
        return [part]


@pytest.mark.parametrize("text", ["xa", "abcx"])
async def test_trip_in_the_stream_is_no_error_in_the_trace(text: str) -> None:
    """On the first chunk or a later one: the chunk that tripped is counted too."""
    agent = Agent(model_of(text, mode="stream", chunk_size=1), output_processors=[TripsAt()])
    result = await answer(agent, "stream", "hi")
    assert result.tripwire is not None
    assert result.tripwire.processor_id == "trips-at"
    entry = entry_of(result, "trips-at", "stream")
    size = text.index("x") + 1
    assert (entry.tripwire, entry.error, entry.calls, entry.characters_in) == ("an x", None, size, size)


async def test_cancelled_hook_is_counted_and_is_no_error() -> None:
    """A run that is left in the middle of a hook is neither tripped nor failed."""

    class Waits(Processor):
        id = "waits"

        async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
            del part, ctx
            raise asyncio.CancelledError

    run = new_run()
    with pytest.raises(asyncio.CancelledError):
        await OutputChain([Waits()], run).push(0, TextDelta("a"))
    entry = run.trace.find("waits", "stream")
    assert entry is not None
    assert (entry.calls, entry.characters_in, entry.tripwire, entry.error) == (1, 1, None, None)


async def test_text_is_released_when_the_first_chunk_of_a_step_was_empty() -> None:
    """The first words of a later step begin on a new line, after whatever came first."""
    chain = OutputChain([Bystander()], new_run())
    out: list[StreamPart] = []
    for step, text in ((0, ""), (0, "a"), (0, "b"), (1, ""), (1, "c"), (1, "d")):
        out += await chain.push(step, TextDelta(text))
    assert (
        "".join(part.text for part in out if isinstance(part, TextDelta)) == "ab\ncd" == chain.released.text()
    )
    assert chain.released.characters == 4


class Wrong(Processor):
    """Returns something wrong from the second chunk on."""

    id = "wrong"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Pass the first on."""
        if ctx.state.setdefault("begun", part) is part:
            return [part]
        return None  # pyright: ignore[reportReturnType] - a wrong use


async def test_wrong_return_is_an_error_in_the_trace_when_it_comes_later() -> None:
    """The short way checks what a hook returns as the long one does."""
    run = new_run()
    chain = OutputChain([Wrong()], run)
    await chain.push(0, TextDelta("a"))
    with pytest.raises(Exception, match="must return a list of TextDelta"):
        await chain.push(0, TextDelta("b"))
    entry = run.trace.find("wrong", "stream")
    assert entry is not None
    assert (entry.calls, entry.error is not None) == (2, True)


async def test_turn_is_whole_at_each_stage_when_chunks_are_changed_after_it() -> None:
    """A memory before a guard keeps what passed it, also of chunks that the guard held back or changed."""
    async with Memory() as memory:
        text = f"a {NUMBER}, mail a@b.co, and so on"
        agent = Agent(
            model_of(text, mode="stream", chunk_size=2),
            output_processors=[TripsAt(), Bystander(), memory, EmailGuard(), SsnGuard()],
        )
        result = await answer(agent, "stream", "hi")
        stored = await memory.get_messages()
    assert stored[-1] == Message("assistant", text, id=stored[-1].id, created_at=stored[-1].created_at)
    assert result.text == "a [REDACTED], mail ***@***.***, and so on"
