"""What a tool may know of the run that it is called in.

Tools are plain functions, and the model sees all of their arguments. One that belongs to memory needs more:
whose run it is, and a place for what it has done in it so far.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from recollect.errors import RecollectError
from recollect.processors.base import RunContext, RunState

_running: ContextVar[RunState | None] = ContextVar("recollect_running_tool", default=None)


@contextmanager
def tools_of(run: RunState) -> Generator[None]:
    """Say whose tools are started within; tasks that are made there take it along."""
    token = _running.set(run)
    try:
        yield
    finally:
        _running.reset(token)


def tool_context(owner: str) -> RunContext:
    """Return the run that the calling tool serves, as its owner sees it: they share `state`."""
    run = _running.get()
    if run is None:
        raise RecollectError(f"the tool of {owner} can only be called by the model, in a run of an agent")
    return RunContext(run, owner, "tool_call")
