"""One run: the prompt through the input side, the model and its tools, the answer through the output side.

`generate` and `stream` are the same machine; the one only feeds each answer of the model in one piece.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from recollect.agent.model import ModelPart, StepEnd
from recollect.agent.result import Event, Result
from recollect.agent.telemetry import emit_spans
from recollect.errors import StorageError
from recollect.messages import Message, ToolCall, ToolResult
from recollect.processors.base import Processor, RunContext, RunState, StreamPart, TextDelta, TripWire
from recollect.processors.chain import run_input, run_tool_call, run_tool_result
from recollect.processors.expand import id_of
from recollect.processors.message_history import MessagePersistenceProcessor
from recollect.processors.output import OutputChain
from recollect.processors.turn import TurnBuilder, assistant_id

if TYPE_CHECKING:
    from recollect.agent.engine import Engine

_log = logging.getLogger("recollect")

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
    trace_content: bool
    chunked: bool
    save_partial: bool
    on_memory_error: OnMemoryError
    last_shown: ContextVar[list[Message]]
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

    def __post_init__(self) -> None:
        """Prepare the result that the run fills in."""
        self.result = Result(self.state.run_id, trace=self.state.trace)
        self._chain = OutputChain(self.plan.output_side, self.state)
        self._kept = self.prompt

    async def events(self) -> AsyncGenerator[Event]:
        """Run to the end and yield what is released on the way; a trip is the last event."""
        started = time.time_ns()
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    yield event
        finally:
            emit_spans(self.result, started, time.time_ns(), with_content=self.plan.trace_content)

    async def _events(self) -> AsyncGenerator[Event]:
        try:
            view, self._kept = await run_input(self.plan.input_side, self.prompt, self.state)
            self.state.view = view
            self.result.messages = await self._stored_turn()
            if self.result.messages:
                yield Event("text", text=self._replayed())
                yield Event("done", result=self.result)
                return
            async with aclosing(self._answer(view)) as parts:
                async for part in parts:
                    yield _event(part)
            released, self.result.messages = await self._chain.close(self._kept)
            for part in released:
                yield _event(part)
            self.result.text = self._chain.text
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
            messages += shown.messages()
        else:
            self.state.stop_reason = "tool_limit"
        self.result.finish_reason = self.state.stop_reason or self.result.finish_reason

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
                said.append(part)
                if isinstance(part, str) and self.plan.chunked:
                    for released in await self._chain.push(step, TextDelta(part)):
                        yield released
                if self.state.stop_reason is not None:
                    return
        finally:
            await parts.aclose()
        text = "".join(item for item in said if isinstance(item, str))
        if text and not self.plan.chunked:
            for released in await self._chain.push(step, TextDelta(text)):
                yield released

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
        for call in calls:
            checked = await run_tool_call(self.plan.output_side, call, self.state)
            for released in await self._chain.push(step, checked):
                yield released
        if self.state.stop_reason is not None:
            return  # a guard that let out its last text before the call has ended the answer there
        for result in await self._run_tools(calls):
            seen = await run_tool_result(self.plan.input_side, result, self.state)
            shown.add(step, [seen])
            for released in await self._chain.push(step, seen):
                yield released

    async def _run_tools(self, calls: list[ToolCall]) -> list[ToolResult]:
        """Run tools at once; the first that trips ends the others."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.plan.engine.run_tool(call)) for call in calls]
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
        self.plan.last_shown.set(self.result.prompt)

    def _tripped(self, trip: TripWire) -> Event:
        trip.released = self._chain.released_characters
        self.result.tripwire = trip
        self.result.text = ""
        self.result.messages = []
        return Event("tripwire", tripwire=trip, result=self.result)

    async def _stored_turn(self) -> list[Message]:
        """Return the turn that a run of the same id has committed before, if the caller chose the id."""
        if not self.plan.may_be_stored:
            return []
        for processor in self.plan.output_side:
            if isinstance(processor, MessagePersistenceProcessor):
                ctx = RunContext(self.state, id_of(processor), "commit")
                try:
                    return await processor.stored_turn(ctx)
                except StorageError as error:
                    ctx.degrade(error)
        return []

    def _replayed(self) -> str:
        turn = self.result.messages
        self.result.saved = True
        self.result.text = "\n".join(m.text for m in turn if m.role == "assistant" and m.text)
        return self.result.text

    async def _commit(self) -> None:
        """Do the staged writes; a failure does not lose the answer, unless it is to be raised."""
        saved = False
        for processor_id, commit in self.state.commits:
            try:
                with self.state.trace.timed(processor_id, "commit"):
                    saved = (await commit() is not False) or saved
            except Exception as error:
                _log.warning("%s could not save the turn: %s", processor_id, error)
                if self.plan.on_memory_error == "raise":
                    raise
                return
        self.result.saved = saved

    async def _save_partial(self) -> None:
        """Keep what the user saw of a run that was broken off, if the caller wants that.

        It goes through the output side once more, so that what is kept has left the guards.
        """
        seen = self._chain.released_messages()
        if not self.plan.save_partial or not seen or self.result.saved:
            return
        marked = [message.replace(metadata={**message.metadata, "aborted": True}) for message in seen]
        self.state.commits.clear()
        chain = OutputChain(self.plan.output_side, self.state)
        await chain.replay(seen)
        await chain.close(self._kept + marked)
        await asyncio.shield(self._commit())


def _event(part: StreamPart) -> Event:
    if isinstance(part, TextDelta):
        return Event("text", text=part.text)
    if isinstance(part, ToolResult):
        return Event("tool_result", tool_result=part)
    return Event("tool_call", tool_call=part)
