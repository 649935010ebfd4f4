"""A run that was committed before: its turn is taken from memory, and nobody is asked again.

What is stored has passed the processors up to memory. Those behind memory have not seen it in this form, so
it goes through them once more; what they stage is not written again.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from recollect.errors import StorageError
from recollect.memory.history import MessagePersistenceProcessor
from recollect.messages import Message, TextPart, ToolCall, ToolResult
from recollect.pipeline.assembly import id_of
from recollect.pipeline.output import OutputChain
from recollect.pipeline.processor import Processor, RunContext, RunState, StreamPart, TextDelta


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
