"""Small guards for tests of the pipeline: each does one thing, without the rules of the real ones."""

import re
from typing import ClassVar

from recollect import (
    Message,
    Processor,
    RunContext,
    Span,
    SpanGuard,
    TextDelta,
    TextPart,
    ToolCall,
    ToolResult,
    TripWire,
)
from recollect.pipeline.processor import StreamPart


class PatternGuard(SpanGuard):
    """Redacts what a pattern matches; `opening` matches, at the end of a text, what may become a match."""

    pattern: ClassVar[re.Pattern[str]]
    opening: ClassVar[re.Pattern[str]]
    replacement = "[REDACTED]"

    def __init__(self, *, limit: int | None = None, name: str | None = None) -> None:
        """Take how much may be held back, and an id."""
        self.id = name or type(self).__name__
        if limit is not None:
            self.holdback_limit = limit

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Find all matches."""
        del start, ctx
        return [Span(*match.span(), self.replacement) for match in self.pattern.finditer(text)]

    def open_from(self, text: str) -> int:
        """Find where an unfinished match begins."""
        found = self.opening.search(text)
        return len(text) if found is None else found.start()


class SsnGuard(PatternGuard):
    """Redacts social security numbers."""

    pattern = re.compile(r"\d{3}-\d{2}-\d{4}")
    opening = re.compile(r"(?:\d{1,3}|\d{3}-\d{0,2}|\d{3}-\d{2}-\d{0,3})\Z")


class EmailGuard(PatternGuard):
    """Redacts e-mail addresses."""

    pattern = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
    opening = re.compile(r"[\w.+-]+(?:@[\w-]*(?:\.[\w-]*)*)?\Z")
    replacement = "***@***.***"


class KeyGuard(PatternGuard):
    """Redacts keys: a known beginning, then any number of digits."""

    pattern = re.compile(r"sk-\d{4,}")
    opening = re.compile(r"(?:s|sk|sk-\d*)\Z")


class BlockGuard(PatternGuard):
    """Redacts blocks that have a beginning and an end, with anything in between."""

    pattern = re.compile(r"BEGIN\d.*?END", re.DOTALL)
    opening = re.compile(r"(?:BEGIN\d(?:(?!END).)*|BEGIN|BEGI|BEG|BE|B)\Z", re.DOTALL)


class KeywordBlocker(Processor):
    """Blocks prompts that hold a word."""

    id = "keyword-blocker"
    blocks_only = True

    def __init__(self, word: str = "ignore previous", *, name: str = "keyword-blocker") -> None:
        """Take the word to look for, and an id."""
        self._word = word
        self.id = name

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at what the caller said."""
        if any(m.origin == "input" and self._word in m.text.lower() for m in messages):
            ctx.abort("injection", metadata={"word": self._word})
        return messages


class WordLimit(Processor):
    """Cuts the answer after a number of words, and may tell the model to stop there."""

    id = "word-limit"

    def __init__(self, words: int, *, stop: bool = True) -> None:
        """Take the number of words."""
        self._words = words
        self._stop = stop

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Let through what is within the limit, however words are cut into chunks."""
        if not isinstance(part, TextDelta):
            return [part]
        kept = self._within(part.text, ctx)
        if len(kept) < len(part.text) and self._stop:
            ctx.stop("length")
        return [TextDelta(kept)] if kept else []

    def _within(self, text: str, ctx: RunContext) -> str:
        if ctx.state.get("full"):
            return ""
        for place, character in enumerate(text):
            if character.isspace():
                ctx.state["in_word"] = False
            elif not ctx.state.get("in_word"):
                if ctx.state.get("words", 0) == self._words:
                    ctx.state["full"] = True
                    return text[:place]
                ctx.state["in_word"] = True
                ctx.state["words"] = ctx.state.get("words", 0) + 1
        return text


class Summarizer(Processor):
    """Summarizes long answers; has a result hook only, so that all text waits for it."""

    id = "summarizer"

    def __init__(self, longest: int) -> None:
        """Take the length from which answers are cut."""
        self._longest = longest

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Cut the assistant's long texts."""
        del ctx
        return [self._shortened(message) for message in messages]

    def _shortened(self, message: Message) -> Message:
        if message.role != "assistant" or len(message.text) <= self._longest:
            return message
        return message.replace(
            content=[TextPart(message.text[: self._longest] + "... [summarized]"), *message.tool_calls],
            metadata={**message.metadata, "summarized": True, "original_length": len(message.text)},
        )


class Moderation(Processor):
    """Blocks an answer that holds a word, once it is finished."""

    id = "moderation"
    blocks_only = True

    def __init__(self, word: str = "awful") -> None:
        """Take the word to look for."""
        self._word = word

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at what the caller said."""
        if any(m.origin == "input" and self._word in m.text for m in messages):
            ctx.abort("inappropriate prompt")
        return messages

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at what the assistant said."""
        if any(m.role == "assistant" and self._word in m.text for m in messages):
            ctx.abort("inappropriate answer")
        return messages


class Validator(Processor):
    """Rejects a topic by raising a `TripWire` of its own."""

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Refuse a topic."""
        del ctx
        if any("restricted" in message.text for message in messages):
            raise TripWire("Restricted topic")
        return messages


class Bystander(Processor):
    """Has every hook and changes nothing."""

    id = "bystander"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Pass on."""
        del ctx
        return list(messages)

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Pass on."""
        del ctx
        return call

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:
        """Pass on."""
        del ctx
        return result

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Pass on."""
        del ctx
        return [part]

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Hold nothing back."""
        del ctx
        return []

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Pass on."""
        del ctx
        return list(messages)


class Waiter(Processor):
    """Has a result hook only, which changes nothing: all text waits for it."""

    id = "waiter"

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Pass on."""
        del ctx
        return list(messages)


class Hoarder(Processor):
    """Keeps all text until it is asked for the rest."""

    id = "hoarder"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Hold text back."""
        if not isinstance(part, TextDelta):
            return [part]
        ctx.state["held"] = ctx.state.get("held", "") + part.text
        return []

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Let all of it out."""
        held: str = ctx.state.pop("held", "")
        return [TextDelta(held)] if held else []
