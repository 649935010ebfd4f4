"""Runs that did not end as usual: those that were broken off, and those that were committed before.

Of a run that was broken off, exactly what the user saw is stored, if the caller wants that. The output side
sees that turn through its result hooks alone, without the run's state: what a guard still held back is
nobody's to see.

A run that was committed before is replayed from memory, and no model is asked. What is stored has passed
the processors up to memory. Those after memory have not seen it in this form, so it goes through them once
more; what they stage is not written again.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from recollect.errors import StorageError
from recollect.memory.history import MessagePersistenceProcessor
from recollect.messages import ABORTED, Message, Part, TextPart, ToolCall, ToolResult
from recollect.pipeline.assembly import id_of
from recollect.pipeline.context import RunContext, RunState
from recollect.pipeline.input import run_on_messages
from recollect.pipeline.output import OutputChain
from recollect.pipeline.processor import Processor, StreamPart, TextDelta


class Seen:
    """What has reached whoever reads a run: released parts may still wait for their turn when it is left."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._characters = 0
        self._tools: list[StreamPart] = []

    def note(self, part: StreamPart) -> None:
        """Count a part that is handed out."""
        if isinstance(part, TextDelta):
            self._characters += len(part.text)
        else:
            self._tools.append(part)

    def of(self, released: list[Message]) -> list[Message]:
        """Return as much of the released messages as was handed out."""
        left, found = self._characters, list[Message]()
        for message in released:
            kept: list[Part] = [part for part in message.parts if part in self._tools]
            if message.text:
                left -= bool(found and any(other.text for other in found))  # each begins on a new line
                text = message.text[: max(left, 0)]
                left -= len(message.text)
                kept[:0] = [TextPart(text)] if text else []
            if kept:
                found.append(message.replace(content=kept))
        return found


async def stage_partial(
    output_side: Sequence[Processor], run: RunState, prompt: list[Message], seen: list[Message]
) -> RunState:
    """Show what was seen to the result hooks and return a state with the writes that they staged."""
    fresh = replace(run, commits=[], states={})
    turn = [*prompt, *map(_marked, seen)]
    for processor in output_side:
        if processor.overrides("process_output_result"):
            turn = _as_seen(await _result(processor, fresh, turn), seen)
    return fresh


async def _result(processor: Processor, run: RunState, turn: list[Message]) -> list[Message]:
    ctx = RunContext(run, id_of(processor), "result")
    return await run_on_messages(processor, ctx, "process_output_result", turn)


def _as_seen(turn: list[Message], seen: list[Message]) -> list[Message]:
    """Take a hook's prompt and its tool parts, but the answer's text as it was released."""
    known = {message.id: message for message in turn}
    prompt = [message for message in turn if message.origin != "response"]
    return prompt + [_marked(_merged(message, known.get(message.id, message))) for message in seen]


def _merged(seen: Message, after: Message) -> Message:
    text: list[Part] = [TextPart(seen.text)] if seen.text else []
    return after.replace(content=[*text, *(part for part in after.parts if not isinstance(part, TextPart))])


def _marked(message: Message) -> Message:
    return message.replace(metadata={**message.metadata, ABORTED: True})


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The turn of a run that was committed, and the processors that stand behind memory."""

    turn: list[Message]
    behind: Sequence[Processor]

    def chain(self, run: RunState) -> OutputChain:
        """Return an output side for the turn, which shares nothing but its trace with the run's own."""
        return OutputChain(self.behind, replace(run, commits=[], states={}))

    def parts(self) -> Iterator[tuple[int, StreamPart]]:
        """Take the answer apart again, as it was said: each part with its step."""
        step = -1
        for message in self.turn:
            if message.origin != "response":
                continue
            step = _step_of(message, step)
            for part in message.parts:
                if isinstance(part, TextPart):
                    yield step, TextDelta(part.text)
                elif isinstance(part, ToolCall | ToolResult):
                    yield step, part


async def find_stored_run(output_side: Sequence[Processor], run: RunState) -> StoredRun | None:
    """Return what the first memory of the output side has of a run of this id."""
    for place, processor in enumerate(output_side):
        if isinstance(processor, MessagePersistenceProcessor):
            ctx = RunContext(run, id_of(processor), "commit")
            try:
                turn = await processor.stored_turn(ctx)
            except StorageError as error:
                ctx.degrade(error)
                continue
            if turn:
                return StoredRun(turn, output_side[place + 1 :])
    return None


def _step_of(message: Message, before: int) -> int:
    """Return the step that a message belongs to, by its id ("run:0003") or else by its place."""
    with suppress(ValueError):
        return int(message.id.removeprefix(f"{message.run_id}:").partition(".")[0])
    return before + (message.role == "assistant")
