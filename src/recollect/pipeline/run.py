"""One turn through guards and memory, without a model; the code that asks the model calls these in order.

    view = await run.begin(prompt)                          the messages for the model
    released = await run.push(0, TextDelta("Let me see."))  its text, as far as the guards release it
    kept, released = await run.tool_call(0, call)           before the tool runs
    shown, released = await run.tool_result(0, result)      before the model sees it
    view = await run.next_step(view)                        before the model is asked again
    released = await run.finish()                           `run.turn` is the turn to store
    saved = await run.commit(raises=False)

A run that is aborted calls `save_partial` instead of the last two.
"""

import asyncio
import logging
from collections.abc import Sequence

from recollect.errors import UserErasedError, WrongOwnerError
from recollect.messages import Message, ToolCall, ToolResult
from recollect.pipeline.assembly import id_of
from recollect.pipeline.context import Commit, RunState
from recollect.pipeline.input import run_input, run_next_step, run_tool_call, run_tool_result
from recollect.pipeline.output import OutputChain
from recollect.pipeline.processor import Processor, StreamPart
from recollect.pipeline.recovery import StoredRun, find_stored_run, stage_partial

_log = logging.getLogger("recollect")


class PipelineRun:
    """One turn on its way through the processors."""

    def __init__(
        self, input_side: Sequence[Processor], output_side: Sequence[Processor], state: RunState
    ) -> None:
        self._input_side = input_side
        self._output_side = output_side
        self._chain = OutputChain(output_side, state)
        self._kept: list[Message] = []
        self._stored: StoredRun | None = None
        self.state = state
        self.turn: list[Message] = []
        self.push = self._chain.push

    @property
    def text(self) -> str:
        """All text that was released."""
        return self._chain.released.text()

    @property
    def released_characters(self) -> int:
        """How much text was released."""
        return self._chain.released.characters

    def released_messages(self) -> list[Message]:
        """Return what was released of the answer so far."""
        return self._chain.released.messages()

    async def begin(self, prompt: list[Message]) -> list[Message]:
        """Send the prompt through the input side and return the view for the model."""
        self._kept = prompt
        self.state.view, self._kept = await run_input(self._input_side, prompt, self.state)
        return self.state.view

    async def find_stored(self) -> StoredRun | None:
        """Return the stored turn of an earlier run of this id."""
        return await find_stored_run(self._output_side, self.state)

    def replay(self, stored: StoredRun) -> None:
        """Send what follows only through the processors after the memory that stores the turn.

        What they stage is not written.
        """
        self._chain = OutputChain(stored.following, self.state.fresh())
        self._kept = stored.turn
        self._stored = stored
        self.push = self._chain.push

    async def next_step(self, view: list[Message]) -> list[Message]:
        """Run the `every_step` processors on the prompt with the tool results; return the view."""
        return await run_next_step(self._input_side, view, self.state)

    async def tool_call(self, step: int, call: ToolCall) -> tuple[ToolCall, list[StreamPart]]:
        """Send a complete call through the output side; return the copy to store, and what is released."""
        kept = await run_tool_call(self._output_side, call, self.state)
        released = await self.push(step, kept)
        same = [part for part in released if isinstance(part, ToolCall) and part.id == call.id]
        return (same[-1] if same else kept), released

    async def tool_result(self, step: int, result: ToolResult) -> tuple[ToolResult, list[StreamPart]]:
        """Send a result through the input side; return the result for the model, and what is released."""
        shown = await run_tool_result(self._input_side, result, self.state)
        return shown, await self.push(step, shown)

    async def finish(self) -> list[StreamPart]:
        """End the answer and return what is released last; after it, `turn` is the turn to store."""
        released, self.turn = await self._chain.close(self._kept)
        if self._stored is not None and not self._stored.following:
            self.turn = self._stored.turn
        return released

    async def commit(self, *, raises: bool) -> bool:
        """Run the staged writes and return whether memory has saved the turn."""
        return await _Commit(self.state, self._output_side).run(raises=raises)

    async def save_partial(self, seen: list[Message]) -> bool:
        """Save exactly what the user saw of an aborted run; cancelling the run does not cancel the write."""
        fresh = await stage_partial(self._output_side, self.state, self._kept, seen)
        return await asyncio.shield(_Commit(fresh, self._output_side).run(raises=False))


class _Commit:
    """The staged writes of one turn.

    A write that fails does not stop the others, unless it finds that the user was erased: then nothing more
    is written. Only memory's own write decides whether the turn is saved. If it fails, the `after_commit`
    writes do not run.
    """

    def __init__(self, run: RunState, output_side: Sequence[Processor]) -> None:
        self._run = run
        self._memory = {id_of(item) for item in output_side if item.writes_memory}
        self._errors: list[Exception] = []
        self._has_failed = False
        self._was_erased = False

    async def run(self, *, raises: bool) -> bool:
        """Run everything; with `raises` the first error is raised at the end."""
        is_saved = False
        for processor_id, read in self._run.before_commit:
            await self._do(processor_id, read)
        for processor_id, commit in self._run.on_commit:
            is_saved |= await self._do(processor_id, commit) and self._counts(processor_id)
        for processor_id, commit in self._run.after_commit:
            if not self._has_failed:
                await self._do(processor_id, commit)
        for error in self._errors:
            if raises or isinstance(error, WrongOwnerError):
                raise error
        return is_saved and not self._has_failed

    async def _do(self, processor_id: str, commit: Commit) -> bool:
        """Return whether something was written; an error goes to the trace and the log."""
        if self._was_erased:
            return False
        try:
            with self._run.trace.time_call(processor_id, "commit"):
                return await commit() is not False
        except Exception as error:  # noqa: BLE001 - a provider may raise anything; the trace has it
            _log.warning("%s could not save the turn: %s", processor_id, error)
            self._errors.append(error)
            self._was_erased = isinstance(error, UserErasedError)
            self._has_failed |= self._was_erased or self._counts(processor_id)
            return False

    def _counts(self, processor_id: str) -> bool:
        return not self._memory or processor_id in self._memory
