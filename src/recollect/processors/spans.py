"""Guards that find spans in text: what they share, whatever they look for.

A span guard says where something is and what to write in its place. The rest follows: the same guard
works on the prompt, on tool calls and results, on the finished turn and on the stream, where `holdback`
keeps back what could still become a match.
"""

from dataclasses import replace
from typing import cast

from recollect.messages import Message, Part, TextPart, ToolCall, ToolResult
from recollect.processors.base import Processor, RunContext, StreamPart, TextDelta
from recollect.processors.holdback import HoldBack, Span, apply_spans

DEFAULT_HOLDBACK = 512
"""How many characters a stream may be held back for an unfinished match."""


class SpanGuard(Processor):
    """Finds spans in text and writes something else in their place; `find` may abort instead."""

    holdback_limit: int = DEFAULT_HOLDBACK

    def find(self, text: str, ctx: RunContext) -> list[Span]:
        """Return what to replace, in order and without overlaps.

        On a stream the text begins at most 64 characters before what was let out last, so a match must not
        depend on what stands further back.
        """
        raise NotImplementedError

    def open_from(self, text: str) -> int:
        """Return where a match that is not finished may begin; the length of the text if nowhere."""
        return len(text)

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at what the caller said, not at what memory brought in."""
        return [self._cleaned(m, ctx) if m.origin == "input" else m for m in messages]

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Look at the texts among the arguments."""
        return replace(call, arguments=self._cleaned_json(call.arguments, ctx))

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:
        """Look at the texts in the result."""
        return replace(result, content=self._cleaned_json(result.content, ctx))

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Let out the text that can no longer become part of a match."""
        if not isinstance(part, TextDelta):
            return [part]
        return _delta(self._holdback(ctx).feed(part.text))

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Let out the rest."""
        return _delta(self._holdback(ctx).finish())

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at every message of the turn; the answer was cleaned as it streamed."""
        return [self._cleaned(message, ctx) for message in messages]

    def _holdback(self, ctx: RunContext) -> HoldBack:
        if "holdback" not in ctx.state:
            ctx.state["holdback"] = HoldBack(
                lambda text: self.find(text, ctx), self.open_from, limit=self.holdback_limit
            )
        return cast("HoldBack", ctx.state["holdback"])

    def _cleaned(self, message: Message, ctx: RunContext) -> Message:
        if isinstance(message.body, str):
            text = self._clean(message.body, ctx)
            return message if text == message.body else message.replace(content=text)
        parts = tuple(self._cleaned_part(part, ctx) for part in message.body)
        return message if parts == message.body else message.replace(content=parts)

    def _cleaned_part(self, part: Part, ctx: RunContext) -> Part:
        match part:
            case TextPart(text):
                return TextPart(self._clean(text, ctx))
            case ToolCall():
                return replace(part, arguments=self._cleaned_json(part.arguments, ctx))
            case ToolResult():
                return replace(part, content=self._cleaned_json(part.content, ctx))
            case _:
                return part

    def _cleaned_json(self, value: object, ctx: RunContext) -> object:
        if isinstance(value, str):
            return self._clean(value, ctx)
        if isinstance(value, dict):
            items = cast("dict[str, object]", value).items()
            return {key: self._cleaned_json(item, ctx) for key, item in items}
        if isinstance(value, list | tuple):
            return [self._cleaned_json(item, ctx) for item in cast("list[object]", value)]
        return value

    def _clean(self, text: str, ctx: RunContext) -> str:
        return apply_spans(text, self.find(text, ctx)) if text else text


def _delta(text: str) -> list[StreamPart]:
    return [TextDelta(text)] if text else []
