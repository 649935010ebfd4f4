"""What a run of the loop gives back."""

from dataclasses import dataclass

from recollect.agent.result import Result, Usage
from recollect.messages import Message
from recollect.pipeline.processor import TripWire
from recollect.trace import Trace


@dataclass(frozen=True, slots=True)
class AgentRunResult:
    """The outcome of a run in a session.

    `text` is the answer, empty where `tripwire` says what stopped the run. `saved` says whether the session
    has kept the turn. Failures of long-term memory change nothing here: the trace and the events have them.
    """

    text: str
    session_id: str
    run_id: str
    tripwire: TripWire | None
    trace: Trace
    finish_reason: str | None
    saved: bool
    usage: Usage
    messages: list[Message]
    prompt: list[Message]


def in_session(result: Result, session_id: str) -> AgentRunResult:
    """Return an agent's result as that of a session."""
    return AgentRunResult(
        text=result.text,
        session_id=session_id,
        run_id=result.run_id,
        tripwire=result.tripwire,
        trace=result.trace,
        finish_reason=result.finish_reason,
        saved=result.saved,
        usage=result.usage,
        messages=result.messages,
        prompt=result.prompt,
    )
