"""`StreamGuard`: the base of guards that change the text of an answer while it streams.

A guard makes a `TextStream` for each run. The hooks feed it the chunks of the answer and ask it for the rest.
In the finished turn they skip what has streamed already.
"""

from typing import Protocol

from recollect.messages import Message, ToolCall, ToolResult
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor, StreamPart, TextDelta, text_parts

_STREAM = "stream"


class TextStream(Protocol):
    """Changes text that comes in chunks: what it returns, joined, is the same for every chunking."""

    def feed(self, text: str) -> str:
        """Take a chunk; return what no later text can change."""
        ...

    def finish(self) -> str:
        """Return the rest of a message, whose text has ended; another message may follow."""
        ...


class StreamGuard(Processor):
    """The base of guards that change text chunk by chunk."""

    def new_stream(self, ctx: RunContext) -> TextStream:
        """Make the stream that the answer of one run passes through."""
        raise NotImplementedError

    def clean_tool_part(self, part: ToolCall | ToolResult, ctx: RunContext) -> list[StreamPart]:  # noqa: ARG002
        """Return what is shown of a tool's call or result between two texts of a stream."""
        return [part]

    def clean_message(self, message: Message, ctx: RunContext, *, has_streamed: bool) -> Message:
        """Return a message of the finished turn; what has streamed was cleaned then."""
        raise NotImplementedError

    def stream_of(self, ctx: RunContext) -> TextStream:
        """Return the stream of a run, made when it is first needed."""
        stream: TextStream | None = ctx.state.get(_STREAM)
        if stream is None:
            stream = ctx.state[_STREAM] = self.new_stream(ctx)
        return stream

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Release the text that no later text can change."""
        stream: TextStream = ctx.state.get(_STREAM) or self.stream_of(ctx)
        if not isinstance(part, TextDelta):
            return self.clean_tool_part(part, ctx)
        text = stream.feed(part.text)
        if text == part.text:
            return [part]
        return [TextDelta(text)] if text else []

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Release the rest of a message."""
        stream: TextStream | None = ctx.state.get(_STREAM)
        return text_parts(stream.finish()) if stream else []

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Clean what of the turn has not streamed."""
        has_streamed = _STREAM in ctx.state
        return [
            self.clean_message(message, ctx, has_streamed=has_streamed and message.origin == "response")
            for message in messages
        ]
