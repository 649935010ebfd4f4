"""Putting the parts of an answer together into messages.

A run has steps: the model speaks and calls tools, the tools answer, and so on. Each step is one
assistant message, its results are tool messages. Their ids follow from the run's id, so that the same
run gives the same ids however often it is sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from recollect.messages import Message, Part, TextPart, ToolCall, ToolResult, now
from recollect.pipeline.processor import StreamPart, TextDelta


def assistant_id(run_id: str, step: int) -> str:
    """Return the id of what the model said in a step."""
    return f"{run_id}:{step:04d}"


def result_id(run_id: str, step: int, place: int) -> str:
    """Return the id of a tool's answer to a step."""
    return f"{run_id}:{step:04d}.{place:04d}"


@dataclass(slots=True)
class _Step:
    texts: list[str] = field(default_factory=list[str])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    results: list[ToolResult] = field(default_factory=list[ToolResult])
    said_at: datetime = field(default_factory=now)

    def messages(self, run_id: str, number: int) -> list[Message]:
        text = "".join(self.texts)
        parts: list[Part] = [TextPart(text)] if text else []
        parts += self.calls
        spoken = (
            [Message("assistant", parts, id=assistant_id(run_id, number), created_at=self.said_at)]
            if parts
            else []
        )
        answers = [
            Message("tool", [result], id=result_id(run_id, number, place), created_at=self.said_at)
            for place, result in enumerate(self.results)
        ]
        return spoken + answers


class TurnBuilder:
    """Collects the parts that pass one place of the pipeline."""

    def __init__(self, run_id: str) -> None:
        """Begin with nothing."""
        self._run_id = run_id
        self._steps: dict[int, _Step] = {}

    def add(self, step: int, parts: Sequence[StreamPart]) -> None:
        """Take parts of a step in."""
        if not parts:
            return
        entry = self._at(step)
        for part in parts:
            if isinstance(part, TextDelta):
                entry.texts.append(part.text)
            elif isinstance(part, ToolCall):
                entry.calls.append(part)
            else:
                entry.results.append(part)

    def add_text(self, step: int, text: str) -> None:
        """Take a piece of text in."""
        self._at(step).texts.append(text)

    def _at(self, step: int) -> _Step:
        entry = self._steps.get(step)
        if entry is None:
            entry = self._steps[step] = _Step()
        return entry

    def messages(self) -> list[Message]:
        """Return the messages that the parts add up to."""
        return [
            message
            for number, step in sorted(self._steps.items())
            for message in step.messages(self._run_id, number)
        ]

    def text(self) -> str:
        """Return all text, the steps joined by line breaks."""
        texts = ("".join(step.texts) for _, step in sorted(self._steps.items()))
        return "\n".join(text for text in texts if text)
