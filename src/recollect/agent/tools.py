"""Running a tool: whatever it raises or returns becomes a result for the model, and the run goes on."""

import asyncio
import copy
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from recollect.concurrency.threads import run_by_size
from recollect.errors import RecollectError, describe_error
from recollect.message_size import count_characters
from recollect.messages import ToolCall, ToolResult, clean_json, clean_text
from recollect.pipeline.context import RunState, TripWire
from recollect.trace import MAX_ERROR_LENGTH, TraceEntry
from recollect.validation import MAX_TEXT_BYTES, check_json, encode_json

_log = logging.getLogger("recollect")

_MAX_RESULT_BYTES = MAX_TEXT_BYTES // 2  # guards may make a text longer
_MAX_TOLD = 1_000  # characters of an error that the model is told

_ARGUMENTS = "The arguments do not fit"
_RUNNING = "The tool failed"
_ANSWER = "The tool's answer is not JSON that can be stored"

Arguments: TypeAlias = dict[str, Any]
"""The arguments of a call, by name."""


class BrokenCall(ToolCall):
    """A call whose arguments are not a JSON object: it gets an error result, and no tool runs."""

    __slots__ = ()


class ToolInterrupt(Exception):  # noqa: N818 - its cause is no error
    """Carries a `KeyboardInterrupt` of a tool to the run: in the tool's own task it would stop the loop."""


@dataclass(frozen=True, slots=True)
class RunnableTool:
    """A tool: `validate` returns the arguments as its function takes them, `run` calls the function."""

    validate: Callable[[Arguments], Arguments]
    run: Callable[[Arguments], Coroutine[Any, Any, object]]


async def run_tool(tools: Mapping[str, RunnableTool], call: ToolCall, run: RunState) -> ToolResult:
    """Run the tool of a call; a failure becomes an error result, and the log and the trace have it too.

    Only a trip, an interrupt (as `ToolInterrupt`) and the cancellation of the run itself are raised.
    """
    tool = tools.get(call.name)
    if tool is None:
        known = ", ".join(tools) or "none"
        return _reject(call, run, f"There is no tool {call.name!r}; known: {known}.")
    if isinstance(call, BrokenCall):
        return _reject(call, run, "The arguments do not fit: they are not a JSON object.")
    stage = _ARGUMENTS
    try:
        # The tool may change what it is given, and the stored call must stay as the guards saw it.
        arguments = tool.validate(copy.deepcopy(dict(call.arguments)))
        stage = _RUNNING
        value = await tool.run(arguments)
        stage = _ANSWER
        return ToolResult(
            call.id, call.name, await run_by_size(count_characters(value), lambda: _to_content(value))
        )
    except TripWire:
        raise
    except KeyboardInterrupt as interrupt:
        raise ToolInterrupt from interrupt
    except BaseException as error:  # argparse raises SystemExit, which would end the event loop
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        if stage is _ARGUMENTS and _is_validation_error(error):
            return _reject(call, run, f"{stage}: {describe_error(error, _MAX_TOLD)}")
        return _fail(call, run, stage, error)


def _is_cancelled() -> bool:
    """Whether somebody cancelled the run, and not only something that the tool awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _is_validation_error(error: BaseException) -> bool:
    from pydantic import ValidationError

    return isinstance(error, ValidationError)


def _to_content(value: object) -> object:
    """Return a tool's value as JSON of its own: the tool may keep the value and change it later."""
    from pydantic_core import to_jsonable_python

    content = clean_json(to_jsonable_python(value))
    check_json(content, "result")
    encode_json(content, "result", max_bytes=_MAX_RESULT_BYTES)
    return content


def _reject(call: ToolCall, run: RunState, problem: str) -> ToolResult:
    """Tell the model its own mistake; the trace does not quote it."""
    _get_entry(call, run).notes.append("the call was rejected: its name or its arguments are wrong")
    return _tell(call, problem)


def _fail(call: ToolCall, run: RunState, stage: str, error: BaseException) -> ToolResult:
    """Tell the model the class and the beginning of an error; the log and the trace have more of it."""
    _get_entry(call, run).error = f"{stage}: {describe_error(error, MAX_ERROR_LENGTH)}"
    # Our own errors say all in their text; of others the traceback is wanted.
    known = isinstance(error, RecollectError)
    _log.warning(
        "run %s: the tool %s failed (call %s): %s: %s",
        run.run_id,
        call.name,
        call.id,
        stage,
        describe_error(error, MAX_ERROR_LENGTH),
        exc_info=None if known else error,
    )
    return _tell(call, f"{stage}: {describe_error(error, _MAX_TOLD)}")


def _get_entry(call: ToolCall, run: RunState) -> TraceEntry:
    return run.trace.entry(f"tool {call.name}", "tool_call")


def _tell(call: ToolCall, problem: str) -> ToolResult:
    return ToolResult(call.id, call.name, clean_text(problem), is_error=True)
