"""Doing the writes that a run has staged: all of them, whatever becomes of one."""

from collections.abc import Sequence

from recollect.errors import WrongOwnerError
from recollect.pipeline.assembly import id_of
from recollect.pipeline.processor import Processor, RunState


async def commit_all(run: RunState, output_side: Sequence[Processor], *, raises: bool) -> bool:
    """Do the staged writes and say whether memory has kept the turn.

    Where several processors write, one that fails does not stop the others, and only memory's own write
    counts. What a write staged itself, to come behind the turn, is not done without the turn. The first
    error is raised at the end if the caller wants that; the trace has all of them.
    """
    memory = {id_of(item) for item in output_side if item.writes_memory}
    errors: list[Exception] = []
    is_saved, has_failed = False, False
    planned = len(run.commits)
    for place, (processor_id, commit) in enumerate(run.commits):
        if has_failed and place >= planned:
            continue
        counts = not memory or processor_id in memory
        try:
            with run.trace.timed(processor_id, "commit"):
                is_saved |= await commit() is not False and counts
        except Exception as error:  # noqa: BLE001 - a provider may raise anything; the trace has it
            _log.warning("%s could not save the turn: %s", processor_id, error)
            errors.append(error)
            has_failed |= counts
    for error in errors:
        if raises or isinstance(error, WrongOwnerError):
            raise error
    return is_saved and not has_failed
