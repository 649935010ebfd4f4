"""Several guards at once: any that trips wins, and the edits of different spans are merged."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from recollect.errors import InvalidArgumentError, RecollectError
from recollect.guards.holdback import Span
from recollect.guards.span_guard import SpanGuard
from recollect.messages import Message, ToolCall, ToolResult
from recollect.pipeline.assembly import HOOKS, id_of
from recollect.pipeline.context import RunContext, TripWire
from recollect.pipeline.input import run_hook, run_on_messages
from recollect.pipeline.processor import InputProvider, OutputProvider, Processor, StreamPart, is_changed

_ON_MESSAGES = ("process_input", "process_output_result")
_ON_STREAM = ("process_output_stream", "finish_output_stream")


class Parallel(SpanGuard):
    """Runs guards side by side: span guards, whose edits are merged, and guards that only block.

    The first to trip cancels the others. Two guards that want to replace the same text differently
    are an error. Text is held back for as long as the slowest of them needs. `after_memory` and `edits` are
    those of the guards, which must agree. The guards of a `Parallel` inside another run beside the others.
    """

    def __init__(self, *guards: Processor, id: str = "parallel") -> None:  # noqa: A002 - the field's name
        """Take the guards; memory, and what edits freely, cannot be one of them."""
        self.id = id
        self._members = _flatten(guards)
        _check_members(self._members)
        self.after_memory = self._members[0].after_memory
        self.edits = self._members[0].edits
        self._finders = [guard for guard in self._members if isinstance(guard, SpanGuard)]
        self._blockers = [guard for guard in self._members if not isinstance(guard, SpanGuard)]
        self.holdback_limit = max((guard.holdback_limit for guard in self._finders), default=0)
        self.batch = max((guard.batch for guard in self._finders), default=1)

    @property
    def members(self) -> list[Processor]:
        """The guards, those of a `Parallel` among them one by one."""
        return list(self._members)

    def overrides(self, hook: str) -> bool:
        """Whether one of the guards does something in a hook."""
        return any(guard.overrides(hook) for guard in self._members)

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Return the spans of all guards, merged."""
        return _merge([_find(guard, text, start, ctx) for guard in self._finders], ctx)

    def open_from(self, text: str) -> int:
        """Return the earliest place where one of the guards may still find something."""
        return min((guard.open_from(text) for guard in self._finders), default=len(text))

    def report(self, text: str, start: int, end: int, ctx: RunContext) -> None:
        """Have every guard take note of what is released, under its own name."""
        for guard in self._finders:
            guard.report(text, start, end, ctx.member(id_of(guard)))

    @property
    def holds_whole_text(self) -> bool:
        """Whether one of the guards does not say where a match may begin."""
        return any(guard.holds_whole_text for guard in self._finders)

    def replacement_of_open(self, text: str) -> str:
        """Return what the guard writes whose match is open."""
        return min(self._finders, key=lambda guard: guard.open_from(text)).replacement_of_open(text)

    @property
    def needs_whole_text(self) -> bool:
        """Whether a guard can only judge the finished answer, so that all text must wait."""
        return any(guard.needs_whole_text for guard in self._blockers)

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Let all guards look at the prompt at once."""
        await self._block(ctx, "process_input", messages)
        return await super().process_input(messages, ctx)

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Let all guards look at a tool call at once."""
        await self._block(ctx, "process_tool_call", call)
        return await super().process_tool_call(call, ctx)

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:
        """Let all guards look at a tool result at once."""
        await self._block(ctx, "process_tool_result", result)
        return await super().process_tool_result(result, ctx)

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Let all guards look at a part of the answer at once."""
        await self._block(ctx, "process_output_stream", part)
        return await super().process_output_stream(part, ctx)

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Let all guards see the end of a message's text."""
        await self._block(ctx, "finish_output_stream")
        return await super().finish_output_stream(ctx)

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Let all guards look at the turn at once."""
        await self._block(ctx, "process_output_result", messages)
        return await super().process_output_result(messages, ctx)

    async def _block(self, ctx: RunContext, hook: str, *values: object) -> None:
        """Run a hook of every guard that only blocks; the first trip or error cancels the others."""
        guards = [guard for guard in self._blockers if guard.overrides(hook)]
        if not guards:
            return
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_judge(guard, ctx, hook, values)) for guard in guards]
        except ExceptionGroup as errors:
            trips = [error for error in errors.exceptions if isinstance(error, TripWire)]
            raise (trips or errors.exceptions)[0] from None
        # A task group takes a task that was cancelled for one that is done.
        for guard, task in zip(guards, tasks, strict=True):
            if task.cancelled():
                raise RecollectError(f"{id_of(guard)}.{hook} was cancelled before it had judged")


async def _judge(guard: Processor, ctx: RunContext, hook: str, values: Sequence[object]) -> None:
    """Ask one guard, with a view of the run and a place in the trace of its own."""
    own = ctx.member(id_of(guard))
    if hook in _ON_MESSAGES:
        messages = cast("list[Message]", values[0])
        is_same = await run_on_messages(guard, own, hook, messages) == messages
    else:
        answer = await run_hook(guard, own, hook, *values)
        is_same = answer == ([*values] if hook in _ON_STREAM else values[0])
    if not is_same:
        raise RecollectError(
            f"{id_of(guard)} is marked blocks_only, and {hook} did not return what it was given; "
            "take the mark away and put it into the list by itself"
        )


def _flatten(guards: Sequence[object]) -> list[Processor]:
    members: list[Processor] = []
    for guard in guards:
        members += guard.members if isinstance(guard, Parallel) else [_check_member(guard)]
    return members


def _check_members(members: Sequence[Processor]) -> None:
    if not members:
        raise InvalidArgumentError("guards", "are missing; give at least one")
    first = members[0]
    for place, guard in enumerate(members):
        if any(id_of(guard) == id_of(other) for other in members[:place]):
            raise InvalidArgumentError(
                "guards", f"two of them have the id {id_of(guard)!r}; give one of them another `id`"
            )
        for name in ("after_memory", "edits"):
            if getattr(guard, name) != getattr(first, name):
                raise InvalidArgumentError(
                    "guards",
                    f"{id_of(first)} and {id_of(guard)} differ in `{name}`, so they cannot run at the same "
                    "place; make a Parallel of each kind",
                )


def _check_member(guard: object) -> Processor:
    name = guard.__name__ if isinstance(guard, type) else type(guard).__name__
    if isinstance(guard, type) and issubclass(guard, Processor):
        raise InvalidArgumentError("guards", f"{name} is a class; make one: {name}()")
    if isinstance(guard, InputProvider | OutputProvider):
        raise InvalidArgumentError(
            "guards",
            f"{name} is memory or another provider, which cannot run beside guards; put it after them",
        )
    if not isinstance(guard, Processor):
        raise InvalidArgumentError("guards", f"{name} is no guard; use SpanGuards and block-only processors")
    if isinstance(guard, SpanGuard):
        own = [hook for hook in (*HOOKS["input"], *HOOKS["output"]) if is_changed(guard, hook, SpanGuard)]
        if own:
            raise InvalidArgumentError(
                "guards",
                f"{name} has a {own[0]} of its own, which would not run; put it into the list by itself",
            )
    elif not guard.blocks_only:
        raise InvalidArgumentError(
            "guards",
            f"{name} is neither a SpanGuard nor marked blocks_only, so it cannot run beside others; "
            "put it into the list by itself",
        )
    return guard


def _find(guard: SpanGuard, text: str, start: int, ctx: RunContext) -> list[Span]:
    """Let one guard look at a text, timed and noted under its own name."""
    own = ctx.member(id_of(guard))
    with own.trace.time_call(own.processor_id, own.phase) as entry:
        try:
            return guard.find_merged(text, start, own)
        except TripWire as trip:
            trip.processor_id = trip.processor_id or own.processor_id
            entry.tripwire = trip.reason
            raise


def _merge(found: Sequence[Sequence[Span]], ctx: RunContext) -> list[Span]:
    spans = sorted({span for member in found for span in member})
    for left, right in pairwise(spans):
        if right.start < left.end:
            raise RecollectError(
                f"{ctx.processor_id}: two guards want to replace the same text differently; "
                "put them into the list one after the other"
            )
    return spans
