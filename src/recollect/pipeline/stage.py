"""One processor's place on the output side of one run: its stream hooks, and what has passed it."""

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import TypeAlias, cast

from recollect.errors import RecollectError
from recollect.messages import ToolCall, ToolResult
from recollect.pipeline.assembly import id_of
from recollect.pipeline.context import RunContext, RunState, TripWire
from recollect.pipeline.input import hook_of, run_hook
from recollect.pipeline.processor import Processor, StreamPart, TextDelta
from recollect.pipeline.turn import TurnBuilder
from recollect.trace import TraceEntry, describe_tool_changes

StreamHook: TypeAlias = Callable[[StreamPart, RunContext], Awaitable[list[StreamPart]]]
"""The hook that every part of an answer goes through; what it gives back is checked."""


class Stage:
    """A processor in the stream; a stage that holds lets nothing out before its result hook has run."""

    __slots__ = (
        "_calls",
        "_finishes",
        "ctx",
        "entry",
        "has_result",
        "holds",
        "hook",
        "passed",
        "processor",
        "step",
    )

    def __init__(self, processor: Processor, run: RunState) -> None:
        """Find out once what the processor does; the rest is done for every chunk."""
        self.processor = processor
        self.ctx = RunContext(run, id_of(processor), "stream")
        self.has_result = processor.overrides("process_output_result")
        self.holds = self.has_result and processor.needs_whole_text
        self.passed = TurnBuilder(run.run_id)
        streams = processor.overrides("process_output_stream")
        self.hook: StreamHook | None = hook_of(processor, "process_output_stream") if streams else None
        self.step = 0
        self.entry: TraceEntry | None = None
        self._finishes = processor.overrides("finish_output_stream")
        self._calls: set[tuple[int, str]] = set()

    async def accept(self, step: int, parts: list[StreamPart]) -> list[StreamPart]:
        """Take parts in and return what goes on to the next processor."""
        self.step = step
        if self.hook is not None:
            out: list[StreamPart] = []
            for part in parts:
                out += await self._through_hook(part, self.hook)
            parts = out
        return self._passed_on(parts)

    async def flush(self) -> list[StreamPart]:
        """Return what the stream hook still held back; a holding stage keeps it."""
        return self._passed_on(await self._finish()) if self._finishes else []

    def take_answer(self, part: StreamPart, answer: object) -> list[StreamPart]:
        """Take what the hook, called and timed elsewhere, gave back; return what goes on."""
        return self._passed_on(self._checked_answer(part, answer))

    def failed(self, part: StreamPart, error: BaseException, started: float) -> None:
        """Write a call that ended in a trip or an error into the trace."""
        entry = self._count(part, started)
        if isinstance(error, TripWire):
            error.processor_id = error.processor_id or self.ctx.processor_id
            entry.tripwire = error.reason
        elif isinstance(error, Exception):
            entry.error = f"{type(error).__name__}: {error}"

    async def _through_hook(self, part: StreamPart, hook: StreamHook) -> list[StreamPart]:
        rest = [] if isinstance(part, TextDelta) or not self._finishes else await self._finish()
        started = perf_counter()
        try:
            answer = await hook(part, self.ctx)
        except BaseException as error:
            self.failed(part, error, started)
            raise
        self._count(part, started)
        return rest + self._checked_answer(part, answer)

    async def _finish(self) -> list[StreamPart]:
        answer = await run_hook(self.processor, self.ctx, "finish_output_stream")
        parts = self._without_orphans(self._checked(answer, "finish_output_stream"))
        self._known_entry().characters_added += _length(parts)
        return parts

    def _passed_on(self, parts: list[StreamPart]) -> list[StreamPart]:
        if self.has_result:
            self.passed.add(self.step, parts)
        return [] if self.holds else parts

    def _count(self, part: StreamPart, started: float) -> TraceEntry:
        entry = self._known_entry()
        entry.calls += 1
        entry.milliseconds += (perf_counter() - started) * 1000
        entry.characters_in += _length([part])
        return entry

    def _known_entry(self) -> TraceEntry:
        """Return the trace's entry of the stream hooks, made when one of them first acts."""
        if self.entry is None:
            self.entry = self.ctx.trace.entry(self.ctx.processor_id, "stream")
        return self.entry

    def _checked_answer(self, part: StreamPart, answer: object) -> list[StreamPart]:
        """Check what the hook made of a part, and note what it changed."""
        entry = self._known_entry()
        texts = cast("list[StreamPart]", answer)
        # Nearly always text becomes other text, or none for now.
        if type(part) is TextDelta and answer.__class__ is list and _is_text(texts):
            entry.characters_added += _length(texts) - len(part.text)
            return texts
        try:
            parts = self._without_orphans(self._checked(answer, "process_output_stream"))
        except RecollectError as error:
            entry.error = f"{type(error).__name__}: {error}"
            raise
        entry.characters_added += _length(parts) - _length([part])
        if not isinstance(part, TextDelta):
            tools = [item for item in parts if not isinstance(item, TextDelta)]
            entry.changes += describe_tool_changes(part, tools)
        return parts

    def _checked(self, parts: object, hook: str) -> list[StreamPart]:
        if isinstance(parts, list) and all(
            isinstance(part, TextDelta | ToolCall | ToolResult) for part in cast("list[object]", parts)
        ):
            return cast("list[StreamPart]", parts)
        raise RecollectError(
            f"{self.ctx.processor_id}.{hook} must return a list of TextDelta, ToolCall and ToolResult values"
        )

    def _without_orphans(self, parts: list[StreamPart]) -> list[StreamPart]:
        """Drop the results of calls that the hook did not let through: they would stand alone."""
        kept: list[StreamPart] = []
        for part in parts:
            if isinstance(part, ToolCall):
                self._calls.add((self.step, part.id))
            if not isinstance(part, ToolResult) or (self.step, part.call_id) in self._calls:
                kept.append(part)
        return kept


def _is_text(parts: list[StreamPart]) -> bool:
    return not parts or (len(parts) == 1 and type(parts[0]) is TextDelta)


def _length(parts: Sequence[StreamPart]) -> int:
    if len(parts) == 1 and type(parts[0]) is TextDelta:
        return len(parts[0].text)
    return sum(len(part.text) for part in parts if isinstance(part, TextDelta))
