"""Running a list of processors over a prompt and over tool rounds.

Whatever a processor raises stops the run: a `TripWire` as a trip, anything else as an error. Guards so fail
closed. Memory deals with its own failures. The stream and the result are run by `output`.
"""

from collections.abc import Awaitable, Sequence
from typing import TypeVar, cast

from recollect.errors import RecollectError
from recollect.messages import Message, ToolCall, ToolResult
from recollect.processors.base import Processor, RunContext, RunState, TripWire
from recollect.processors.expand import id_of
from recollect.trace import Phase, TraceEntry, describe_changes

T = TypeVar("T")


async def run_hook(run: RunState, processor: Processor, phase: Phase, call: Awaitable[T]) -> T:
    """Await a hook's answer; time it, and note a trip under the processor's name."""
    name = id_of(processor)
    with run.trace.timed(name, phase) as entry:
        try:
            return await call
        except TripWire as trip:
            trip.processor_id = trip.processor_id or name
            entry.tripwire = trip.reason
            raise


async def run_input(
    processors: Sequence[Processor], messages: list[Message], run: RunState
) -> tuple[list[Message], list[Message]]:
    """Run the input side; return what the model is shown, and what of it is this turn's to keep."""
    view, kept = messages, messages
    for processor in processors:
        if not processor.overrides("process_input"):
            continue
        ctx = RunContext(run, id_of(processor), "input")
        after = await run_hook(run, processor, "input", processor.process_input(list(view), ctx))
        checked_messages(after, processor, "process_input")
        record_messages(run.trace.entry(ctx.processor_id, "input"), view, after)
        if processor.edits == "turn":
            kept = _carried_over(kept, view, after)
        view = after
    return view, kept


async def run_tool_call(processors: Sequence[Processor], call: ToolCall, run: RunState) -> ToolCall:
    """Show a complete tool call to the output side before the tool runs; return the copy to keep."""
    for processor in processors:
        if processor.overrides("process_tool_call"):
            ctx = RunContext(run, id_of(processor), "tool_call")
            hook = processor.process_tool_call(call, ctx)
            call = _checked(await run_hook(run, processor, "tool_call", hook), ToolCall, processor)
    return call


async def run_tool_result(processors: Sequence[Processor], result: ToolResult, run: RunState) -> ToolResult:
    """Show a tool's result to the input side, before the model sees it."""
    for processor in processors:
        if processor.overrides("process_tool_result"):
            ctx = RunContext(run, id_of(processor), "tool_result")
            hook = processor.process_tool_result(result, ctx)
            result = _checked(await run_hook(run, processor, "tool_result", hook), ToolResult, processor)
    return result


def checked_messages(value: object, processor: Processor, hook: str) -> list[Message]:
    """Return what a hook gave back, if it is a list of messages."""
    if isinstance(value, list):
        items = cast("list[object]", value)
        if all(isinstance(item, Message) for item in items):
            return cast("list[Message]", value)
    raise RecollectError(f"{id_of(processor)}.{hook} must return a list of Message values")


def record_messages(entry: TraceEntry, before: Sequence[Message], after: Sequence[Message]) -> None:
    """Note in the trace what a hook did to a list of messages."""
    entry.messages_in, entry.messages_out = len(before), len(after)
    entry.changes = describe_changes(before, after)


def _carried_over(kept: list[Message], before: list[Message], after: list[Message]) -> list[Message]:
    """Do to the kept messages what a processor did to the view, which may show fewer or other versions."""
    seen = {message.id: message for message in before}
    now = {message.id: message for message in after}
    result: list[Message] = []
    for message in kept:
        if message.id not in seen:
            result.append(message)
        elif message.id in now:
            edited = now[message.id]
            result.append(message if edited == seen[message.id] else edited)
    added = [message for message in after if message.id not in seen and message.origin == "input"]
    return [message for message in result if message.origin == "input"] + added


def _checked(value: object, kind: type[T], processor: Processor) -> T:
    if not isinstance(value, kind):
        raise RecollectError(f"{id_of(processor)} must return a {kind.__name__}, not {type(value).__name__}")
    return value
