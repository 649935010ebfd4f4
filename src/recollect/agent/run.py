"""One run: the prompt through the input side, the model and its tools, the answer through the output side.

`generate` and `stream` are the same machine; `generate` only feeds each answer of the model in one chunk.
At the end come all the writes that processors staged, whatever becomes of one of them.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from recollect.agent.models import ModelPart, StepEnd
from recollect.agent.recovery import Seen, StoredRun, find_stored_run, stage_partial
from recollect.agent.result import Event, Result
from recollect.agent.telemetry import emit_spans
from recollect.errors import WrongOwnerError
from recollect.messages import ABORTED, Message, ToolCall, ToolResult
from recollect.pipeline.assembly import id_of
from recollect.pipeline.context import RunState, TripWire, tools_of
from recollect.pipeline.input import run_input, run_next_step, run_tool_call, run_tool_result
from recollect.pipeline.output import OutputChain
from recollect.pipeline.processor import Processor, StreamPart, TextDelta
from recollect.pipeline.turn import TurnBuilder, assistant_id
from recollect.validation import MAX_TEXT_BYTES

if TYPE_CHECKING:
    from recollect.agent.provider import Engine

_log = logging.getLogger("recollect")

_LONGEST_ANSWER = MAX_TEXT_BYTES // 2  # in bytes; guards may make a text longer

OnMemoryError: TypeAlias = Literal["return", "raise"]
"""What happens when memory cannot save: the answer is returned all the same, or the error raised."""


@dataclass(slots=True)
class Plan:
    """What a run needs to know of its agent and its call."""

    engine: "Engine"
    instructions: str
    input_side: Sequence[Processor]
    output_side: Sequence[Processor]
    max_steps: int
    limit_answer: str
    trace_content: bool
    chunked: bool
    save_partial: bool
    on_memory_error: OnMemoryError
    note_shown: Callable[[list[Message]], None]
    may_be_stored: bool


@dataclass(slots=True)
class Run:
    """One run in progress."""

    plan: Plan
    state: RunState
    prompt: list[Message]
    result: Result = field(init=False)
    _chain: OutputChain = field(init=False)
    _kept: list[Message] = field(init=False)
    _said: dict[str, object] = field(default_factory=dict[str, object], init=False)
    _model_failed: bool = field(default=False, init=False)
    _spoken: int = field(default=0, init=False)
    _seen: Seen = field(default_factory=Seen, init=False)

    def __post_init__(self) -> None:
        """Prepare the result that the run fills in."""
        self.result = Result(self.state.run_id, trace=self.state.trace)
        self._chain = OutputChain(self.plan.output_side, self.state)
        self._kept = self.prompt

    async def to_end(self) -> Result:
        """Run to the end and return the result."""
        async with aclosing(self.events()) as events:
            async for _ in events:
                pass
        return self.result

    async def events(self) -> AsyncGenerator[Event]:
        """Run to the end and yield what is released on the way; a trip is the last event."""
        started = time.time_ns()
        failure: Exception | None = None
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    yield event
        except Exception as error:
            failure = error
            raise
        finally:
            emit_spans(self.result, failure, started, with_content=self.plan.trace_content)

    async def _events(self) -> AsyncGenerator[Event]:
        try:
            view, self._kept = await run_input(self.plan.input_side, self.prompt, self.state)
            self.state.view = view
            # An id that the caller chose may be that of a run that was committed before.
            stored = (
                await find_stored_run(self.plan.output_side, self.state) if self.plan.may_be_stored else None
            )
            turn = self._answered(view) if stored is None else self._replayed(stored)
            async with aclosing(turn) as parts:
                async for part in parts:
                    self._seen.note(part)
                    yield _event(part)
            if stored is None:
                await self._commit()
        except TripWire as trip:
            yield self._tripped(trip)
        except BaseException as error:
            # A guard that fails is fail-closed: only a run that was left, or a model that broke off, is kept.
            if self._model_failed or isinstance(error, asyncio.CancelledError | GeneratorExit):
                await self._save_partial()
            raise
        else:
            yield Event("done", result=self.result)

    async def _answered(self, view: list[Message]) -> AsyncGenerator[StreamPart]:
        """Have the model answer, and finish the turn."""
        async with aclosing(self._answer(view)) as parts:
            async for part in parts:
                yield part
        async with aclosing(self._close(self._kept)) as parts:
            async for part in parts:
                yield part

    async def _replayed(self, stored: StoredRun) -> AsyncGenerator[StreamPart]:
        """Say once more what is stored; an answer that was broken off is not called finished."""
        self.result.saved = True
        self._chain = stored.chain(self.state)
        for step, part in stored.parts():
            for released in await self._chain.push(step, part):
                yield released
        async with aclosing(self._close(stored.turn)) as parts:
            async for part in parts:
                yield part
        if not stored.behind:
            self.result.messages = stored.turn
        if any(message.metadata.get(ABORTED) for message in stored.turn):
            self.result.finish_reason = ABORTED

    async def _close(self, turn: list[Message]) -> AsyncGenerator[StreamPart]:
        released, self.result.messages = await self._chain.close(turn)
        for part in released:
            yield part
        self.result.text = self._chain.text
        # What a guard holds back to the end may show only then that the answer has to end before it.
        self.result.finish_reason = self.state.stop_reason or self.result.finish_reason

    async def _answer(self, view: list[Message]) -> AsyncGenerator[StreamPart]:
        messages = list(view)
        for step in range(self.plan.max_steps):
            self._show(messages)
            said: list[str | ToolCall] = []
            async with aclosing(self._speak(step, messages, said)) as parts:
                async for part in parts:
                    yield part
            calls = [item for item in said if isinstance(item, ToolCall)]
            if not calls or self.state.stop_reason is not None:
                break
            shown = TurnBuilder(self.state.run_id)
            shown.add(step, [TextDelta(item) if isinstance(item, str) else item for item in said])
            async with aclosing(self._use_tools(step, calls, shown)) as parts:
                async for part in parts:
                    yield part
            if self.state.stop_reason is not None:
                break
            messages = await run_next_step(self.plan.input_side, [*messages, *shown.messages()], self.state)
        else:
            self.state.stop_reason = "tool_limit"
            if self.plan.limit_answer:
                for released in await self._chain.push(
                    self.plan.max_steps, TextDelta(self.plan.limit_answer)
                ):
                    yield released

    async def _speak(
        self, step: int, messages: list[Message], said: list[str | ToolCall]
    ) -> AsyncGenerator[StreamPart]:
        """Let the model speak once; its text goes out as far as the output side lets it."""
        parts = self.plan.engine.step(messages, self.plan.instructions, self._said)
        try:
            while (part := await self._next_part(parts)) is not None:
                if isinstance(part, StepEnd):
                    self._end_step(step, part)
                    continue
                part = self._within_limit(part, said)
                said.append(part)
                if isinstance(part, str) and self.plan.chunked:
                    for released in await self._chain.push(step, TextDelta(part)):
                        yield released
                if self.state.stop_reason is not None:
                    break
        finally:
            await parts.aclose()
        text = "".join(item for item in said if isinstance(item, str))
        if text and not self.plan.chunked:
            for released in await self._chain.push(step, TextDelta(text)):
                yield released

    def _within_limit(self, part: str | ToolCall, said: Sequence[str | ToolCall]) -> str | ToolCall:
        """Cut off an answer that no message could hold, and end it there."""
        if isinstance(part, ToolCall):
            return part
        size = len(part) if part.isascii() else len(part.encode())
        left = _LONGEST_ANSWER - (self._spoken if said else 0)
        self._spoken = _LONGEST_ANSWER - left + size
        if size <= left:
            return part
        self.state.stop_reason = "length"
        return part.encode()[:left].decode(errors="ignore")

    async def _next_part(self, parts: AsyncGenerator[ModelPart]) -> ModelPart | None:
        try:
            return await anext(parts, None)
        except Exception:
            self._model_failed = True
            raise

    async def _use_tools(
        self, step: int, calls: list[ToolCall], shown: TurnBuilder
    ) -> AsyncGenerator[StreamPart]:
        """Show every call to the guards, run the tools, and show their results to the guards."""
        kept: list[ToolCall] = []
        for call in calls:
            kept.append(await run_tool_call(self.plan.output_side, call, self.state))
            for released in await self._chain.push(step, kept[-1]):
                if isinstance(released, ToolCall) and released.id == call.id:
                    kept[-1] = released
                yield released
        if self.state.stop_reason is not None:
            return  # the last text before the call was too much for a guard, which has ended the answer there
        for result in await self._run_tools(calls, kept):
            seen = await run_tool_result(self.plan.input_side, result, self.state)
            shown.add(step, [seen])
            for released in await self._chain.push(step, seen):
                yield released

    async def _run_tools(self, calls: list[ToolCall], kept: list[ToolCall]) -> list[ToolResult]:
        """Run tools at once; the first that trips ends the others."""
        tasks: list[asyncio.Task[ToolResult]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for call, as_kept in zip(calls, kept, strict=True):
                    with tools_of(self.state, as_kept):
                        tasks.append(group.create_task(self.plan.engine.run_tool(call)))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    def _end_step(self, step: int, end: StepEnd) -> None:
        self._said[assistant_id(self.state.run_id, step)] = end.response
        usage = self.result.usage
        usage.input_tokens += end.usage.input_tokens
        usage.output_tokens += end.usage.output_tokens
        self.result.finish_reason = end.finish_reason

    def _show(self, messages: list[Message]) -> None:
        self.result.usage.requests += 1
        self.result.prompt = list(messages)
        self.plan.note_shown(self.result.prompt)

    def _tripped(self, trip: TripWire) -> Event:
        # Without a stream nobody has seen anything of the answer.
        trip.released = self._chain.released_characters if self.plan.chunked else 0
        self.result.tripwire = trip
        self.result.text = ""
        self.result.messages = []
        return Event("tripwire", tripwire=trip, result=self.result)

    async def _commit(self) -> None:
        """Do the staged writes; a failure does not lose the answer, unless it is to be raised."""
        raises = self.plan.on_memory_error == "raise"
        self.result.saved = await commit_all(self.state, self.plan.output_side, raises=raises)

    async def _save_partial(self) -> None:
        """Keep what the user saw of a run that was broken off, if the caller wants that.

        Why it was broken off is what the caller must hear, so that a failure here is only noted.
        """
        seen = self._seen.of(self._chain.released_messages())
        if not self.plan.save_partial or not seen or self.result.saved:
            return
        try:
            self.state.commits = (
                await stage_partial(self.plan.output_side, self.state, self._kept, seen)
            ).commits
            await asyncio.shield(self._commit())
        except Exception as error:  # noqa: BLE001 - a hook or a write may raise anything; the trace has it
            _log.warning("what was seen of a run that was left could not be saved: %s", error)


def _event(part: StreamPart) -> Event:
    if isinstance(part, TextDelta):
        return Event("text", text=part.text)
    if isinstance(part, ToolResult):
        return Event("tool_result", tool_result=part)
    return Event("tool_call", tool_call=part)


async def commit_all(run: RunState, output_side: Sequence[Processor], *, raises: bool) -> bool:
    """Do the staged writes and say whether memory has kept the turn.

    Where several processors write, one that fails does not stop the others, and only memory's own write
    counts. What a write staged itself, to come behind the turn, is not done without the turn. The first
    error is raised at the end if the caller wants that; the trace has all of them.
    """
    memory = {id_of(item) for item in output_side if item.writes_memory}
    errors: list[Exception] = []
    is_saved, has_failed = False, False
    planned = len(run.commits)
    for place, (processor_id, commit) in enumerate(run.commits):
        if has_failed and place >= planned:
            continue
        counts = not memory or processor_id in memory
        try:
            with run.trace.timed(processor_id, "commit"):
                is_saved |= await commit() is not False and counts
        except Exception as error:  # noqa: BLE001 - a provider may raise anything; the trace has it
            _log.warning("%s could not save the turn: %s", processor_id, error)
            errors.append(error)
            has_failed |= counts
    for error in errors:
        if raises or isinstance(error, WrongOwnerError):
            raise error
    return is_saved and not has_failed
