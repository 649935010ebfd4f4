"""What `/why` shows: what the model was given from memory, and what the pipeline did."""

import json
from collections.abc import Iterator

from recollect.messages import Message
from recollect.runtime.result import AgentRunResult
from recollect.trace import TraceEntry

_LONGEST = 400


def explanation(result: AgentRunResult) -> str:
    """Return why an answer came out as it did, as lines of text."""
    lines = [f"session {result.session_id}, run {result.run_id}", "Shown to the model:"]
    lines += [f"  {line}" for message in result.prompt for line in _shown(message)]
    lines.append("Pipeline:")
    lines += [f"  {line}" for entry in result.trace for line in _done(entry)]
    if result.tripwire is not None:
        lines.append(f"Stopped by {result.tripwire.processor_id}: {result.tripwire.reason}")
    return "\n".join(lines)


def _shown(message: Message) -> Iterator[str]:
    source = {"memory": "from memory", "system": "system prompt"}.get(message.origin, "this turn")
    text = " ".join(message.text.split())
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
    calls = ", ".join(part.name for part in (*message.tool_calls, *message.tool_results))
    yield f"{source}: {message.role}: {text or f'({calls})'}"


def _done(entry: TraceEntry) -> Iterator[str]:
    yield f"{entry.processor_id} ({entry.phase}): {entry.milliseconds:.1f} ms"
    for change in entry.changes:
        yield f"  {change}"
    for note in entry.notes:
        yield f"  {note}"
    if entry.details:
        yield f"  {json.dumps(entry.details, ensure_ascii=False, default=str)}"
    if entry.tripwire:
        yield f"  blocked: {entry.tripwire}"
    if entry.error:
        yield f"  error: {entry.error}"
