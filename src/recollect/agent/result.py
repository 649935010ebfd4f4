"""The result of a run, and the events of its stream."""

from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

from recollect.messages import Message, ToolCall, ToolResult, part_to_dict
from recollect.pipeline.context import TripWire
from recollect.trace import Trace
from recollect.validation import as_json

EventType: TypeAlias = Literal["text", "tool_call", "tool_result", "tripwire", "done"]
"""The type of an event of a stream."""


@dataclass(slots=True)
class Usage:
    """The requests and tokens of a run."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(slots=True)
class Result:
    """The outcome of a run.

    `text` is all released text, `messages` the turn as memory stores it, `prompt` what the model was last
    shown. `saved` says whether memory has stored the turn; if not, the trace says why. `tripwire` is what
    stopped the run, or None.
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
    """One event of a stream; only the field of its type is set."""

    type: EventType
    text: str = ""
    tool_call: ToolCall | None = None
    tool_result: ToolResult | None = None
    tripwire: TripWire | None = None
    result: Result | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the event as JSON: its type, and the field of that type."""
        fields: dict[str, object] = {"text": self.text} if self.type == "text" else {}
        for name, part in (("tool_call", self.tool_call), ("tool_result", self.tool_result)):
            if part is not None:
                fields[name] = as_json(part_to_dict(part))
        for name, value in (("tripwire", self.tripwire), ("result", self.result)):
            if value is not None:
                fields[name] = value.to_dict()
        return {"type": self.type, **fields}
