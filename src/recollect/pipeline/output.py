"""The output side: a stream of parts through the processors, then the finished turn.

Every part goes through the processors in order. One that has a stream hook may hold text back; it is asked
to let it out before any part that is not text, before another message, and at the end. One that has only a
result hook holds everything back until the end: safe by default. At the end each processor in turn lets its
rest out, sees the turn as it stands at its place in the list, and what it lets out goes on through those
behind it.
Text that was let out by the last one is released and never edited again.
"""

from collections.abc import Awaitable, Sequence
from operator import itemgetter
from time import perf_counter
from typing import TypeAlias, cast

from recollect.errors import RecollectError
from recollect.messages import Message, Part, TextPart, ToolCall, ToolResult
from recollect.pipeline.assembly import id_of
from recollect.pipeline.context import RunContext, RunState
from recollect.pipeline.input import run_on_messages
from recollect.pipeline.processor import Processor, StreamPart, TextDelta
from recollect.pipeline.stage import Stage, StreamHook
from recollect.pipeline.turn import TurnBuilder, assistant_id
from recollect.trace import TraceEntry

# What a piece of text meets, and where; a processor without a stream hook only takes note.
_Stop: TypeAlias = tuple[int, StreamHook | None, RunContext, TraceEntry | None, TurnBuilder | None]


class OutputChain:
    """The output side of one run."""

    def __init__(self, processors: Sequence[Processor], run: RunState) -> None:
        """Set up a stage for each processor."""
        self._run = run
        self._stages = [Stage(processor, run) for processor in processors]
        self._released = TurnBuilder(run.run_id)
        self._speaking_step: int | None = None
        self._even_step: int | None = None
        self._short_way: list[_Stop] = []
        self._short_way_ends = False
        self.released_characters = 0

    @property
    def text(self) -> str:
        """All text that was released."""
        return self._released.text()

    def push(self, step: int, part: StreamPart) -> Awaitable[list[StreamPart]]:
        """Send a part through all stages; awaited, it is what is released."""
        # Text, which nearly every part is, takes a way without detours for as long as it stays one text.
        if step == self._even_step and type(part) is TextDelta:
            return self._push_text(step, part)
        return self._push_part(step, part)

    async def _push_part(self, step: int, part: StreamPart) -> list[StreamPart]:
        released = await self._send(step, [part], 0)
        if step != self._even_step:
            self._look_for_the_short_way(step)
        return released

    async def _push_text(self, step: int, part: TextDelta) -> list[StreamPart]:
        started = perf_counter()
        for place, hook, ctx, entry, builder in self._short_way:
            if hook is not None and entry is not None:
                size = len(part.text)
                try:
                    parts = await hook(part, ctx)
                except BaseException as error:
                    self._stages[place].failed(part, error, started)
                    raise
                now = perf_counter()
                entry.milliseconds += (now - started) * 1000
                entry.calls += 1
                entry.characters_in += size
                started = now
                if type(parts) is not list or len(parts) > 1 or (parts and type(parts[0]) is not TextDelta):
                    return await self._send(step, self._stages[place].take_answer(part, parts), place + 1)
                if not parts:
                    entry.characters_added -= size
                    return []
                part = cast("TextDelta", parts[0])
                entry.characters_added += len(part.text) - size
            if builder is not None:
                builder.add_text(step, part.text)
        if self._short_way_ends:
            return []
        if step != self._speaking_step:
            return self._release(step, [part])
        self._released.add_text(step, part.text)
        self.released_characters += len(part.text)
        return [part]

    def _look_for_the_short_way(self, step: int) -> None:
        """Find out what text of a step meets, once all have begun with the step: no detour is needed then.

        It ends at the first stage that holds everything back.
        """
        holding = next((place for place, stage in enumerate(self._stages) if stage.holds), None)
        stages = self._stages if holding is None else self._stages[: holding + 1]
        self._short_way = [
            (place, stage.hook, stage.ctx, stage.entry, stage.passed if stage.has_result else None)
            for place, stage in enumerate(stages)
            if stage.hook is not None or stage.has_result
        ]
        self._short_way_ends = holding is not None
        is_even = all(stage.step == step and (stage.entry or not stage.hook) for stage in stages)
        self._even_step = step if is_even else None

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
        after = await run_on_messages(stage.processor, ctx, "process_output_result", before)
        if stage.holds:
            return _without_orphans(_with_known_ids(before, after, self._run.run_id))
        _check_result(stage.processor, before, after)
        return after


def _on_a_new_line(parts: list[StreamPart]) -> list[StreamPart]:
    """Begin what the model says after a tool round on a line of its own, as in the result's text."""
    place = next(place for place, part in enumerate(parts) if isinstance(part, TextDelta) and part.text)
    return [*parts[:place], TextDelta("\n" + cast("TextDelta", parts[place]).text), *parts[place + 1 :]]


def _with_messages(turn: list[Message], spoken: list[Message]) -> list[Message]:
    """Put the model's and the tools' messages, as they stand here, into a turn.

    Text and tool parts are what has passed this place. The rest, such as metadata, is the turn's.
    """
    known = {message.id: message for message in turn}
    prompt = [message for message in turn if message.origin != "response"]
    return prompt + [_merged(message, known.get(message.id)) for message in spoken]


def _merged(message: Message, earlier: Message | None) -> Message:
    if earlier is None:
        return message
    text = [part for part in message.parts if isinstance(part, TextPart)]
    tools = [part for part in message.parts if not isinstance(part, TextPart)]
    others = [part for part in earlier.parts if _stream_part(part) is None]
    return earlier.replace(content=[*text, *others, *tools])


def _without_orphans(turn: list[Message]) -> list[Message]:
    """Drop the results of calls that are no longer there: no model takes one without the other."""
    calls = {call.id for message in turn for call in message.tool_calls}
    kept: list[Message] = []
    for message in turn:
        if message.origin != "response" or all(result.call_id in calls for result in message.tool_results):
            kept.append(message)
            continue
        rest = [part for part in message.parts if not isinstance(part, ToolResult) or part.call_id in calls]
        if rest:
            kept.append(message.replace(content=rest))
    return kept


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


def _check_result(processor: Processor, before: list[Message], after: list[Message]) -> None:
    """Refuse what a result hook cannot do where nothing waits for it: edit what has been let out."""
    said = {message.id: _shown(message) for message in before if message.origin == "response"}
    kept = {message.id: _shown(message) for message in after if message.origin == "response"}
    if said == kept:
        return
    texts, kept_texts = ({name: text for name, (text, _) in both.items()} for both in (said, kept))
    what = "text" if texts != kept_texts else "tool calls or results"
    way_out = "take `observes` away" if processor.observes else "change it there, or drop the stream hook"
    raise RecollectError(
        f"{id_of(processor)} changed {what} in process_output_result that process_output_stream had let out "
        f"before; {way_out}, and text waits for the result"
    )


def _shown(message: Message) -> tuple[str, list[Part]]:
    return message.text, [*message.tool_calls, *message.tool_results]


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
