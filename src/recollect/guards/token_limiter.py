"""A limit of tokens: for the answer, or for the prompt as the model is shown it."""

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from recollect.messages import Message, Part, ReasoningPart, TextPart, ToolCall, ToolResult
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor, StreamPart, TextDelta, text_parts
from recollect.pipeline.prompt_order import start_of_turn
from recollect.text.tokens import ENCODINGS, Encoding, TokenCutter, count_tokens
from recollect.tool_pairs import assign_units
from recollect.validation import check_choice, check_int

LimitStrategy: TypeAlias = Literal["truncate", "abort"]
"""What happens to text beyond the limit: it is cut off, or the run is stopped."""

_FILE_TOKENS = 765  # about what providers count for an image


class TokenLimiterProcessor(Processor):
    """Keeps the answer, or the prompt, within a number of tokens.

    In `output_processors` the answer is cut at a clean place, all its messages counted together, and the
    model stopped there: no further tools, finish reason `length`. In `input_processors` it runs behind memory
    and takes the oldest messages out of what the model is shown, a tool's call with its results; never a
    system message, never the present turn, and nothing of what is kept. What tools give back counts: the
    limit holds for every request to the model.
    """

    id = "token-limiter"
    after_memory = True
    edits = "view"
    every_step = True

    def __init__(
        self,
        limit: int,
        strategy: LimitStrategy = "truncate",
        *,
        encoding: Encoding = "o200k",
        message_overhead: int = 0,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> None:
        """Take the most tokens, and what happens beyond them.

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
        costs = [self._cost(message) for message in messages]
        excess = sum(costs) + count_tokens(ctx.instructions, self._encoding) - self._limit
        if excess <= 0:
            return messages
        if self._strategy == "abort":
            ctx.abort(f"the prompt is {excess} tokens longer than the limit of {self._limit}")
        dropped: set[int] = set()
        for unit in _droppable_units(messages):
            if excess <= 0:
                break
            dropped |= unit
            excess -= sum(costs[place] for place in unit)
        if excess > 0:
            ctx.abort(
                f"instructions, system messages and this turn alone are {excess} tokens longer than the "
                f"limit of {self._limit}; none of them may be left out: raise the limit, or shorten them"
            )
        return [message for place, message in enumerate(messages) if place not in dropped]

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Let text through up to the limit; no tool is called beyond it."""
        cutter = self._cutter(ctx)
        if not isinstance(part, TextDelta):
            return [] if cutter.is_full else [part]
        text = cutter.feed(part.text)
        if cutter.is_full:
            self._end(ctx)
        return [part] if text == part.text else text_parts(text)

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Let out the last word, if it fits."""
        cutter = self._cutter(ctx)
        text = cutter.finish()
        if cutter.is_full:
            self._end(ctx)
        return text_parts(text)

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Cut the answer, unless it was cut as it streamed."""
        if "cutter" in ctx.state:
            return messages
        cutter = self._cutter(ctx)
        after = [self._cut(m, cutter) if _is_answer(m) else m for m in messages]
        if cutter.is_full:
            self._end(ctx)
        return after

    def _cutter(self, ctx: RunContext) -> TokenCutter:
        cutter = ctx.state.get("cutter")
        if cutter is None:
            cutter = ctx.state["cutter"] = TokenCutter(self._limit, self._encoding)
        return cutter

    def _end(self, ctx: RunContext) -> None:
        if self._strategy == "abort":
            ctx.abort(f"the answer is longer than the limit of {self._limit} tokens")
        if "has_ended" not in ctx.state:
            ctx.state["has_ended"] = True
            ctx.note(f"the answer was cut at {self._limit} tokens")
            ctx.stop("length")

    def _cut(self, message: Message, cutter: TokenCutter) -> Message:
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                text = cutter.feed(part.text) + cutter.finish()
                parts += [TextPart(text)] if text else []
            else:
                parts.append(part)
        return message if tuple(parts) == message.parts else message.replace(content=parts)

    def _cost(self, message: Message) -> int:
        return self._overhead + sum(self._cost_of_part(part) for part in message.parts)

    def _cost_of_part(self, part: Part) -> int:
        match part:
            case TextPart(text) | ReasoningPart(text):
                return count_tokens(text, self._encoding)
            case ToolCall():
                return count_tokens(part.name + _json(dict(part.arguments)), self._encoding)
            case ToolResult():
                return count_tokens(part.name + _json(part.content), self._encoding)
            case _:
                return _FILE_TOKENS


def _droppable_units(messages: Sequence[Message]) -> list[set[int]]:
    """Return the places of what may be left out, oldest first; what belongs together is left out together."""
    turn = start_of_turn(messages)
    units: dict[int, set[int]] = {}
    for place, unit in enumerate(assign_units(list(enumerate(messages)))):
        units.setdefault(unit, set()).add(place)
    return [
        places
        for places in units.values()
        if max(places) < turn and not any(messages[place].role == "system" for place in places)
    ]


def _is_answer(message: Message) -> bool:
    return message.role == "assistant" and message.origin == "response"


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
