"""One run of an agent: a model and its tools, around a turn through the pipeline.

`generate` and `stream` share this code; `generate` only sends each answer of the model in one chunk. A run is
in one phase at a time. Each phase is a method that does one thing, sets the next phase, and returns what was
released:

    begin ─▶ ask ─▶ read … read ─▶ guard_call … ─▶ run_tools ─▶ take_result … ─▶ next_step ─▶ ask …
      └─▶ replay …        └─▶ finish ─▶ commit

So the reader gets what is released before anything else happens: a run that is aborted between two phases has
shown exactly what it counts as shown.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from recollect.agent.models import ModelPart, StepEnd
from recollect.agent.result import Event, Result
from recollect.agent.telemetry import emit_spans
from recollect.agent.tools import ToolInterrupt
from recollect.errors import ModelError
from recollect.messages import ABORTED, Message, ToolCall, ToolResult
from recollect.pipeline.context import TripWire, bind_tools
from recollect.pipeline.processor import StreamPart, TextDelta
from recollect.pipeline.recovery import Delivery
from recollect.pipeline.run import PipelineRun
from recollect.pipeline.turn import Answer, assistant_id, split_stored_turn
from recollect.validation import MAX_TEXT_BYTES

if TYPE_CHECKING:
    from recollect.agent.provider import ModelProvider

_log = logging.getLogger("recollect")

_MAX_AHEAD = 32  # parts of an answer that are read before the reader must have taken what came of them
_MAX_ANSWER_BYTES = MAX_TEXT_BYTES // 2  # guards may make a text longer

OnMemoryError: TypeAlias = Literal["return", "raise"]
"""What happens if memory cannot save: the answer is returned nevertheless, or the error raised."""

_Phase: TypeAlias = Callable[[], Awaitable[list[StreamPart]]]


@dataclass(slots=True)
class RunSettings:
    """The settings of a run, from its agent and its call."""

    load_provider: Callable[[], Awaitable["ModelProvider"]]
    instructions: str
    max_steps: int
    limit_answer: str
    trace_content: bool
    chunked: bool
    save_partial: bool
    on_memory_error: OnMemoryError
    note_shown: Callable[[list[Message]], None]
    may_be_stored: bool


@dataclass(slots=True)
class _ModelStep:
    """One answer of the model while it is read, and its tool calls and results."""

    number: int
    parts: AsyncGenerator[ModelPart]
    said: list[str | ToolCall] = field(default_factory=list[str | ToolCall])
    size: int = 0  # of the text so far, in bytes
    kept_calls: list[ToolCall] = field(default_factory=list[ToolCall])
    results: Iterator[ToolResult] = field(default_factory=lambda: iter(()))
    shown_results: list[ToolResult] = field(default_factory=list[ToolResult])

    @property
    def text(self) -> str:
        return "".join(item for item in self.said if isinstance(item, str))

    @property
    def calls(self) -> list[ToolCall]:
        return [item for item in self.said if isinstance(item, ToolCall)]

    def messages(self, run_id: str) -> list[Message]:
        """Return the step for the next request: the model's own text, and the results after the guards."""
        shown = Answer(run_id)
        for part in (TextDelta(self.text), *self.calls, *self.shown_results):
            shown.add(self.number, part)
        return shown.messages()


class AgentRun:
    """One run in progress; `result` is filled in as it goes on."""

    def __init__(self, settings: RunSettings, pipeline: PipelineRun, prompt: list[Message]) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._prompt = prompt
        self._messages: list[Message] = []
        self._step: _ModelStep | None = None
        self._steps_done = 0
        self._reads = 0
        self._replayed: Iterator[tuple[int, StreamPart]] = iter(())
        self._responses: dict[str, object] = {}  # the provider's own responses, by message id
        self._has_begun = False
        self._reading: _Phase = self._read
        self._phase: _Phase | None = self._begin
        self.state = pipeline.state
        self.delivery = Delivery()
        self.wait_for_reader: Callable[[], Awaitable[None]] = _do_not_wait
        self.result = Result(self.state.run_id, trace=self.state.trace)
        self._loaded: ModelProvider | None = None

    async def run_to_end(self) -> Result:
        """Run to the end and return the result."""
        async for _ in self.events():
            pass
        return self.result

    async def events(self) -> AsyncGenerator[Event]:
        """Run to the end and yield what is released; a trip is the last event."""
        started = (time.time_ns(), time.monotonic_ns())
        failure: Exception | None = None
        try:
            try:
                while self._phase is not None:
                    if self._phase is not self._reading or self._must_wait():
                        await self.wait_for_reader()
                    for part in await self._phase():
                        yield _to_event(part)
            except BaseException:
                with suppress(Exception):  # why the run ends is what counts, not how its model was closed
                    await self._close_model()
                raise
        except TripWire as trip:
            yield self._note_trip(trip)
        except BaseException as error:
            failure = error if isinstance(error, Exception) else None
            # Only what a reader has left half-way is kept: guards fail closed, and an error is no answer.
            if isinstance(error, asyncio.CancelledError | GeneratorExit):
                await self._save_partial()
            raise
        else:
            yield Event("done", result=self.result)
        finally:
            emit_spans(self.result, failure, started, with_content=self._settings.trace_content)

    async def _begin(self) -> list[StreamPart]:
        self._loaded = await self._settings.load_provider()
        self.state.ask = self._loaded.count_into(self.result.usage)
        self._messages = list(await self._pipeline.begin(self._prompt))
        self._phase = self._ask if self.state.stop_reason is None else self._finish
        # If the caller chose the id, an earlier run may have committed it.
        if self._settings.may_be_stored and (stored := await self._pipeline.find_stored()) is not None:
            self._pipeline.replay(stored)
            self._replayed = split_stored_turn(stored.turn)
            self._phase = self._replay
            self.result.saved = True
            self.result.finish_reason = ABORTED if stored.was_aborted else None
        self._has_begun = True
        return []

    async def _replay(self) -> list[StreamPart]:
        """Release the next part of a stored answer."""
        step, part = next(self._replayed, (0, None))
        if part is not None:
            return await self._pipeline.push(step, part)
        self._phase = None
        return await self._finish_turn()

    async def _ask(self) -> list[StreamPart]:
        if self._steps_done == self._settings.max_steps:
            return await self._end_at_the_limit()
        self.result.usage.requests += 1
        self.result.prompt = list(self._messages)
        self._settings.note_shown(self.result.prompt)
        parts = self._provider.step(self._messages, self._settings.instructions, self._responses)
        self._step = _ModelStep(self._steps_done, parts)
        self._phase = self._reading
        return []

    async def _end_at_the_limit(self) -> list[StreamPart]:
        self.state.stop_reason = "tool_limit"
        self._phase = self._finish
        if not self._settings.limit_answer:
            return []
        return await self._pipeline.push(self._steps_done, TextDelta(self._settings.limit_answer))

    async def _read(self) -> list[StreamPart]:
        """Read one part of the model's answer and push its text through the output side."""
        step = self._current_step
        try:
            part = await step.parts.__anext__()
        except StopAsyncIteration:
            return await self._end_step(step)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            await self.wait_for_reader()  # text before the failure reaches the reader first
            raise ModelError("the model gave up something that it was waiting for") from error
        except Exception:
            await self.wait_for_reader()
            raise
        released = list[StreamPart]()
        if isinstance(part, str):
            part = self._limit_text(step, part)
            step.said.append(part)
            if self._settings.chunked:
                released = await self._pipeline.push(step.number, TextDelta(part))
        elif isinstance(part, ToolCall):
            step.said.append(part)
        else:
            self._note_end(step, part)
        if self.state.stop_reason is not None:
            self._phase = self._stop_reading
        return released

    def _must_wait(self) -> bool:
        """Whether the model was read far enough ahead of the reader."""
        self._reads += 1
        return self._reads % _MAX_AHEAD == 0

    async def _stop_reading(self) -> list[StreamPart]:
        return await self._end_step(self._current_step)

    async def _end_step(self, step: _ModelStep) -> list[StreamPart]:
        await self._close_model()
        released = list[StreamPart]()
        if not self._settings.chunked and (text := step.text):
            released = await self._pipeline.push(step.number, TextDelta(text))
        is_last = not step.calls or self.state.stop_reason is not None
        self._phase = self._finish if is_last else self._guard_call
        return released

    async def _guard_call(self) -> list[StreamPart]:
        """Send the next call of the step through the guards."""
        step = self._current_step
        calls = step.calls
        kept, released = await self._pipeline.tool_call(step.number, calls[len(step.kept_calls)])
        step.kept_calls.append(kept)
        if len(step.kept_calls) == len(calls):
            # The call flushes held text, at which a guard may end the answer.
            self._phase = self._run_tools if self.state.stop_reason is None else self._finish
        return released

    async def _run_tools(self) -> list[StreamPart]:
        """Run the tools of a step concurrently; the first that trips cancels the others."""
        step = self._current_step
        tasks: list[asyncio.Task[ToolResult]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for call, kept in zip(step.calls, step.kept_calls, strict=True):
                    with bind_tools(self.state, kept):
                        tasks.append(group.create_task(self._provider.run_tool(call, self.state)))
        except BaseExceptionGroup as errors:
            first = errors.exceptions[0]
            raise (first.__cause__ or first) if isinstance(first, ToolInterrupt) else first from None
        step.results = iter([task.result() for task in tasks])
        self._phase = self._take_result
        return []

    async def _take_result(self) -> list[StreamPart]:
        """Send the next result of the step through the guards."""
        step = self._current_step
        result = next(step.results, None)
        if result is None:
            self._phase = self._next_step if self.state.stop_reason is None else self._finish
            return []
        shown, released = await self._pipeline.tool_result(step.number, result)
        step.shown_results.append(shown)
        return released

    async def _next_step(self) -> list[StreamPart]:
        before = [*self._messages, *self._current_step.messages(self.state.run_id)]
        self._messages = await self._pipeline.next_step(before)
        shown = {message.id: message for message in self._messages}
        for message in before:
            if shown.get(message.id) != message:
                self._responses.pop(message.id, None)  # the model is shown the edited message, not its own
        self._steps_done += 1
        self._phase = self._ask if self.state.stop_reason is None else self._finish
        return []

    async def _finish(self) -> list[StreamPart]:
        self._phase = self._commit
        return await self._finish_turn()

    async def _finish_turn(self) -> list[StreamPart]:
        released = await self._pipeline.finish()
        self.result.messages = self._pipeline.turn
        self.result.text = self._pipeline.text
        # A guard may end the answer as late as here, in text that it held back.
        self.result.finish_reason = self.state.stop_reason or self.result.finish_reason
        return released

    async def _commit(self) -> list[StreamPart]:
        """Do the staged writes; a failure does not lose the answer, unless it is to be raised."""
        self._phase = None
        self.result.saved = await self._pipeline.commit(raises=self._settings.on_memory_error == "raise")
        return []

    @property
    def _provider(self) -> "ModelProvider":
        if self._loaded is None:
            raise RuntimeError("the run has not begun yet")
        return self._loaded

    @property
    def _current_step(self) -> _ModelStep:
        if self._step is None:
            raise RuntimeError("no model was asked yet")
        return self._step

    def _limit_text(self, step: _ModelStep, text: str) -> str:
        """Cut an answer at the maximum size of a message, and end it there."""
        size = len(text) if text.isascii() else len(text.encode())
        left = _MAX_ANSWER_BYTES - step.size
        step.size += size
        if size <= left:
            return text
        self.state.stop_reason = "length"
        return text.encode()[:left].decode(errors="ignore")

    def _note_end(self, step: _ModelStep, end: StepEnd) -> None:
        self._responses[assistant_id(self.state.run_id, step.number)] = end.response
        usage = self.result.usage
        usage.input_tokens += end.usage.input_tokens
        usage.output_tokens += end.usage.output_tokens
        self.result.finish_reason = end.finish_reason

    def _note_trip(self, trip: TripWire) -> Event:
        # Without a stream nobody has seen any of the answer.
        trip.released = self._pipeline.released_characters if self._settings.chunked else 0
        self.result.tripwire = trip
        self.result.text = ""
        self.result.messages = []
        return Event("tripwire", tripwire=trip, result=self.result)

    async def _close_model(self) -> None:
        if self._step is not None:
            await self._step.parts.aclose()

    async def _save_partial(self) -> None:
        """Save the prompt and what the user saw of a stream that was left, unless the caller said no.

        A prompt that has not passed the input side is not kept. Neither is a turn whose commit was cancelled:
        who does not want to wait for the store must not wait for it again. A failure here is only logged: the
        caller must see why the run was aborted.
        """
        is_under_way = self._has_begun and self._phase is not None and not self.result.saved
        if not self._settings.save_partial or not is_under_way:
            return
        seen = self.delivery.trim(self._pipeline.released_messages())
        try:
            self.result.saved = await self._pipeline.save_partial(seen)
        except Exception as error:  # noqa: BLE001 - a hook or a write may raise anything; the trace has it
            _log.warning("what the user saw of an aborted run could not be saved: %s", error)


async def _do_not_wait() -> None:
    """Return at once: without a stream there is no reader."""


def _to_event(part: StreamPart) -> Event:
    if isinstance(part, TextDelta):
        return Event("text", text=part.text)
    if isinstance(part, ToolResult):
        return Event("tool_result", tool_result=part)
    return Event("tool_call", tool_call=part)
