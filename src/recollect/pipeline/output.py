"""The output side: a stream of parts through the processors, then the finished turn.

Every part goes through the processors in order. A processor with a stream hook may hold text back. The chain
flushes it before any part that is not text, before another step, and at the end. A processor with only a
result hook holds everything back until the end: safe by default. At the end each processor in turn is flushed
and then sees the turn as the processors before it left it. What it releases goes through those after it. Text
that the last processor has released is never edited again.

A guard that redacts numbers, then a word limit, and what each is given and releases:

    model      "call 555" ──▶ guard  "call "  ──▶ limit "call "         the guard holds "555": it may go on
               "-0199."   ──▶        "[X]."   ──▶       "[X]."          the number has ended
    end        flush guard, its result hook; flush limit, its result hook; the turn is what was released
"""

from collections.abc import Coroutine, Sequence
from typing import Any

from recollect.messages import Message
from recollect.pipeline.context import RunState
from recollect.pipeline.processor import Processor, StreamPart, TextDelta
from recollect.pipeline.stage import Stage, acts_on_output
from recollect.pipeline.turn import Answer, Turn


class OutputChain:
    """The output side of one run; `released` is what has passed all processors."""

    def __init__(self, processors: Sequence[Processor], run: RunState) -> None:
        self._run_id = run.run_id
        self._stages = [Stage(processor, run) for processor in processors if acts_on_output(processor)]
        self._speaking_step: int | None = None
        self.released = Answer(run.run_id)

    def push(self, step: int, part: StreamPart) -> Coroutine[Any, Any, list[StreamPart]]:
        """Send a part through all stages; await it for the released parts."""
        return self._send(step, [part], 0)

    async def close(self, prompt: list[Message]) -> tuple[list[StreamPart], list[Message]]:
        """End the stream, run the result hooks, and return what is released last and the finished turn."""
        out: list[StreamPart] = []
        turn = Turn(self._run_id, prompt)
        for following, stage in enumerate(self._stages, 1):
            out += await self._send(stage.step, await stage.flush(), following)
            turn, held = await stage.end(turn)
            for step, part in held:
                out += await self._send(step, [part], following)
        return out, turn.with_answer(self.released).messages

    async def _send(self, step: int, parts: list[StreamPart], place: int) -> list[StreamPart]:
        """Send parts of a step through the stages from a place on, and return what is released."""
        earlier: list[StreamPart] = []
        for following, stage in enumerate(self._stages[place:] if place else self._stages, place + 1):
            if not parts:
                return earlier
            if stage.step != step:
                # What is held back of an earlier step must not run into this one.
                earlier += await self._send(stage.step, await stage.flush(), following)
                stage.step = step
            if len(parts) == 1:
                parts = await stage.accept(parts[0])
            else:
                parts = [out for part in parts for out in await stage.accept(part)]
        return earlier + self._release(step, parts) if earlier else self._release(step, parts)

    def _release(self, step: int, parts: list[StreamPart]) -> list[StreamPart]:
        for part in parts:
            self.released.add(step, part)
        if step == self._speaking_step:
            return parts
        for place, part in enumerate(parts):
            if isinstance(part, TextDelta) and part.text:
                is_first, self._speaking_step = self._speaking_step is None, step
                # A further step begins on a line of its own, as in the result's text.
                new_line = part if is_first else TextDelta("\n" + part.text)
                return [*parts[:place], new_line, *parts[place + 1 :]]
        return parts
