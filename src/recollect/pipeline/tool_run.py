"""What a tool may know of the run that it is called in.

Tools are plain functions, and the model sees all of their arguments. One that belongs to memory needs more:
whose run it is, and a place for what it has done in it so far.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from recollect.errors import RecollectError
from recollect.messages import ToolCall
from recollect.pipeline.processor import RunContext, RunState

_running: ContextVar[tuple[RunState, ToolCall | None] | None] = ContextVar(
    "recollect_running_tool", default=None
)


@contextmanager
def tools_of(run: RunState, kept: ToolCall | None = None) -> Generator[None]:
    """Say whose tools are started within, and the call as guards let it be kept; tasks take it along."""
    token = _running.set((run, kept))
    try:
        yield
    finally:
        _running.reset(token)


def tool_context(owner: str) -> RunContext:
    """Return the run that the calling tool serves, as its owner sees it: they share `state`."""
    running = _running.get()
    if running is None:
        raise RecollectError(f"the tool of {owner} can only be called by the model, in a run of an agent")
    return RunContext(running[0], owner, "tool_call")


def kept_call() -> ToolCall | None:
    """Return the call that the calling tool answers, as far as guards have let it be kept until now."""
    running = _running.get()
    return None if running is None else running[1]
