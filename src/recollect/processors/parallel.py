"""Several guards at once: any that trips wins, and the edits of different spans are merged."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from recollect.errors import InvalidArgumentError, RecollectError
from recollect.messages import Message, ToolCall, ToolResult
from recollect.processors.base import Processor, RunContext, StreamPart, TripWire
from recollect.processors.expand import id_of
from recollect.processors.holdback import Span
from recollect.processors.spans import SpanGuard

Check: TypeAlias = Callable[[Processor, RunContext], Coroutine[Any, Any, object]]
"""One hook of a guard, called with the guard's own view of the run."""

_HOOKS = (
    "process_input",
    "process_tool_call",
    "process_tool_result",
    "process_output_stream",
    "finish_output_stream",
    "process_output_result",
)


class Parallel(SpanGuard):
    """Runs guards side by side: span guards, whose edits are merged, and guards that only block.

    The first to trip cancels the others. Two guards that want to replace the same text differently
    are an error. Text is held back for as long as the slowest of them needs.
    """

    def __init__(self, *guards: Processor, id: str = "parallel") -> None:  # noqa: A002 - the field's name
        """Take the guards; memory, and what edits freely, cannot be one of them."""
        for guard in guards:
            _check_member(guard)
        self.id = id
        self._finders = [guard for guard in guards if isinstance(guard, SpanGuard)]
        self._blockers = [guard for guard in guards if not isinstance(guard, SpanGuard)]
        self.holdback_limit = max((guard.holdback_limit for guard in self._finders), default=0)

    def find(self, text: str, ctx: RunContext) -> list[Span]:
        """Return the spans of all guards, merged."""
        return _merged([_found(guard, text, ctx) for guard in self._finders], ctx)

    def open_from(self, text: str) -> int:
        """Return the earliest place where one of the guards may still find something."""
        return min((guard.open_from(text) for guard in self._finders), default=len(text))

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Let all guards look at the prompt at once."""
        await self._block(ctx, lambda guard, own: guard.process_input(messages, own))
        return await super().process_input(messages, ctx)

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Let all guards look at a tool call at once."""
        await self._block(ctx, lambda guard, own: guard.process_tool_call(call, own))
        return await super().process_tool_call(call, ctx)

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:
        """Let all guards look at a tool result at once."""
        await self._block(ctx, lambda guard, own: guard.process_tool_result(result, own))
        return await super().process_tool_result(result, ctx)

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Let all guards look at a part of the answer at once."""
        await self._block(ctx, lambda guard, own: guard.process_output_stream(part, own))
        return await super().process_output_stream(part, ctx)

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Let all guards look at the turn at once."""
        await self._block(ctx, lambda guard, own: guard.process_output_result(messages, own))
        return await super().process_output_result(messages, ctx)

    @property
    def needs_whole_text(self) -> bool:
        """Whether a guard can only judge the finished answer, so that all text must wait."""
        return any(
            guard.overrides("process_output_result") and not guard.overrides("process_output_stream")
            for guard in self._blockers
        )

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Let all guards see the end of a stretch of text."""
        await self._block(ctx, lambda guard, own: guard.finish_output_stream(own))
        return await super().finish_output_stream(ctx)

    async def _block(self, ctx: RunContext, check: Check) -> None:
        """Run a check of every guard that only blocks; the first trip or error cancels the others."""
        try:
            async with asyncio.TaskGroup() as group:
                for guard in self._blockers:
                    group.create_task(check(guard, ctx.member(id_of(guard))))
        except ExceptionGroup as errors:
            trips = [error for error in errors.exceptions if isinstance(error, TripWire)]
            raise (trips or errors.exceptions)[0] from None


def _check_member(guard: Processor) -> None:
    name = type(guard).__name__
    if isinstance(guard, SpanGuard):
        changed = [hook for hook in _HOOKS if getattr(type(guard), hook) is not getattr(SpanGuard, hook)]
        if changed and not isinstance(guard, Parallel):
            raise InvalidArgumentError(
                "guards",
                f"{name} has a {changed[0]} of its own, which would not run; put it into the list by itself",
            )
    elif not guard.blocks_only:
        raise InvalidArgumentError(
            "guards",
            f"{name} is neither a SpanGuard nor marked blocks_only, so it cannot run beside others; "
            "put it into the list by itself",
        )


def _found(guard: SpanGuard, text: str, ctx: RunContext) -> list[Span]:
    try:
        return guard.find(text, ctx.member(id_of(guard)))
    except TripWire as trip:
        trip.processor_id = trip.processor_id or id_of(guard)
        raise


def _merged(found: Sequence[Sequence[Span]], ctx: RunContext) -> list[Span]:
    spans = sorted({span for member in found for span in member})
    for left, right in pairwise(spans):
        if right.start < left.end:
            raise RecollectError(
                f"{ctx.processor_id}: two guards want to replace the same text differently; "
                "put them into the list one after the other"
            )
    return spans
