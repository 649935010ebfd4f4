"""Guards that find spans in text: what they share, whatever they look for.

A span guard says where something is and what to write in its place. The rest follows: the same guard
works on the prompt, on tool calls and results, on the finished turn and on the stream, where `holdback`
keeps back what could still become a match.
"""

from dataclasses import replace
from typing import TypeVar, cast

from recollect.errors import RecollectError
from recollect.guards.holdback import REDACTED, HoldBack, Span, WholeText, apply_spans, ordered
from recollect.guards.json_texts import map_named_texts
from recollect.messages import Message, Part, ReasoningPart, TextPart, ToolCall, ToolResult
from recollect.pipeline.assembly import id_of
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor, StreamPart, TextDelta, is_changed

P = TypeVar("P", bound=ToolCall | ToolResult)

DEFAULT_HOLDBACK = 256
"""How many characters a stream may be held back for an unfinished match."""

_LOOKS = frozenset(("find", "find_behind", "open_from", "quiet_to", "settle"))


class SpanGuard(Processor):
    """Finds spans in text and writes something else in their place; `find` may abort instead.

    It looks at texts, reasoning, names and addresses of files, and at all texts and whole numbers in the
    arguments and the results of tools; not into files, and not at metadata.
    """

    holdback_limit: int = DEFAULT_HOLDBACK
    batch: int = 1
    """How many characters of a stream are looked at together: more of them cost less, and come later."""

    replacement: str = REDACTED
    """What is written in place of a match that is longer than the limit, and so was never found."""

    def find(self, text: str, ctx: RunContext) -> list[Span]:
        """Return what to replace; spans that overlap are replaced as one.

        On a stream the text begins at most 64 characters before what has not been let out yet, and its first
        two letters may stand for others then, so a match must not depend on what stands further back.
        """
        raise NotImplementedError

    def find_behind(self, text: str, start: int, ctx: RunContext) -> list[Span]:  # noqa: ARG002 - some look at it
        """Return what `find` does; what ends before `start`, which was let out earlier, may be left out."""
        return self.find(text, ctx)

    def find_named(self, text: str, name: str, ctx: RunContext) -> list[Span]:  # noqa: ARG002 - some look at it
        """Return what `find` does for a text or a number that stands under a name among a tool's values."""
        return self.find(text, ctx)

    def checked_find(self, text: str, ctx: RunContext, start: int = 0, name: str = "") -> list[Span]:
        """Return what `find` does, if it is a list of spans of the text."""
        if name:
            found = self.find_named(text, name, ctx)
        else:
            found = self.find_behind(text, start, ctx) if start else self.find(text, ctx)
        if not _are_spans(found, text):
            raise RecollectError(
                f"{id_of(self)}.find must return a list of Span values, with places in the text it was given"
            )
        return found

    def open_from(self, text: str) -> int:  # noqa: ARG002 - a guard of its own looks at the text
        """Return where a match that is not finished may begin; the length of the text if nowhere.

        A guard that leaves this out lets no text of a message out before its end.
        """
        return 0

    def quiet_to(self, text: str, start: int) -> int:  # noqa: ARG002 - a guard of its own looks at them
        """Return up to where a text holds nothing to find, also if more text comes; -1 asks for a look.

        On a stream it is asked first about what is held back, from `start` on: what is obviously harmless
        need not be looked at. It is not asked if an heir of its class has another `find`, `open_from` or
        `settle`.
        """
        return -1

    def settle(self, text: str, start: int, end: int, ctx: RunContext) -> None:
        """Take note of a stretch of text that is about to be let out or handed on, each once; may abort.

        What stands before `start` was let out earlier, what stands behind `end` is not let out yet. `find` is
        asked again and again on a stream, also about matches that are not finished, so what is found is
        reported here.
        """

    @property
    def holds_whole_text(self) -> bool:
        """Whether text must wait for the end of its message, since a match may begin anywhere."""
        return not is_changed(self, "open_from", SpanGuard)

    def replacement_of_open(self, text: str) -> str:  # noqa: ARG002 - some look at the text
        """Return what to write for the open match at the end of a text, which is longer than the limit."""
        return self.replacement

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at what the caller said, not at what memory brought in."""
        return [self._cleaned(m, ctx) if m.origin == "input" else m for m in messages]

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Look at the texts among the arguments."""
        return self._cleaned_tool(call, ctx)

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:
        """Look at the texts in the result."""
        return self._cleaned_tool(result, ctx)

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Let out the text that can no longer become part of a match, and clean what is not text."""
        if not isinstance(part, TextDelta):
            ctx.state["streamed"] = True
            return [self._cleaned_tool(part, ctx)]
        holdback = ctx.state.get("holdback") or self._new_holdback(ctx)
        text = holdback.feed(part.text)
        if not text:
            return []
        return [part] if text == part.text else [TextDelta(text)]

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Let out the rest."""
        holdback: HoldBack | WholeText | None = ctx.state.get("holdback")
        text = holdback.finish() if holdback else ""
        return [TextDelta(text)] if text else []

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at every message of the turn, but not again at what was cleaned as it streamed."""
        streamed = (TextPart, ToolCall, ToolResult) if "streamed" in ctx.state else ()
        return [self._cleaned(m, ctx, streamed if m.origin == "response" else ()) for m in messages]

    def _new_holdback(self, ctx: RunContext) -> HoldBack | WholeText:
        holdback = (
            WholeText(lambda text: self._clean(text, ctx))
            if self.holds_whole_text
            else HoldBack(
                lambda text: self.checked_find(text, ctx),
                self.open_from,
                limit=self.holdback_limit,
                batch=self.batch,
                replacement=self.replacement_of_open,
                find_behind=lambda text, start: self.checked_find(text, ctx, start),
                settle=lambda text, start, end: self.settle(text, start, end, ctx),
                quiet_to=self.quiet_to if self._is_quick() else lambda _, __: -1,
            )
        )
        ctx.state["holdback"], ctx.state["streamed"] = holdback, True
        return holdback

    def _is_quick(self) -> bool:
        """Whether `quiet_to` speaks for the guard: nothing on it, and no heir of its class, looks anew."""
        owners = (vars(owner).keys() for owner in (self, *type(self).__mro__))
        return "quiet_to" in next(names for names in owners if not names.isdisjoint(_LOOKS))

    def _cleaned(self, message: Message, ctx: RunContext, done: tuple[type, ...] = ()) -> Message:
        before = message.parts
        after = tuple(part if isinstance(part, done) else self._cleaned_part(part, ctx) for part in before)
        return message if after == before else message.replace(content=after)

    def _cleaned_part(self, part: Part, ctx: RunContext) -> Part:
        match part:
            case TextPart(text):
                return TextPart(self._clean(text, ctx))
            case ToolCall() | ToolResult():
                return self._cleaned_tool(part, ctx)
            case ReasoningPart(text):
                cleaned = self._clean(text, ctx)
                # The provider's proof is of the text as it was.
                return part if cleaned == text else ReasoningPart(cleaned)
            case _:
                url = part.url and self._clean(part.url, ctx)
                return replace(part, url=url, name=part.name and self._clean(part.name, ctx))

    def _cleaned_tool(self, part: P, ctx: RunContext) -> P:
        before = part.arguments if isinstance(part, ToolCall) else part.content
        after = map_named_texts(before, lambda text, name: self._clean(text, ctx, name))
        if after == before:
            return part
        return replace(part, **{"arguments" if isinstance(part, ToolCall) else "content": after})

    def _clean(self, text: str, ctx: RunContext, name: str = "") -> str:
        if not text:
            return text
        spans = ordered(self.checked_find(text, ctx, name=name), text)
        self.settle(text, 0, len(text), ctx)
        return apply_spans(text, spans)


def _are_spans(found: object, text: str) -> bool:
    return isinstance(found, list) and all(
        isinstance(span, Span) and 0 <= span.start <= span.end <= len(text)
        for span in cast("list[object]", found)
    )
