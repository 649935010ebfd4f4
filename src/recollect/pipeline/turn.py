"""A turn on the output side: its answer step by step, and its messages.

A run has steps: the model answers and calls tools, the tools return, and so on. Each step is one assistant
message, its results are tool messages. Their ids derive from the run's id, so that a run that is sent again
has the same ids.

    step 0   "Let me see."  call c1      r:0000       assistant
             result of c1                r:0000.0000  tool
    step 1   "It is sunny."              r:0001       assistant
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter

from recollect.messages import Message, Part, TextPart, ToolCall, ToolResult, now
from recollect.pipeline.processor import StreamPart, TextDelta
from recollect.tool_pairs import drop_orphan_results


def assistant_id(run_id: str, step: int) -> str:
    """Return the id of the assistant message of a step."""
    return f"{run_id}:{step:04d}"


def result_id(run_id: str, step: int, place: int) -> str:
    """Return the id of a tool message of a step."""
    return f"{run_id}:{step:04d}.{place:04d}"


def split_stored_turn(turn: Sequence[Message]) -> Iterator[tuple[int, StreamPart]]:
    """Yield the parts of a stored answer with their steps, which only the message ids contain."""
    step = -1
    for message in turn:
        if message.origin == "response":
            step = _parse_step(message, step)
            yield from ((step, part) for part in _stream_parts(message))


def _parse_step(message: Message, before: int) -> int:
    with suppress(ValueError):
        return int(message.id.removeprefix(f"{message.run_id}:").partition(".")[0])
    return before + (message.role == "assistant")


@dataclass(slots=True)
class Step:
    """One answer of the model: its text, its tool calls, and their results."""

    texts: list[str] = field(default_factory=list[str])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    results: list[ToolResult] = field(default_factory=list[ToolResult])
    said_at: datetime = field(default_factory=now)

    def messages(self, run_id: str, number: int) -> Iterator[Message]:
        """Yield the assistant message, and a tool message for each result."""
        text = "".join(self.texts)
        parts: list[Part] = [TextPart(text)] if text else []
        parts += self.calls
        if parts:
            yield Message("assistant", parts, id=assistant_id(run_id, number), created_at=self.said_at)
        for place, result in enumerate(self.results):
            yield Message("tool", [result], id=result_id(run_id, number, place), created_at=self.said_at)


class Answer:
    """The steps of an answer that have passed one stage; `characters` is how much text they have."""

    __slots__ = ("_run_id", "_steps", "characters")

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._steps: dict[int, Step] = {}
        self.characters = 0

    def add(self, step: int, part: StreamPart) -> None:
        """Append a part to a step."""
        at = self._steps.get(step)
        if at is None:
            at = self._steps[step] = Step()
        if isinstance(part, TextDelta):
            at.texts.append(part.text)
            self.characters += len(part.text)
        elif isinstance(part, ToolCall):
            at.calls.append(part)
        else:
            at.results.append(part)

    @property
    def steps(self) -> list[tuple[int, Step]]:
        """The steps with their numbers, in order."""
        return sorted(self._steps.items(), key=itemgetter(0))

    def messages(self) -> list[Message]:
        """Return the messages of all steps."""
        return [message for _, message in self.numbered_messages()]

    def numbered_messages(self) -> list[tuple[int, Message]]:
        """Return the messages, each with the number of its step."""
        return [
            (number, message)
            for number, step in self.steps
            for message in step.messages(self._run_id, number)
        ]

    def text(self) -> str:
        """Return all text, the steps joined by line breaks."""
        texts = ("".join(step.texts) for _, step in self.steps)
        return "\n".join(text for text in texts if text)


@dataclass(frozen=True, slots=True)
class Turn:
    """The messages of a turn at one stage of the output side, and the step of each answer message."""

    run_id: str
    messages: list[Message]
    steps: Mapping[str, int] = field(default_factory=dict[str, int])

    def with_answer(self, answer: Answer) -> "Turn":
        """Return the turn with the text and tool parts of an answer; the rest, such as metadata, stays."""
        known = {message.id: message for message in self.messages}
        spoken = answer.numbered_messages()
        prompt = [message for message in self.messages if message.origin != "response"]
        return Turn(
            self.run_id,
            prompt + [_with_parts_of(message, known.get(message.id)) for _, message in spoken],
            {message.id: step for step, message in spoken},
        )

    def with_messages(self, messages: Sequence[Message]) -> "Turn":
        """Return the turn with a hook's messages; those that it added to the answer become further steps."""
        steps = dict(self.steps)
        last = max(steps.values(), default=-1)
        kept: list[Message] = []
        for message in messages:
            if message.origin == "response" and message.id not in steps:
                last += 1
                message = message.replace(id=assistant_id(self.run_id, last))  # noqa: PLW2901 - its id here
                steps[message.id] = last
            kept.append(message)
        prompt = [message for message in kept if message.origin != "response"]
        answer = [message for message in kept if message.origin == "response"]
        return Turn(self.run_id, prompt + drop_orphan_results(answer), steps)

    def parts(self) -> list[tuple[int, StreamPart]]:
        """Split the answer into parts, in the order of its steps, for the processors that follow."""
        found = [
            (self.steps[message.id], part)
            for message in self.messages
            if message.origin == "response"
            for part in _stream_parts(message)
        ]
        return sorted(found, key=itemgetter(0))


def _with_parts_of(message: Message, earlier: Message | None) -> Message:
    if earlier is None:
        return message
    text = [part for part in message.parts if isinstance(part, TextPart)]
    tools = [part for part in message.parts if not isinstance(part, TextPart)]
    others = [part for part in earlier.parts if not isinstance(part, TextPart | ToolCall | ToolResult)]
    return earlier.replace(content=[*text, *others, *tools])


def _stream_parts(message: Message) -> Iterator[StreamPart]:
    for part in message.parts:
        if isinstance(part, TextPart):
            yield TextDelta(part.text)
        elif isinstance(part, ToolCall | ToolResult):
            yield part
