"""What a run gives back, at its end and on the way."""

from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

from recollect.messages import Message, ToolCall, ToolResult, part_to_dict
from recollect.pipeline.context import TripWire
from recollect.trace import Trace
from recollect.validation import as_json

EventType: TypeAlias = Literal["text", "tool_call", "tool_result", "tripwire", "done"]
"""What an event of a stream is about."""


@dataclass(slots=True)
class Usage:
    """What a run used of the model."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(slots=True)
class Result:
    """The outcome of a run.

    `text` is all text that was released, `messages` the turn as it was kept or would have been, `prompt` what
    the model was last shown. `saved` says whether memory has kept the turn; the trace says why not.
    `tripwire` is what stopped the run, or None.
    """

    run_id: str
    text: str = ""
    messages: list[Message] = field(default_factory=list[Message])
    tripwire: TripWire | None = None
    saved: bool = False
    usage: Usage = field(default_factory=Usage)
    trace: Trace = field(default_factory=Trace)
    prompt: list[Message] = field(default_factory=list[Message])
    finish_reason: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the result as JSON."""
        return {
            "run_id": self.run_id,
            "text": self.text,
            "tripwire": None if self.tripwire is None else self.tripwire.to_dict(),
            "saved": self.saved,
            "finish_reason": self.finish_reason,
            "usage": asdict(self.usage),
            "messages": [message.to_dict() for message in self.messages],
            "prompt": [message.to_dict() for message in self.prompt],
            "trace": self.trace.to_list(),
        }


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens in a stream; only the field that belongs to its type is set."""

    type: EventType
    text: str = ""
    tool_call: ToolCall | None = None
    tool_result: ToolResult | None = None
    tripwire: TripWire | None = None
    result: Result | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the event as JSON: its type, and the field that belongs to it."""
        fields: dict[str, object] = {"text": self.text} if self.type == "text" else {}
        for name, part in (("tool_call", self.tool_call), ("tool_result", self.tool_result)):
            if part is not None:
                fields[name] = as_json(part_to_dict(part))
        for name, value in (("tripwire", self.tripwire), ("result", self.result)):
            if value is not None:
                fields[name] = value.to_dict()
        return {"type": self.type, **fields}
