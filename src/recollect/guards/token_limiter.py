"""`TokenLimiterProcessor`: keeps the answer, or the prompt, within a number of tokens."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias, get_args

from recollect.concurrency.threads import run_by_size
from recollect.guards.stream_guard import StreamGuard, TextStream
from recollect.message_size import count_message
from recollect.messages import FramePart, Kind, Message, Part, ReasoningPart, TextPart, ToolCall, ToolResult
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import StreamPart
from recollect.pipeline.prompt_order import find_turn_start
from recollect.text.slices import feed_in_slices
from recollect.text.tokens import ENCODINGS, Encoding, TokenCutter
from recollect.text.tokens import count_tokens as count_text_tokens
from recollect.tool_pairs import assign_units
from recollect.validation import check_choice, check_int

LimitStrategy: TypeAlias = Literal["truncate", "abort"]
"""What happens to text beyond the limit: it is cut off, or the run is stopped."""

DEFAULT_LIMIT = 8_192
"""The limit of a limiter that was given none."""

# What memory has put into the prompt, in the order in which it is shortened.
_MEMORY_KINDS: tuple[Kind, ...] = ("recalled", "other_threads", "user_memory", "working_memory", "snapshot")
_FILE_TOKENS = 765  # about what providers count for an image


def count_tokens(content: str | Message, encoding: Encoding = "o200k") -> int:
    """Return the number of tokens of a text, or of all parts of a message."""
    if isinstance(content, Message):
        return sum(_count_part(part, encoding) for part in content.parts)
    return count_text_tokens(content, encoding)


def _count_part(part: Part, encoding: Encoding) -> int:
    match part:
        case TextPart(text) | ReasoningPart(text):
            return count_text_tokens(text, encoding)
        case ToolCall():
            return count_text_tokens(part.name + _to_json(dict(part.arguments)), encoding)
        case ToolResult():
            return count_text_tokens(part.name + _to_json(part.content), encoding)
        case _:
            return _FILE_TOKENS


class TokenLimiterProcessor(StreamGuard):
    """Keeps the answer, or the prompt, within a number of tokens.

    In `output_processors` the answer is cut at a clean place, all its messages counted together, and the
    model stopped there: no further tools, finish reason `length`. In `input_processors` it runs after memory
    and takes the oldest messages out of what the model is shown, a tool's call with its results; never a
    system message, never the present turn, and nothing of what is kept. If those alone are too long, what
    memory shows (recalled messages, working memory) is shortened or left out. What tools give back counts:
    the limit holds for every request to the model.
    """

    id = "token-limiter"
    after_memory = True
    edits = "view"
    every_step = True

    def __init__(
        self,
        limit: int = DEFAULT_LIMIT,
        strategy: LimitStrategy = "truncate",
        *,
        encoding: Encoding = "o200k",
        message_overhead: int = 0,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> None:
        """Set the limit and what happens beyond it.

        `message_overhead` is what the provider adds for each message of a prompt, three or four tokens; the
        agent's instructions count too.
        """
        self._limit = check_int(limit, "limit", minimum=1)
        self._strategy: LimitStrategy = check_choice(strategy, "strategy", get_args(LimitStrategy))
        self._encoding: Encoding = check_choice(encoding, "encoding", ENCODINGS)
        self._overhead = check_int(message_overhead, "message_overhead")
        self.id = id or self.id

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Show the model the newest messages that fit; what has to stay and does not fit stops the run."""
        costs = [
            await run_by_size(count_message(message), partial(self._count, message)) for message in messages
        ]
        excess = sum(costs) + count_tokens(ctx.instructions, self._encoding) - self._limit
        if excess <= 0:
            return messages
        if self._strategy == "abort":
            ctx.abort(f"the prompt is {excess} tokens longer than the limit of {self._limit}")
        droppable = _find_droppable_units(messages)
        history = sum(costs[place] for unit in droppable for place in unit)
        needed = excess - history
        shown, saved = self._shorten_memory(messages, needed)
        if needed > saved:
            ctx.abort(
                f"instructions, system messages and this turn alone are {needed - saved} tokens longer than "
                f"the limit of {self._limit}; none of them may be left out: raise the limit, or shorten them"
            )
        excess -= saved
        for unit in droppable:
            if excess <= 0:
                break
            for place in unit:
                shown[place] = None
            excess -= sum(costs[place] for place in unit)
        return [message for message in shown if message is not None]

    def _shorten_memory(self, messages: Sequence[Message], needed: int) -> tuple[list[Message | None], int]:
        """Shorten what memory shows, or leave it out, before a run is stopped; return what that saves.

        If it must be shortened, half of the room is left for the history.
        """
        shown: list[Message | None] = [*messages]
        saved = 0
        if needed <= 0:
            return shown, saved
        room = sum(self._count(message) for message in messages if message.kind in _MEMORY_KINDS) - needed
        excess = needed + max(room, 0) // 2
        for kind in _MEMORY_KINDS:
            for place, message in enumerate(messages):
                if message.kind == kind and saved < excess:
                    shown[place] = self._shorten(message, excess - saved)
                    saved += self._count(message) - self._count(shown[place])
        return shown, saved

    def _shorten(self, message: Message, excess: int) -> Message | None:
        """Return a block of memory with so many tokens less at its end, or None if nothing would be left."""
        parts: list[Part] = []
        is_left = False
        for part in reversed(message.parts):
            if isinstance(part, TextPart) and not isinstance(part, FramePart):
                cost = _count_part(part, self._encoding)
                cutter = TokenCutter(max(cost - max(excess, 0), 0), self._encoding)
                text = cutter.feed(part.text) + cutter.finish()
                excess -= cost - count_tokens(text, self._encoding)
                parts += [TextPart(text)] if text else []
                is_left |= bool(text)
            else:
                parts.append(part)
        return message.replace(content=parts[::-1]) if is_left else None

    def _count(self, message: Message | None) -> int:
        return 0 if message is None else self._overhead + count_tokens(message, self._encoding)

    def new_stream(self, ctx: RunContext) -> "_LimitedText":
        """Make a stream that ends at the limit."""
        return _LimitedText(TokenCutter(self._limit, self._encoding), lambda: self._stop(ctx))

    def clean_tool_part(self, part: ToolCall | ToolResult, ctx: RunContext) -> list[StreamPart]:
        """Drop a tool's part after the limit: no tool is called there."""
        return [] if "has_ended" in ctx.state else [part]

    def clean_message(self, message: Message, ctx: RunContext, *, has_streamed: bool) -> Message:
        """Cut an answer that has not streamed, all its messages together."""
        if has_streamed or message.role != "assistant" or message.origin != "response":
            return message
        return self._cut(message, self.stream_of(ctx))

    def _stop(self, ctx: RunContext) -> None:
        if self._strategy == "abort":
            ctx.abort(f"the answer is longer than the limit of {self._limit} tokens")
        if "has_ended" not in ctx.state:
            ctx.state["has_ended"] = True
            ctx.note(f"the answer was cut at {self._limit} tokens")
            ctx.stop("length")

    def _cut(self, message: Message, stream: TextStream) -> Message:
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                text = feed_in_slices(stream.feed, part.text) + stream.finish()
                parts += [TextPart(text)] if text else []
            else:
                parts.append(part)
        return message if tuple(parts) == message.parts else message.replace(content=parts)


class _LimitedText:
    """Cuts text at the limit and calls `end` once there is more of it."""

    def __init__(self, cutter: TokenCutter, end: Callable[[], None]) -> None:
        self._cutter = cutter
        self._stop = end

    def feed(self, text: str) -> str:
        text = self._cutter.feed(text)
        if self._cutter.is_full:
            self._stop()
        return text

    def finish(self) -> str:
        text = self._cutter.finish()
        if self._cutter.is_full:
            self._stop()
        return text


def _find_droppable_units(messages: Sequence[Message]) -> list[set[int]]:
    """Return the places of what may be left out, oldest first; what belongs together is left out together."""
    turn = find_turn_start(messages)
    units: dict[int, set[int]] = {}
    for place, unit in enumerate(assign_units(list(enumerate(messages)))):
        units.setdefault(unit, set()).add(place)
    return [
        places
        for places in units.values()
        if max(places) < turn and not any(messages[place].role == "system" for place in places)
    ]


def _to_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
