"""The output side: a stream of parts through the processors, then the finished turn.

Every part goes through the processors in order. One that has a stream hook may hold text back; it is asked
to let it out before any part that is not text, before another message, and at the end. One that has only a
result hook holds everything back until the end: safe by default. At the end each processor in turn lets its
rest out, sees the turn as it stands at its place in the list, and what it lets out goes on through those
behind it.
Text that was let out by the last one is released and never edited again.
"""

from collections.abc import Sequence
from operator import itemgetter
from time import perf_counter
from typing import cast

from recollect.errors import RecollectError
from recollect.messages import Message, Part, TextPart, ToolCall, ToolResult
from recollect.processors.base import Processor, RunContext, RunState, StreamPart, TextDelta, TripWire
from recollect.processors.chain import checked_messages, record_messages, run_hook
from recollect.processors.expand import id_of
from recollect.processors.turn import TurnBuilder, assistant_id
from recollect.trace import TraceEntry


class Stage:
    """One processor's place on the output side of one run."""

    __slots__ = (
        "_finishes",
        "_run",
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
        self.has_result = processor.overrides("process_output_result")
        self.passed = TurnBuilder(run.run_id)
        self._run = run
        streams = processor.overrides("process_output_stream")
        self.hook = processor.process_output_stream if streams else None
        self._finishes = processor.overrides("finish_output_stream")
        waits = getattr(processor, "needs_whole_text", not streams)
        self.holds = self.has_result and bool(waits) and not processor.observes
        self.step = 0
        self.ctx = RunContext(run, id_of(processor), "stream")
        self.entry: TraceEntry | None = None

    async def accept(self, step: int, parts: list[StreamPart]) -> list[StreamPart]:
        """Take parts in and return what goes on to the next processor."""
        self.step = step
        if self.hook is not None:
            parts = await self._through_hook(parts)
        if self.has_result:
            self.passed.add(step, parts)
        return [] if self.holds else parts

    async def flush(self) -> list[StreamPart]:
        """Return what the stream hook still held back; a holding stage keeps it."""
        if not self._finishes:
            return []
        rest = await self._finish()
        if self.has_result:
            self.passed.add(self.step, rest)
        return [] if self.holds else rest

    def first_entry(self) -> TraceEntry:
        """Make the trace's entry of the stream hook when it first acts."""
        self.entry = self._run.trace.entry(self.ctx.processor_id, "stream")
        return self.entry

    def note(self, started: float, error: BaseException | None = None) -> None:
        """Write a call of the stream hook into the trace."""
        entry = self.entry or self.first_entry()
        entry.calls += 1
        entry.milliseconds += (perf_counter() - started) * 1000
        if isinstance(error, TripWire):
            error.processor_id = error.processor_id or self.ctx.processor_id
            entry.tripwire = error.reason
        elif isinstance(error, Exception):
            entry.error = f"{type(error).__name__}: {error}"

    async def _through_hook(self, parts: list[StreamPart]) -> list[StreamPart]:
        started = perf_counter()
        try:
            out = await self._one_by_one(parts)
        except BaseException as error:
            self.note(started, error)
            raise
        self.note(started)
        return out

    async def _one_by_one(self, parts: list[StreamPart]) -> list[StreamPart]:
        out: list[StreamPart] = []
        for part in parts:
            if self._finishes and not isinstance(part, TextDelta):
                out += await self._finish()
            out += self.checked(await self.processor.process_output_stream(part, self.ctx))
        return out

    def checked(self, parts: object) -> list[StreamPart]:
        """Refuse what a stream hook may not return."""
        if isinstance(parts, list) and all(
            isinstance(part, TextDelta | ToolCall | ToolResult) for part in cast("list[object]", parts)
        ):
            return cast("list[StreamPart]", parts)
        raise RecollectError(f"{self.ctx.processor_id}.process_output_stream must return a list of parts")

    async def _finish(self) -> list[StreamPart]:
        hook = self.processor.finish_output_stream(self.ctx)
        return await run_hook(self._run, self.processor, "stream", hook)


class OutputChain:
    """The output side of one run."""

    def __init__(self, processors: Sequence[Processor], run: RunState) -> None:
        """Set up a stage for each processor."""
        self._run = run
        self._stages = [Stage(processor, run) for processor in processors]
        self._released = TurnBuilder(run.run_id)
        self._speaking_step: int | None = None
        self.released_characters = 0

    @property
    def text(self) -> str:
        """All text that was released."""
        return self._released.text()

    async def push(self, step: int, part: StreamPart) -> list[StreamPart]:
        """Send a part through all stages and return what is released."""
        parts = [part]
        started = perf_counter()
        for stage in self._stages:
            # A lone piece of text, which nearly every part is, takes a path without detours.
            if stage.step != step or len(parts) != 1 or type(part := parts[0]) is not TextDelta:
                return await self._send(step, parts, self._stages.index(stage))
            if (hook := stage.hook) is not None:
                try:
                    parts = await hook(part, stage.ctx)
                    if type(parts) is not list or len(parts) != 1 or parts[0] is not part:
                        parts = stage.checked(parts)
                except BaseException as error:
                    stage.note(started, error)
                    raise
                now = perf_counter()
                entry = stage.entry or stage.first_entry()
                entry.calls += 1
                entry.milliseconds += (now - started) * 1000
                started = now
            if stage.has_result:
                stage.passed.add(step, parts)
                if stage.holds:
                    return []
        return self._release(step, parts)

    async def close(self, prompt: list[Message]) -> tuple[list[StreamPart], list[Message]]:
        """End the stream, run the result hooks, and return what is released last and the finished turn."""
        out: list[StreamPart] = []
        turn = prompt
        for place, stage in enumerate(self._stages):
            out += await self._send(stage.step, await stage.flush(), place + 1)
            if stage.has_result:
                turn = await self._result(stage, turn)
                if stage.holds:
                    for step, parts in _parts_of(turn, self._run.run_id):
                        out += await self._send(step, parts, place + 1)
        return out, _with_messages(turn, self._released.messages())

    def released_messages(self) -> list[Message]:
        """Return what was released of the answer so far."""
        return self._released.messages()

    async def replay(self, messages: list[Message]) -> None:
        """Send the messages of an answer through all stages once more, as if the model had just said them."""
        for step, parts in _parts_of(messages, self._run.run_id):
            await self._send(step, parts, 0)

    async def _send(self, step: int, parts: list[StreamPart], place: int) -> list[StreamPart]:
        earlier: list[StreamPart] = []
        for number, stage in enumerate(self._stages[place:], place + 1):
            if not parts:
                return earlier
            if stage.step < step:
                # What is held back of an earlier message must not run into this one.
                earlier += await self._send(stage.step, await stage.flush(), number)
            parts = await stage.accept(step, parts)
        parts = self._release(step, parts)
        return earlier + parts if earlier else parts

    def _release(self, step: int, parts: list[StreamPart]) -> list[StreamPart]:
        self._released.add(step, parts)
        length = sum(len(part.text) for part in parts if isinstance(part, TextDelta))
        self.released_characters += length
        if not length or step == self._speaking_step:
            return parts
        is_first, self._speaking_step = self._speaking_step is None, step
        return parts if is_first else _on_a_new_line(parts)

    async def _result(self, stage: Stage, turn: list[Message]) -> list[Message]:
        before = _with_messages(turn, stage.passed.messages())
        ctx = RunContext(self._run, id_of(stage.processor), "result")
        hook = stage.processor.process_output_result(list(before), ctx)
        after = checked_messages(
            await run_hook(self._run, stage.processor, "result", hook),
            stage.processor,
            "process_output_result",
        )
        record_messages(self._run.trace.entry(ctx.processor_id, "result"), before, after)
        if stage.holds:
            after = _with_known_ids(before, after, self._run.run_id)
        _check_result(stage, before, after)
        return after


def _on_a_new_line(parts: list[StreamPart]) -> list[StreamPart]:
    """Begin what the model says after a tool round on a line of its own, as in the result's text."""
    place = next(place for place, part in enumerate(parts) if isinstance(part, TextDelta) and part.text)
    return [*parts[:place], TextDelta("\n" + cast("TextDelta", parts[place]).text), *parts[place + 1 :]]


def _with_messages(turn: list[Message], spoken: list[Message]) -> list[Message]:
    """Put the model's and the tools' messages, as they stand here, into a turn.

    Text is what has passed this place. Tool parts and metadata are the turn's, which earlier processors
    may have cleaned.
    """
    known = {message.id: message for message in turn}
    prompt = [message for message in turn if message.origin != "response"]
    return prompt + [_merged(message, known.get(message.id)) for message in spoken]


def _merged(message: Message, earlier: Message | None) -> Message:
    if earlier is None:
        return message
    text = [TextPart(message.text)] if message.text else []
    tools = [part for part in earlier.parts if not isinstance(part, TextPart)]
    return earlier.replace(content=[*text, *tools])


def _with_known_ids(before: list[Message], after: list[Message], run_id: str) -> list[Message]:
    """Give messages that were added to the answer the ids of further steps, so that they go on as parts."""
    known = {message.id for message in before}
    steps = (_step_of(message, run_id) for message in before if message.origin == "response")
    step = max(steps, default=-1)
    named: list[Message] = []
    for message in after:
        if message.origin == "response" and message.id not in known:
            step += 1
            named.append(message.replace(id=assistant_id(run_id, step)))
        else:
            named.append(message)
    return named


def _step_of(message: Message, run_id: str) -> int:
    """Return the step of a message by its id, such as "run:0003", or "run:0003.0001" for a tool's result."""
    return int(message.id.removeprefix(f"{run_id}:").partition(".")[0])


def _check_result(stage: Stage, before: list[Message], after: list[Message]) -> None:
    """Refuse what a result hook cannot do: edit text that its own stream hook had let out."""
    if stage.holds:
        return
    said = {message.id: message.text for message in before if message.origin == "response"}
    kept = {message.id: message.text for message in after if message.origin == "response"}
    if said != kept:
        raise RecollectError(
            f"{id_of(stage.processor)} changed text in process_output_result that it had let out before; "
            "drop the stream hook, and text waits for the result"
        )


def _parts_of(turn: list[Message], run_id: str) -> list[tuple[int, list[StreamPart]]]:
    """Take the model's and the tools' messages of a turn apart again, for the stages that follow.

    They come in the order of their steps, in which they are kept.
    """
    found = [
        (_step_of(message, run_id), [part for part in map(_stream_part, message.parts) if part is not None])
        for message in turn
        if message.origin == "response" and message.id.startswith(f"{run_id}:")
    ]
    return sorted(found, key=itemgetter(0))


def _stream_part(part: Part) -> StreamPart | None:
    if isinstance(part, TextPart):
        return TextDelta(part.text)
    return part if isinstance(part, ToolCall | ToolResult) else None
