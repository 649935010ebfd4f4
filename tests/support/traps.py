"""Processors that go off at one place of the pipeline: with a trip, or with an error."""

from recollect import Message, Processor, RunContext, TextDelta, ToolCall, ToolResult
from recollect.pipeline.processor import StreamPart


class Trap(Processor):
    """Aborts the run where a subclass says, or raises what it was given."""

    def __init__(self, error: Exception | None = None) -> None:
        """Take an error to raise in place of a trip."""
        self._error = error
        self.id = f"trap-{type(self).__name__}"

    def _spring(self, ctx: RunContext) -> None:
        if self._error is not None:
            raise self._error
        ctx.abort("sprung", metadata={"by": self.id})


class InputTrap(Trap):
    """Goes off on the prompt."""

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Go off."""
        self._spring(ctx)
        return messages


class AfterMemoryTrap(InputTrap):
    """Goes off on the prompt once memory has put history into it."""

    after_memory = True


class CallTrap(Trap):
    """Goes off on a tool call."""

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Go off."""
        self._spring(ctx)
        return call


class ToolResultTrap(Trap):
    """Goes off on a tool's result."""

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:
        """Go off."""
        self._spring(ctx)
        return result


class StreamTrap(Trap):
    """Goes off in the middle of the answer, once a word has been seen."""

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Go off after the word `pong`."""
        if isinstance(part, TextDelta):
            ctx.state["seen"] = ctx.state.get("seen", "") + part.text
            if "pong" in ctx.state["seen"]:
                self._spring(ctx)
        return [part]


class FlushTrap(Trap):
    """Goes off when it is asked for the rest of the text."""

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Let everything through."""
        del ctx
        return [part]

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Go off."""
        self._spring(ctx)
        return []


class ResultTrap(Trap):
    """Goes off on the finished turn."""

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Go off."""
        self._spring(ctx)
        return messages
