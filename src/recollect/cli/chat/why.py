"""What `/why` shows: what the model was given from memory and why, and what the pipeline did."""

import json
from collections.abc import Iterator, Sequence
from typing import cast

from recollect.messages import Message, quoted_texts
from recollect.runtime.loop import AgentRunResult
from recollect.storage.records import AuditEvent
from recollect.text.quoting import BULLET
from recollect.trace import TraceEntry

_MAX_LENGTH = 400


def explain(result: AgentRunResult, events: Sequence[AuditEvent] = ()) -> str:
    """Return why an answer came out as it did, as lines of text."""
    lines = [f"session {result.session_id}, run {result.run_id}", "Shown to the model:"]
    lines += [f"  {line}" for message in result.prompt for line in _describe_message(message)]
    lines.append("Pipeline:")
    lines += [f"  {line}" for entry in result.trace for line in _describe_entry(entry)]
    if events:
        lines.append("Events:")
        lines += [f"  {event.name} {_to_json(dict(event.payload))}" for event in events]
    if result.tripwire is not None:
        lines.append(f"Stopped by {result.tripwire.processor_id}: {result.tripwire.reason}")
    return "\n".join(lines)


def _describe_message(message: Message) -> Iterator[str]:
    if message.origin == "memory" and message.role == "system":
        yield "recalled:"
        items = enumerate(quoted_texts(message), 1)
        yield from (f"  {number}. {_shorten(item.removeprefix(BULLET))}" for number, item in items)
        return
    if message.origin == "system":
        yield f"{'skill' if message.kind == 'skill' else 'system prompt'}:"
        yield from (f"  {_shorten(line)}" for line in message.text.splitlines() if line.strip())
        return
    source = "history" if message.origin == "memory" else "this turn"
    calls = ", ".join(part.name for part in (*message.tool_calls, *message.tool_results))
    yield f"{source}: {message.role}: {_shorten(message.text) or f'({calls})'}"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LENGTH else line[:_MAX_LENGTH] + " …"


def _describe_entry(entry: TraceEntry) -> Iterator[str]:
    yield f"{entry.processor_id} ({entry.phase}): {entry.milliseconds:.1f} ms"
    for change in entry.changes:
        yield f"  {change}"
    for note in entry.notes:
        yield f"  {note}"
    for name, value in (entry.details or {}).items():
        yield from _describe_detail(name, value)
    if entry.tripwire:
        yield f"  blocked: {entry.tripwire}"
    if entry.error:
        yield f"  error: {entry.error}"


def _describe_detail(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"  {name}: {_to_json(value)}"
        return
    yield f"  {name}:"
    for number, item in enumerate(cast("list[object]", value), 1):
        yield f"    {number}. {_to_json(item)}"


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
