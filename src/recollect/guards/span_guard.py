"""`SpanGuard`: the base of guards that find spans of text and replace them.

A subclass says where something is and what to write in its place. The base applies that to the prompt, to
tool calls and results, to the finished turn and to the stream, where `holdback` holds back what could still
become a match.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

from recollect.concurrency.threads import run_by_size
from recollect.errors import RecollectError
from recollect.guards.holdback import (
    REDACTED,
    HoldBack,
    Span,
    merge_spans,
)
from recollect.guards.json_texts import map_named_texts
from recollect.guards.stream_guard import StreamGuard, TextStream, WholeText
from recollect.message_size import count_message, count_part
from recollect.messages import Message, Part, ReasoningPart, TextPart, ToolCall, ToolResult
from recollect.pipeline.assembly import id_of
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import StreamPart, is_changed

P = TypeVar("P", bound=ToolCall | ToolResult)
T = TypeVar("T")

DEFAULT_HOLDBACK = 256
"""How many characters a stream may be held back for an unfinished match."""

_STREAMED = (TextPart, ToolCall, ToolResult)
_CALL_IDS = "call_ids"
# Ids as providers make them, whose random digits may look like a number of something.
_MADE_ID = re.compile(
    r"(?:[A-Za-z_-]*[_-])?(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{28,})|function-call-[0-9]+"
)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")  # models accept no others in names and ids
_LONGEST_NAME = 40
_WORD_BORDER = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")


class SpanGuard(StreamGuard):
    """Finds spans in text and writes something else in their place; `find` may abort instead.

    It looks at texts, reasoning, names and URLs of files, at names and ids of tool calls, and at all texts
    and whole numbers in the arguments and the results of tools; not into files, and not at metadata. With
    long text `find` and `report` are called in a thread.
    """

    holdback_limit: int = DEFAULT_HOLDBACK
    batch: int = 1
    """How many characters of a stream are read together: larger batches cost less and release text later."""

    replacement: str = REDACTED
    """What is written in place of a match that is longer than the limit, and so was never found."""

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Return the spans to replace; spans that overlap are merged.

        The text before `start` is context only. On a stream it is the last 64 characters that were released,
        whose first two letters may be masked. For a tool's value it is the name, as in "phone number: ". So
        a match must not depend on text further back. Spans that end before `start` may be left out.
        """
        raise NotImplementedError

    def find_in_pieces(self, text: str, start: int, ctx: RunContext) -> Iterator[list[Span]]:
        """Yield what `find` returns; a guard may yield what it finds in a long text piece by piece.

        A piece overlaps no earlier one. So no more than one must be in memory.
        """
        yield self.find(text, start, ctx)

    def open_from(self, text: str) -> int:  # noqa: ARG002 - a guard of its own looks at the text
        """Return where an unfinished match may begin, or the length of the text if none can.

        A guard that does not override this releases the text of a message only at its end.
        """
        return 0

    def report(self, text: str, start: int, end: int, ctx: RunContext) -> None:
        """Record a segment of text that is about to be released, each exactly once; may abort.

        The text before `start` was released earlier, the text after `end` is still held back. A stream calls
        `find` repeatedly, also on unfinished matches, so a guard reports here and not there.
        """

    @property
    def holds_whole_text(self) -> bool:
        """Whether text must wait for the end of its message, since a match may begin anywhere."""
        return not is_changed(self, "open_from", SpanGuard)

    def replacement_of_open(self, text: str) -> str:  # noqa: ARG002 - some look at the text
        """Return what to write for the open match at the end of a text, which is longer than the limit."""
        return self.replacement

    def find_merged(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Call `find`, check that it returns spans of the text, and merge them in order."""
        return self._merge(self.find(text, start, ctx), text)

    def _merge(self, found: list[Span], text: str) -> list[Span]:
        if not _are_spans(found, text):
            raise RecollectError(
                f"{id_of(self)}.find must return a list of Span values, with places in the text it was given"
            )
        return merge_spans(found, text)

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at what the caller said, not at what memory brought in."""
        return [
            await run_by_size(
                count_message(message), partial(self.clean_message, message, ctx, has_streamed=False)
            )
            if message.origin == "input"
            else message
            for message in messages
        ]

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Look at the texts among the arguments, the name and the id, which stays until the call is shown."""
        cleaned = await run_by_size(count_part(call), partial(self._clean_tool, call, ctx))
        return cleaned if cleaned.id == call.id else replace(cleaned, id=call.id)

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:
        """Look at the texts in the result; its name and id are those of the model's own call."""
        content = await run_by_size(count_part(result), partial(self._clean_json, result.content, ctx))
        return result if content == result.content else replace(result, content=content)

    def new_stream(self, ctx: RunContext) -> TextStream:
        """Make a stream that holds back what can still become part of a match."""
        return (
            WholeText(lambda text: self._clean_text(text, ctx))
            if self.holds_whole_text
            else HoldBack(self, ctx)
        )

    def clean_tool_part(self, part: ToolCall | ToolResult, ctx: RunContext) -> list[StreamPart]:
        """Look at the texts of a call or a result."""
        return [self._clean_tool(part, ctx)]

    def clean_message(self, message: Message, ctx: RunContext, *, has_streamed: bool) -> Message:
        """Look at every part of a message, but not again at what was cleaned as it streamed."""
        done = _STREAMED if has_streamed else ()
        before = message.parts
        after = tuple(part if isinstance(part, done) else self._clean_part(part, ctx) for part in before)
        return message if after == before else message.replace(content=after)

    def _clean_part(self, part: Part, ctx: RunContext) -> Part:
        match part:
            case TextPart(text):
                return TextPart(self._clean_text(text, ctx))
            case ToolCall() | ToolResult():
                return self._clean_tool(part, ctx)
            case ReasoningPart(text):
                cleaned = self._clean_text(text, ctx)
                # The provider's signature is valid only for the unchanged text.
                return part if cleaned == text else ReasoningPart(cleaned)
            case _:
                url = part.url and self._clean_text(part.url, ctx)
                return replace(part, url=url, name=part.name and self._clean_text(part.name, ctx))

    def _clean_tool(self, part: P, ctx: RunContext) -> P:
        name = self._clean_name(part.name, ctx)
        if isinstance(part, ToolCall):
            cleaned = ToolCall(self._clean_id(part.id, ctx), name, self._clean_json(part.arguments, ctx))
        else:
            content = self._clean_json(part.content, ctx)
            cleaned = ToolResult(self._clean_id(part.call_id, ctx), name, content, part.is_error)
        return part if cleaned == part else cast("P", cleaned)

    def _clean_json(self, value: T, ctx: RunContext) -> T:
        return cast("T", map_named_texts(value, lambda text, name: self._clean_text(text, ctx, name)))

    def _clean_id(self, call_id: str, ctx: RunContext) -> str:
        """Return what stands for an id in this run: the same for a call and its result, and for no other."""
        known: dict[str, str] = ctx.state.setdefault(_CALL_IDS, {})
        if call_id not in known and call_id not in known.values():
            cleaned = name = call_id if _MADE_ID.fullmatch(call_id) else self._clean_name(call_id, ctx)
            while name in known.values():
                name = f"{cleaned}_{len(known)}"
            known[call_id] = name
        return known.get(call_id, call_id)

    def _clean_name(self, name: str, ctx: RunContext) -> str:
        cleaned = self._clean_text(name, ctx)
        return name if cleaned == name else _NOT_IN_NAMES.sub("_", cleaned).strip("_") or "redacted"

    def _clean_text(self, text: str, ctx: RunContext, name: str = "") -> str:
        if not text:
            return text
        label = _make_label(name) if name else ""
        labelled, start = label + text, len(label)
        segments: list[str] = []
        place = start
        for found in self.find_in_pieces(labelled, start, ctx):
            for span in self._merge(found, labelled):
                if span.end > start:
                    segments += (labelled[place : max(span.start, start)], span.replacement)
                    place = span.end
        self.report(labelled, start, len(labelled), ctx)
        return "".join((*segments, labelled[place:])) if segments else text


def _make_label(name: str) -> str:
    """Return a name as words before a value: `phoneNumber` and `phone_number` as "phone Number: "."""
    return f"{_WORD_BORDER.sub(' ', name[-_LONGEST_NAME:])}: "


def _are_spans(found: object, text: str) -> bool:
    return isinstance(found, list) and all(
        isinstance(span, Span) and 0 <= span.start <= span.end <= len(text)
        for span in cast("list[object]", found)
    )
