"""Runs of a single processor, without an agent around it."""

from typing import Any, cast

from recollect import Message, Processor, RunContext, Trace
from recollect.pipeline.context import Ids, RunState, parse_run_ids
from recollect.trace import Phase


def new_run(run_id: str = "run", **ids: Any) -> RunState:  # noqa: ANN401 - the ids of a scope
    """Return the state of a run that has just begun."""
    return RunState(run_id, parse_run_ids(cast("Ids", ids)), Trace())


def context(run: RunState, phase: Phase = "input", processor_id: str = "tested") -> RunContext:
    """Return a processor's view of a run."""
    return RunContext(run, processor_id, phase)


async def save(processor: Processor, messages: list[Message], run: RunState) -> list[Message]:
    """Hand a processor the finished turn and do the writes that it stages."""
    after = await processor.process_output_result(messages, context(run, "result"))
    for _, write in (*run.before_commit, *run.on_commit, *run.after_commit):
        await write()
    return after
