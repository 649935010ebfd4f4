"""Runs that do not go from prompt to commit: aborted runs, and runs that were committed before.

Of a stream that its reader has left, memory stores the prompt and exactly what the reader has received,
unless the caller does not want that. Only the result hooks of the output side run on that turn, with empty
state: what a guard still held back must not be stored.

A run that was committed before is replayed from memory, without a request to the model. The stored turn has
passed the processors up to memory. Those after memory have not seen it in this form, so it goes through them
again; what they stage is not written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from recollect.errors import StorageError
from recollect.messages import ABORTED, Message, Part, TextPart, ToolCall, ToolResult, is_aborted
from recollect.pipeline.assembly import id_of
from recollect.pipeline.context import RunContext, RunState
from recollect.pipeline.input import run_on_messages
from recollect.pipeline.processor import Processor, TurnKeeper


@dataclass(slots=True)
class Delivery:
    """Counts what the reader of a run has received; released parts may still wait in the queue."""

    characters: int = 0
    tools: list[ToolCall | ToolResult] = field(default_factory=list[ToolCall | ToolResult])

    def trim(self, released: list[Message]) -> list[Message]:
        """Return as much of the released messages as the reader has received."""
        left, found, tools = self.characters, list[Message](), list(self.tools)
        for message in released:
            kept = list[Part]()
            for part in message.parts:
                if part in tools:  # a call that is repeated in a later step is another one
                    tools.remove(part)
                    kept.append(part)
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
    """Run the result hooks on what the user saw and return a state with the writes that they staged."""
    fresh = run.fresh()
    # Something must say that the run was aborted, also where nothing of the answer was seen.
    turn = [*prompt, *map(_mark_aborted, seen)] if seen else [*map(_mark_aborted, prompt)]
    for processor in output_side:
        if processor.overrides("process_output_result"):
            turn = _keep_seen_text(await _run_result_hook(processor, fresh, turn), seen)
    return fresh


async def _run_result_hook(processor: Processor, run: RunState, turn: list[Message]) -> list[Message]:
    ctx = RunContext(run, id_of(processor), "result")
    return await run_on_messages(processor, ctx, "process_output_result", turn)


def _keep_seen_text(turn: list[Message], seen: list[Message]) -> list[Message]:
    """Keep a hook's changes of the prompt and of tool parts, but the answer's text as it was released."""
    known = {message.id: message for message in turn}
    prompt = [message for message in turn if message.origin != "response"]
    return prompt + [
        _mark_aborted(_restore_text(message, known.get(message.id, message))) for message in seen
    ]


def _restore_text(seen: Message, after: Message) -> Message:
    text: list[Part] = [TextPart(seen.text)] if seen.text else []
    return after.replace(content=[*text, *(part for part in after.parts if not isinstance(part, TextPart))])


def _mark_aborted(message: Message) -> Message:
    return message.replace(metadata={**message.metadata, ABORTED: True})


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The turn of a committed run, and the processors after the memory that stores it."""

    turn: list[Message]
    following: Sequence[Processor]

    @property
    def was_aborted(self) -> bool:
        """Whether the stored answer is only the part of an aborted run."""
        return is_aborted(self.turn)


async def find_stored_run(output_side: Sequence[Processor], run: RunState) -> StoredRun | None:
    """Return the turn of this run id from the first memory of the output side that has it."""
    for place, processor in enumerate(output_side):
        if isinstance(processor, TurnKeeper):
            ctx = RunContext(run, id_of(processor), "commit")
            try:
                turn = await processor.get_stored_turn(ctx)
            except StorageError as error:
                ctx.degrade(error)
                continue
            if turn:
                return StoredRun(turn, output_side[place + 1 :])
    return None
