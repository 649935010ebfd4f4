"""`SystemPromptScrubber`: keeps the agent's instructions out of its answers, without a model."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias, cast, get_args

from recollect.concurrency.threads import run_by_size
from recollect.errors import InvalidArgumentError
from recollect.guards.detection import Detection, OnDetection, check_callback, report_detections
from recollect.guards.holdback import REDACTED
from recollect.guards.json_texts import map_texts
from recollect.guards.leaks.matcher import LeakMatcher
from recollect.guards.leaks.ngram_index import NgramIndex, index_block, index_instructions
from recollect.guards.stream_guard import StreamGuard, TextStream
from recollect.message_size import count_message, count_part
from recollect.messages import FramePart, Message, Part, TextPart, ToolCall
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import StreamPart
from recollect.text.slices import feed_in_slices
from recollect.validation import check_choice, check_int, check_list, check_text

ScrubStrategy: TypeAlias = Literal["redact", "block", "warn", "filter"]
"""What happens to a leak: replaced, the run stopped, only reported, or taken out without a mark."""

ProtectedMemory: TypeAlias = Literal["frame", "all", "none"]
"""What of the blocks that memory brings in is protected."""

_DONE = {"redact": "redacted", "block": "blocked", "warn": "warned of", "filter": "taken out"}
_SMALLEST_HOLDBACK = 160  # what may begin a leak always waits


class SystemPromptScrubber(StreamGuard):
    """Finds the instructions, and the frames of memory's blocks, in what the agent says.

    It finds them verbatim or with small changes, in other case, punctuation or spacing. No leak is what
    the user said in this conversation, what the instructions put in quotation marks for the agent to say,
    what `allow` names, and the facts in memory's blocks. Paraphrases and translations are not found.
    """

    id = "system-prompt-scrubber"

    def __init__(
        self,
        strategy: ScrubStrategy = "redact",
        *,
        memory: ProtectedMemory = "frame",
        allow: Iterable[str] = (),
        replacement: str = REDACTED,
        holdback_limit: int = 160,
        on_detection: OnDetection | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> None:
        """Set the strategy, what of memory is protected, and texts that may be repeated.

        No more than `holdback_limit` characters of a stream are held back; what is over is judged by then.
        """
        self._strategy: ScrubStrategy = check_choice(strategy, "strategy", get_args(ScrubStrategy))
        self._only_warns = strategy == "warn"
        self._memory: ProtectedMemory = check_choice(memory, "memory", get_args(ProtectedMemory))
        if isinstance(allow, str):
            raise InvalidArgumentError("allow", "must be a list of texts; write [text] for one")
        self._allow = tuple(check_text(text, "allow") for text in check_list(allow, "allow"))
        self._replacement = "" if strategy == "filter" else check_text(replacement, "replacement")
        self._limit = check_int(holdback_limit, "holdback_limit", minimum=_SMALLEST_HOLDBACK)
        self._on_detection = check_callback(on_detection)
        self.id = id or self.id

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Look at the texts among the arguments, which are shown and kept; only a block stops the tool."""
        await self._prepare(ctx)
        return await run_by_size(count_part(call), partial(self._clean_call, call, ctx))

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Release the text in which nothing leaks."""
        if "index" not in ctx.state:
            await self._prepare(ctx)
        return await super().process_output_stream(part, ctx)

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at what of the turn has not streamed."""
        await self._prepare(ctx)
        return await super().process_output_result(messages, ctx)

    def new_stream(self, ctx: RunContext) -> TextStream:
        """Make a stream without leaks; where there is nothing to protect all text passes."""
        matcher = self._new_matcher(ctx)
        if matcher is None:
            return _UnchangedText()
        return _ScrubbedText(matcher, lambda: self._report(matcher, ctx), only_warns=self._only_warns)

    def clean_message(self, message: Message, ctx: RunContext, *, has_streamed: bool) -> Message:
        """Look at what the agent said and did not stream."""
        if has_streamed or message.origin != "response":
            return message
        parts = tuple(self._clean_part(part, ctx) for part in message.parts)
        return message if parts == message.parts else message.replace(content=parts)

    def _clean_part(self, part: Part, ctx: RunContext) -> Part:
        if isinstance(part, TextPart):
            return TextPart(self._clean_text(part.text, ctx))
        return self._clean_call(part, ctx) if isinstance(part, ToolCall) else part

    def _clean_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        cleaned = map_texts(call.arguments, lambda text: self._clean_text(text, ctx))
        return call if cleaned == call.arguments else replace(call, arguments=cleaned)

    def _clean_text(self, text: str, ctx: RunContext) -> str:
        matcher = self._new_matcher(ctx)
        if matcher is None:
            return text
        cleaned = feed_in_slices(matcher.feed, text) + matcher.finish()
        self._report(matcher, ctx)
        return text if self._only_warns else cleaned

    def _report(self, matcher: LeakMatcher, ctx: RunContext) -> None:
        """Report the leaks that have ended; with `block`, also one that goes on."""
        found = [*matcher.leaks]
        if self._strategy == "block" and matcher.is_inside:
            found.append(matcher.leak_so_far())
        matcher.leaks.clear()
        detections = [Detection("system_prompt", *leak) for leak in found]
        report_detections(detections, ctx, action=_DONE[self._strategy], on_detection=self._on_detection)
        if found and self._strategy == "block":
            ctx.abort("the answer repeats what the agent was instructed", metadata={"leaks": len(found)})

    async def _prepare(self, ctx: RunContext) -> None:
        """Index what must not leak, once in a run; a long prompt is read for what the user knows already."""
        if "index" not in ctx.state:
            size = len(ctx.instructions) + sum(map(count_message, ctx.view))
            ctx.state["index"] = await run_by_size(size, partial(self._build_index, ctx))

    def _new_matcher(self, ctx: RunContext) -> LeakMatcher | None:
        index = cast("NgramIndex", ctx.state["index"])
        return LeakMatcher(index, limit=self._limit, replacement=self._replacement) if index else None

    def _build_index(self, ctx: RunContext) -> NgramIndex:
        """Index what the model was told in this run, without what the user may know."""
        index = index_instructions(ctx.instructions)
        for message in ctx.view:
            if message.role == "system":
                index |= self._index_message(message)
        known = [message.text for message in ctx.view if message.role == "user"]
        return index.without([*self._allow, *known])

    def _index_message(self, message: Message) -> NgramIndex:
        if message.origin != "memory" or self._memory == "all":
            return index_instructions(message.text)
        frame = next((part.text for part in message.parts if isinstance(part, FramePart)), None)
        if self._memory == "none" or frame is None:
            return NgramIndex()
        return index_block(frame, frame.partition("\n")[0], message.text)


class _ScrubbedText:
    """The text of an answer without its leaks, each reported as soon as it has ended."""

    def __init__(self, matcher: LeakMatcher, report: Callable[[], None], *, only_warns: bool) -> None:
        self._matcher = matcher
        self._report = report
        self._only_warns = only_warns

    def feed(self, text: str) -> str:
        scrubbed = self._matcher.feed(text)
        if self._matcher.leaks or self._matcher.is_inside:
            self._report()
        return text if self._only_warns else scrubbed

    def finish(self) -> str:
        scrubbed = self._matcher.finish()
        self._report()
        return "" if self._only_warns else scrubbed


class _UnchangedText:
    def feed(self, text: str) -> str:
        return text

    def finish(self) -> str:
        return ""
