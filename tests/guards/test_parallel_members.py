"""The guards of a `Parallel`: their flags, their place in the trace, and what cannot be one."""

import asyncio
from typing import Any

import pytest
from tests.support.agents import CALL, Mode, answer, both_modes, lookup, model_of
from tests.support.contexts import context, new_run
from tests.support.guards import EmailGuard, KeywordBlocker, Moderation, SsnGuard, WordLimit

from recollect import (
    Agent,
    InvalidArgumentError,
    Memory,
    Message,
    Parallel,
    Processor,
    RecollectError,
    RunContext,
    TextDelta,
    ToolCall,
    TripWire,
)
from recollect.pipeline.processor import StreamPart

pytestmark = pytest.mark.anyio


@both_modes
async def test_guards_of_a_parallel_inside_another_run(mode: Mode) -> None:
    """A guard that only blocks is heard however deep it stands."""
    inner = Parallel(KeywordBlocker("bad"), SsnGuard(), id="inner")
    guards = Parallel(Parallel(inner, id="middle"), EmailGuard())
    result = await answer(Agent(model_of("ok"), input_processors=[guards]), mode, "this is bad")
    assert result.tripwire is not None
    assert result.tripwire.processor_id == "keyword-blocker"
    assert [type(guard).__name__ for guard in guards.members] == ["KeywordBlocker", "SsnGuard", "EmailGuard"]


class RecallCheck(Processor):
    """Blocks by what memory brought in."""

    id = "recall-check"
    blocks_only = True
    after_memory = True

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look for a word."""
        if any(m.origin == "memory" and "evil" in m.text for m in messages):
            ctx.abort("evil was recalled")
        return messages


@both_modes
async def test_parallel_runs_behind_memory_when_its_guards_want_to(mode: Mode) -> None:
    """`after_memory` of the guards is that of the `Parallel`."""
    async with Memory() as memory:
        await memory.add_message("user", "something evil")
        agent = Agent(model_of("ok"), memory=memory, input_processors=[Parallel(RecallCheck())])
        result = await answer(agent, mode, "hi")
    assert str(result.tripwire) == "evil was recalled"


@both_modes
async def test_parallel_edits_the_view_when_its_guards_do(mode: Mode) -> None:
    """What guards of the view redact is hidden from the model and kept as it was said."""
    guard = SsnGuard()
    guard.edits = "view"
    async with Memory() as memory:
        model = model_of("ok")
        await answer(
            Agent(model, memory=memory, input_processors=[Parallel(guard)]), mode, "I am 123-45-6789"
        )
        stored = await memory.get_messages()
    assert (model.shown[0][0].text, stored[0].text) == ("I am [REDACTED]", "I am 123-45-6789")


def _view_guard() -> SsnGuard:
    guard = SsnGuard(name="view")
    guard.edits = "view"
    return guard


WRONG: list[tuple[tuple[Any, ...], str]] = [
    ((), "are missing; give at least one"),
    ((Memory(),), "Memory is memory or another provider, which cannot run beside guards; put it after them"),
    ((None,), "NoneType is no guard; use SpanGuards"),
    ((SsnGuard,), r"SsnGuard is a class; make one: SsnGuard\(\)"),
    ((int,), "int is no guard"),
    (
        (SsnGuard(name="a"), EmailGuard(name="a")),
        "two of them have the id 'a'; give one of them another `id`",
    ),
    ((Parallel(SsnGuard()), SsnGuard()), "two of them have the id 'SsnGuard'"),
    ((KeywordBlocker(), RecallCheck()), "differ in `after_memory`.*make a Parallel of each kind"),
    ((SsnGuard(), _view_guard()), "SsnGuard and view differ in `edits`"),
    ((WordLimit(3),), "neither a SpanGuard nor marked blocks_only"),
]


@pytest.mark.parametrize(("guards", "problem"), WRONG)
def test_wrong_guards_are_refused_with_the_way_out(guards: tuple[Processor, ...], problem: str) -> None:
    """What cannot run beside others is said at construction."""
    with pytest.raises(InvalidArgumentError, match=problem):
        Parallel(*guards)


def test_hook_on_the_instance_is_refused_when_it_would_not_run() -> None:
    """A hook that was set on a span guard counts as one of its own."""
    guard = SsnGuard()
    guard.process_input = EmailGuard().process_input
    with pytest.raises(InvalidArgumentError, match="process_input of its own"):
        Parallel(guard)


class Cancelled(Processor):
    """Waits for a task that somebody cancelled."""

    id = "cancelled"
    blocks_only = True

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Never come to a judgement."""
        del ctx
        task = asyncio.create_task(asyncio.sleep(5))
        task.cancel()
        await task
        return messages


async def test_run_fails_when_a_guard_was_cancelled_before_it_had_judged() -> None:
    """A guard that gave no judgement has not let anything pass."""
    model = model_of("ok")
    agent = Agent(model, input_processors=[Parallel(KeywordBlocker(), Cancelled())])
    with pytest.raises(RecollectError, match=r"cancelled\.process_input was cancelled before it had judged"):
        await agent.generate("hi")
    assert model.shown == []


async def test_cancelling_the_run_is_a_cancellation_when_guards_are_at_work() -> None:
    """Whoever cancels the run hears of it as such."""

    class Waits(Processor):
        blocks_only = True

        async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
            del ctx
            await asyncio.Event().wait()
            return messages

    task = asyncio.create_task(
        Agent(model_of("ok"), input_processors=[Parallel(Waits(), KeywordBlocker())]).generate("hi")
    )
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Raises(Processor):
    """Raises a `TripWire` of its own in a hook."""

    id = "raises"
    blocks_only = True

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Trip on a word."""
        del ctx
        if "bad" in messages[0].text:
            raise TripWire("no")
        return messages

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Pass on."""
        del ctx
        return call


@both_modes
async def test_trip_belongs_to_the_guard_that_raised_it(mode: Mode) -> None:
    """The tripwire and the trace name the guard, not only the `Parallel` that it is in."""
    agent = Agent(model_of("x"), input_processors=[Parallel(Raises(), SsnGuard())])
    result = await answer(agent, mode, "bad")
    assert result.tripwire is not None
    assert result.tripwire.processor_id == "raises"
    entries = {entry.processor_id: entry for entry in result.trace}
    assert (entries["raises"].tripwire, entries["raises"].error) == ("no", None)
    assert (entries["parallel"].tripwire, entries["parallel"].error) == ("no", None)
    assert entries["raises"].messages_in == 1


@both_modes
async def test_guards_have_entries_of_their_own_in_the_trace(mode: Mode) -> None:
    """Each is timed under its own name, in each phase in which it does something."""
    guards = Parallel(Raises(), SsnGuard(), Moderation())
    agent = Agent(
        model_of(CALL, "it is fine", mode=mode),
        tools=[lookup],
        input_processors=[guards],
        output_processors=[guards],
    )
    result = await answer(agent, mode, "hi")
    found = {(entry.processor_id, entry.phase) for entry in result.trace}
    assert found == {
        *(("parallel", phase) for phase in ("input", "tool_call", "tool_result", "stream", "result")),
        *(("SsnGuard", phase) for phase in ("input", "tool_call", "tool_result", "stream", "result")),
        *(("raises", phase) for phase in ("input", "tool_call")),
        *(("moderation", phase) for phase in ("input", "result")),
    }
    entry = result.trace.find("moderation", "result")
    assert entry is not None
    assert (entry.calls, entry.messages_in, entry.messages_out) == (1, 4, 4)


class Liar(Processor):
    """Promises to block only, and edits."""

    id = "liar"
    blocks_only = True

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Drop everything."""
        del messages, ctx
        return []

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Change the text."""
        del part, ctx
        return [TextDelta("else")]


async def test_guard_that_edits_is_refused_when_it_promised_to_block_only() -> None:
    """An edit that would be lost is an error, not a hole."""
    guards, ctx = Parallel(Liar()), context(new_run())
    with pytest.raises(RecollectError, match="liar is marked blocks_only, and process_input did not return"):
        await guards.process_input([Message("user", "x")], ctx)
    with pytest.raises(RecollectError, match="liar is marked blocks_only, and process_output_stream"):
        await guards.process_output_stream(TextDelta("x"), ctx)
