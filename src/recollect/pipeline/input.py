"""Runs a list of processors over a prompt and over tool calls and results.

Any exception of a processor stops the run: a `TripWire` as a trip, all others as errors. So guards fail
closed. An observer judges nothing: its failure is noted, and the run goes on. Memory processors catch their
own failed reads (`ctx.degrade`). `output` runs the hooks for streams and results.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias, TypeVar, cast

from recollect.errors import InvalidArgumentError, ProcessorError, WrongOwnerError
from recollect.messages import Message, ToolCall, ToolResult
from recollect.pipeline.assembly import id_of
from recollect.pipeline.context import RunContext, RunState, TripWire
from recollect.pipeline.processor import Processor
from recollect.trace import describe_changes, describe_tool_changes

T = TypeVar("T", ToolCall, ToolResult)

_log = logging.getLogger("recollect")

Hook: TypeAlias = Callable[..., Awaitable[Any]]
"""A hook of a processor; what it returns is checked before anything uses it."""


def get_hook(processor: Processor, name: str) -> Hook:
    """Return a hook that can be awaited; one that is not async raises when it is called."""
    hook = getattr(processor, name)
    if iscoroutinefunction(hook):
        return hook

    async def awaited(*values: object) -> object:
        answer = hook(*values)
        if not isawaitable(answer):
            raise ProcessorError(id_of(processor), f"{name} is not async; write `async def {name}`")
        return await answer

    return awaited


async def run_hook(processor: Processor, ctx: RunContext, name: str, *values: object) -> object:
    """Call a hook, time it, and add the processor's id to a trip.

    An observer that fails has changed nothing: its value comes back as it was, or an empty list.
    """
    try:
        with ctx.trace.time_call(ctx.processor_id, ctx.phase) as entry:
            try:
                return await get_hook(processor, name)(*values, ctx)
            except TripWire as trip:
                trip.processor_id = trip.processor_id or ctx.processor_id
                entry.tripwire = trip.reason
                raise
    except Exception as error:
        if not is_only_noted(processor, error):
            raise
        return values[0] if values else []


def is_only_noted(processor: Processor, error: Exception) -> bool:
    """Whether the run goes on without what an observer would have done; then the log says so.

    A mistake of the program is raised nevertheless, and so is a trip.
    """
    mistakes = TripWire | ProcessorError | InvalidArgumentError | WrongOwnerError
    if not processor.observes or isinstance(error, mistakes):
        return False
    _log.warning("%s failed, and the run goes on: %s: %s", id_of(processor), type(error).__name__, error)
    return True


async def run_on_messages(
    processor: Processor, ctx: RunContext, name: str, messages: list[Message]
) -> list[Message]:
    """Call a hook that takes and returns messages, and note the changes in the trace."""
    entry = ctx.trace.entry(ctx.processor_id, ctx.phase)
    entry.messages_in = len(messages)
    after = check_messages(await run_hook(processor, ctx, name, list(messages)), processor, name)
    entry.messages_out = len(after)
    entry.changes += describe_changes(messages, after)
    return after


async def run_on_tool(processor: Processor, ctx: RunContext, name: str, part: T) -> T:
    """Call a hook that takes and returns a tool call or result, and note the change in the trace."""
    after = await run_hook(processor, ctx, name, part)
    kind = ToolCall if isinstance(part, ToolCall) else ToolResult
    if not isinstance(after, kind):
        raise ProcessorError(
            ctx.processor_id, f"{name} must return a {kind.__name__}, not {type(after).__name__}"
        )
    if _get_call_id(after) != _get_call_id(part):
        raise ProcessorError(
            ctx.processor_id, f"{name} must keep the id of the call, which ties the result to it"
        )
    ctx.trace.entry(ctx.processor_id, ctx.phase).changes += describe_tool_changes(part, [after])
    return cast("T", after)


async def run_input(
    processors: Sequence[Processor], messages: list[Message], run: RunState
) -> tuple[list[Message], list[Message]]:
    """Run the input side; return the view for the model, and the messages of this turn to store."""
    view, kept = messages, messages
    for processor in processors:
        if not processor.overrides("process_input"):
            continue
        ctx = RunContext(run, id_of(processor), "input")
        after = await run_on_messages(processor, ctx, "process_input", view)
        if processor.edits == "turn":
            kept = _carry_over(kept, view, after)
        view = after
    return view, kept


async def run_next_step(processors: Sequence[Processor], view: list[Message], run: RunState) -> list[Message]:
    """Run the input hook of `every_step` processors on the prompt with the tool results; return the view."""
    for processor in processors:
        if processor.every_step and processor.edits == "view":
            ctx = RunContext(run, id_of(processor), "input")
            view = await run_on_messages(processor, ctx, "process_input", view)
    return view


async def run_tool_call(processors: Sequence[Processor], call: ToolCall, run: RunState) -> ToolCall:
    """Pass a complete tool call through the output side before the tool runs; return the copy to store."""
    for processor in processors:
        if processor.overrides("process_tool_call"):
            ctx = RunContext(run, id_of(processor), "tool_call")
            call = await run_on_tool(processor, ctx, "process_tool_call", call)
    return call


async def run_tool_result(processors: Sequence[Processor], result: ToolResult, run: RunState) -> ToolResult:
    """Pass a tool result through the input side before the model sees it."""
    for processor in processors:
        if processor.overrides("process_tool_result"):
            ctx = RunContext(run, id_of(processor), "tool_result")
            result = await run_on_tool(processor, ctx, "process_tool_result", result)
    return result


def check_messages(value: object, processor: Processor, hook: str) -> list[Message]:
    """Raise unless a hook returned a list of messages."""
    if isinstance(value, list):
        items = cast("list[object]", value)
        if all(isinstance(item, Message) for item in items):
            return cast("list[Message]", value)
    raise ProcessorError(id_of(processor), f"{hook} must return a list of Message values")


def _carry_over(kept: list[Message], before: list[Message], after: list[Message]) -> list[Message]:
    """Apply a processor's changes of the view to the kept messages; the view may have other versions of them.

    kept    a, b (long), c         a view-only processor cut b and left c out
    before  a, b (short)
    after   a', b (short), d       this processor edits a and adds d
    result  a', b (long), c, d     c stays after b

    """
    seen = {message.id: message for message in before}
    own = {message.id: message for message in kept}
    result: list[Message] = []
    for message in after:
        if message.id not in seen:
            result.append(message)
        elif message.id in own:
            result.append(own[message.id] if message == seen[message.id] else message)
    shown = seen.keys() | {message.id for message in after}
    for place, message in enumerate(kept):
        if message.id not in shown:
            result.insert(_find_index_after(kept[:place], result), message)
    return [message for message in result if message.origin == "input"]


def _find_index_after(earlier: list[Message], messages: list[Message]) -> int:
    places = {message.id: place for place, message in enumerate(messages, 1)}
    return next((places[message.id] for message in reversed(earlier) if message.id in places), 0)


def _get_call_id(part: ToolCall | ToolResult) -> str:
    return part.id if isinstance(part, ToolCall) else part.call_id
