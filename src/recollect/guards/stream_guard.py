"""`StreamGuard`: the base of guards that change the text of an answer while it streams.

A guard makes a `TextStream` for each run. The hooks feed it the chunks of the answer and ask it for the rest.
In the finished turn they skip what has streamed already.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from recollect.concurrency.threads import QUICK_CHARACTERS, run_by_size
from recollect.message_size import count_message, count_part
from recollect.messages import Message, ToolCall, ToolResult
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor, StreamPart, TextDelta, text_parts
from recollect.text.slices import feed_in_slices

_STREAM = "stream"


class TextStream(Protocol):
    """Changes text that comes in chunks: what it returns, joined, is the same for every chunking."""

    def feed(self, text: str) -> str:
        """Take a chunk; return what no later text can change."""
        ...

    def finish(self) -> str:
        """Return the rest of a message, whose text has ended; another message may follow."""
        ...


class WholeText:
    """Keeps a stream of text back to its end, for a guard that does not say where a match may begin."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._held: list[str] = []

    @property
    def size(self) -> int:
        """How many characters are held back."""
        return sum(map(len, self._held))

    def feed(self, text: str) -> str:
        """Take a chunk; nothing can be released."""
        self._held.append(text)
        return ""

    def finish(self) -> str:
        """Return the cleaned text once no more comes."""
        text = "".join(self._held)
        self._held.clear()
        return self._clean(text)


class StreamGuard(Processor):
    """The base of guards that change text chunk by chunk; long text is worked on in a thread."""

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
            return await run_by_size(count_part(part), partial(self.clean_tool_part, part, ctx))
        if len(part.text) <= QUICK_CHARACTERS:  # nearly always, and quicker than to ask
            text = stream.feed(part.text)
        else:
            text = await run_by_size(len(part.text), partial(feed_in_slices, stream.feed, part.text))
        if text == part.text:
            return [part]
        return [TextDelta(text)] if text else []

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Release the rest of a message."""
        stream: TextStream | None = ctx.state.get(_STREAM)
        if stream is None:
            return []
        size = stream.size if isinstance(stream, WholeText) else 0
        return text_parts(await run_by_size(size, stream.finish))

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Clean what of the turn has not streamed."""
        has_streamed = _STREAM in ctx.state
        return [
            await run_by_size(
                count_message(message),
                partial(
                    self.clean_message,
                    message,
                    ctx,
                    has_streamed=has_streamed and message.origin == "response",
                ),
            )
            for message in messages
        ]
