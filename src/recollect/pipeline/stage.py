"""One processor on the output side of one run: it runs the stream hooks and records what has passed."""

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import TypeAlias, cast

from recollect.errors import ProcessorError
from recollect.messages import Message, Part, ToolCall, ToolResult
from recollect.pipeline.assembly import id_of
from recollect.pipeline.context import RunContext, RunState, TripWire
from recollect.pipeline.input import get_hook, is_only_noted, run_hook, run_on_messages
from recollect.pipeline.processor import Processor, StreamPart, TextDelta
from recollect.pipeline.turn import Answer, Turn
from recollect.trace import TraceEntry, describe_tool_changes

StreamHook: TypeAlias = Callable[[StreamPart, RunContext], Awaitable[list[StreamPart]]]
"""The hook for every part of an answer; what it returns is checked."""

_STREAM, _FINISH, _RESULT = "process_output_stream", "finish_output_stream", "process_output_result"


def acts_on_output(processor: Processor) -> bool:
    """Whether a processor has a hook for answers, so that it needs a stage."""
    return any(map(processor.overrides, (_STREAM, _FINISH, _RESULT)))


class Stage:
    """A processor in the stream; a stage that holds releases nothing before its result hook has run."""

    __slots__ = (
        "_call_ids",
        "_ctx",
        "_entry",
        "_finishes",
        "_has_result",
        "_holds",
        "_hook",
        "_passed",
        "_processor",
        "_run",
        "step",
    )

    def __init__(self, processor: Processor, run: RunState) -> None:
        """Look up the hooks once, because `accept` runs for every chunk."""
        self._processor = processor
        self._run = run
        self._ctx = RunContext(run, id_of(processor), "stream")
        self._has_result = processor.overrides(_RESULT)
        self._holds = self._has_result and processor.needs_whole_text
        self._passed = Answer(run.run_id)
        self._hook: StreamHook | None = get_hook(processor, _STREAM) if processor.overrides(_STREAM) else None
        self._finishes = processor.overrides(_FINISH)
        self._entry: TraceEntry | None = None
        self._call_ids: set[tuple[int, str]] = set()
        self.step = 0

    async def accept(self, part: StreamPart) -> list[StreamPart]:
        """Process a part of the current step and return the parts for the next stage."""
        hook = self._hook
        if hook is None:
            return self._pass_on([part])
        size = len(part.text) if type(part) is TextDelta else None
        rest = [] if size is not None or not self._finishes else await self._finish()
        entry = self._entry or self._begin_entry()
        started = perf_counter()
        try:
            answer = await hook(part, self._ctx)
        except Exception as error:
            self._note_failure(entry, error)
            if not is_only_noted(self._processor, error):
                raise
            answer = [part]
        finally:
            entry.milliseconds += (perf_counter() - started) * 1000
            entry.calls += 1
            entry.characters_in += size or 0
        # The common cases, without checks: one text becomes one text, or is held back for now.
        if size is not None and type(answer) is list:
            if not answer:
                entry.characters_added -= size
                return answer
            if len(answer) == 1 and type(answer[0]) is TextDelta:
                entry.characters_added += len(answer[0].text) - size
                return self._pass_on(answer)
        return self._pass_on(rest + self._check_answer(entry, part, answer))

    async def flush(self) -> list[StreamPart]:
        """Return what the stream hook still holds back; a holding stage keeps it."""
        return self._pass_on(await self._finish()) if self._finishes else []

    async def end(self, turn: Turn) -> tuple[Turn, list[tuple[int, StreamPart]]]:
        """Run the result hook on the turn so far; return the turn, and what a holding stage releases."""
        if not self._has_result:
            return turn, []
        before = turn.with_answer(self._passed)
        ctx = RunContext(self._run, self._ctx.processor_id, "result")
        after = await run_on_messages(self._processor, ctx, _RESULT, before.messages)
        if self._holds:
            rewritten = before.with_messages(after)
            return rewritten, rewritten.parts()
        _check_unchanged(self._processor, before.messages, after)
        return Turn(before.run_id, after, before.steps), []

    def _begin_entry(self) -> TraceEntry:
        self._entry = self._ctx.trace.entry(self._ctx.processor_id, "stream")
        return self._entry

    def _note_failure(self, entry: TraceEntry, error: Exception) -> None:
        if isinstance(error, TripWire):
            error.processor_id = error.processor_id or self._ctx.processor_id
            entry.tripwire = error.reason
        else:
            entry.error = f"{type(error).__name__}: {error}"

    def _check_answer(self, entry: TraceEntry, part: StreamPart, answer: object) -> list[StreamPart]:
        """Check what the hook returned for a part, and note the changes in the trace."""
        try:
            parts = self._drop_orphans(self._check_parts(answer, _STREAM))
        except ProcessorError as error:
            entry.error = f"{type(error).__name__}: {error}"
            raise
        entry.characters_added += _count_characters(parts) - _count_characters([part])
        if not isinstance(part, TextDelta):
            tools = [item for item in parts if not isinstance(item, TextDelta)]
            entry.changes += describe_tool_changes(part, tools)
        return parts

    async def _finish(self) -> list[StreamPart]:
        answer = await run_hook(self._processor, self._ctx, _FINISH)
        parts = self._drop_orphans(self._check_parts(answer, _FINISH))
        entry = self._entry or self._begin_entry()
        entry.characters_added += _count_characters(parts)
        return parts

    def _pass_on(self, parts: list[StreamPart]) -> list[StreamPart]:
        if self._has_result:
            for part in parts:
                self._passed.add(self.step, part)
        return [] if self._holds else parts

    def _check_parts(self, parts: object, hook: str) -> list[StreamPart]:
        if isinstance(parts, list) and all(
            isinstance(part, TextDelta | ToolCall | ToolResult) for part in cast("list[object]", parts)
        ):
            return cast("list[StreamPart]", parts)
        raise ProcessorError(
            self._ctx.processor_id, f"{hook} must return a list of TextDelta, ToolCall and ToolResult values"
        )

    def _drop_orphans(self, parts: list[StreamPart]) -> list[StreamPart]:
        """Drop results whose call the hook did not pass on."""
        kept: list[StreamPart] = []
        for part in parts:
            if isinstance(part, ToolCall):
                self._call_ids.add((self.step, part.id))
            if not isinstance(part, ToolResult) or (self.step, part.call_id) in self._call_ids:
                kept.append(part)
        return kept


def _count_characters(parts: Sequence[StreamPart]) -> int:
    return sum(len(part.text) for part in parts if isinstance(part, TextDelta))


def _check_unchanged(processor: Processor, before: list[Message], after: list[Message]) -> None:
    """Raise if a result hook edited text or tool parts that a stream has already released."""
    said = {message.id: _get_content(message) for message in before if message.origin == "response"}
    kept = {message.id: _get_content(message) for message in after if message.origin == "response"}
    if said == kept:
        return
    texts, kept_texts = ({name: text for name, (text, _) in both.items()} for both in (said, kept))
    what = "text" if texts != kept_texts else "tool calls or results"
    way_out = "remove `observes`" if processor.observes else "change it there, or drop the stream hook"
    raise ProcessorError(
        id_of(processor),
        f"process_output_result changed {what} that process_output_stream had released before; "
        f"{way_out}: then text waits for the result",
    )


def _get_content(message: Message) -> tuple[str, list[Part]]:
    return message.text, [*message.tool_calls, *message.tool_results]
