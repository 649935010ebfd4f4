"""What happened in a run: which processor did what, how long it took, and what it changed.

A trace has no message text, only counts and short diffs of ids and lengths, so that it can be logged. It does
quote what a processor reports itself: the reason of a trip, the text of an error, notes. If OpenTelemetry is
configured, `agent/telemetry` makes spans of the same facts.
"""

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from recollect.messages import Message, ToolCall, ToolResult
from recollect.validation import as_json

Phase: TypeAlias = Literal["input", "tool_call", "tool_result", "stream", "result", "commit"]
"""The hook of a processor that an entry describes."""


@dataclass(slots=True)
class TraceEntry:
    """One processor in one phase of a run; one entry sums up all calls of a stream.

    `messages_in` and `messages_out` count the prompt or the turn, `characters_in` and `characters_out` the
    text of a stream. A trip is not an error: only one of `tripwire` and `error` is set.
    """

    processor_id: str
    phase: Phase
    milliseconds: float = 0.0
    calls: int = 0
    messages_in: int = 0
    messages_out: int = 0
    characters_in: int = 0
    characters_added: int = 0
    changes: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    tripwire: str | None = None
    error: str | None = None
    details: dict[str, object] | None = None
    started_at_ns: int = field(default_factory=time.time_ns)

    @property
    def characters_out(self) -> int:
        """How many characters of a stream were passed on, without text that is held back."""
        return self.characters_in + self.characters_added

    def to_dict(self) -> dict[str, object]:
        """Return the entry as JSON."""
        values = {name: as_json(getattr(self, name)) for name in TraceEntry.__slots__}
        return {**values, "characters_out": self.characters_out}

    def summary(self) -> list[str]:
        """Return short lines: what the processor changed, noted and raised."""
        lines = list(self.changes)
        if self.characters_added:
            lines.append(f"{self.characters_in} to {self.characters_out} characters")
        if self.tripwire is not None:
            lines.append(f"tripped: {self.tripwire}")
        if self.error is not None:
            lines.append(f"error: {self.error}")
        return [" ".join(line.split()) for line in (*lines, *self.notes)]


class Trace:
    """The entries of one run, in the order in which processors first acted."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, Phase], TraceEntry] = {}

    def __iter__(self) -> Iterator[TraceEntry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __str__(self) -> str:
        """Return a table of what each processor did, for `print(result.trace)`."""
        rows = [("processor", "phase", "ms", "what changed")]
        for entry in self:
            first, *others = entry.summary() or [""]
            rows.append((entry.processor_id, entry.phase, f"{entry.milliseconds:.1f}", first))
            rows += [("", "", "", line) for line in others]
        processor, phase, ms = (max(len(row[column]) for row in rows) for column in range(3))
        return "\n".join(
            f"{row[0]:{processor}}  {row[1]:{phase}}  {row[2]:>{ms}}  {row[3]}".rstrip() for row in rows
        )

    def to_list(self) -> list[dict[str, object]]:
        """Return the entries as JSON."""
        return [entry.to_dict() for entry in self]

    def entry(self, processor_id: str, phase: Phase) -> TraceEntry:
        """Return the entry of a processor in a phase; create it if missing."""
        key = (processor_id, phase)
        if key not in self._entries:
            self._entries[key] = TraceEntry(processor_id, phase)
        return self._entries[key]

    def get_current(self) -> TraceEntry | None:
        """Return the newest entry if its first call is still running."""
        newest = next(reversed(self._entries.values()), None)
        return newest if newest is not None and newest.calls and not newest.milliseconds else None

    @contextmanager
    def time_call(self, processor_id: str, phase: Phase) -> Generator[TraceEntry]:
        """Time a call of a hook; an exception is noted and raised again."""
        entry = self.entry(processor_id, phase)
        entry.calls += 1
        started = time.perf_counter()
        try:
            yield entry
        except Exception as error:
            if entry.tripwire is None:
                entry.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            entry.milliseconds += (time.perf_counter() - started) * 1000

    def find(self, processor_id: str, phase: Phase) -> TraceEntry | None:
        """Return the entry of a processor in a phase, or None if it did not act."""
        return self._entries.get((processor_id, phase))


def describe_changes(before: Iterable[Message], after: Iterable[Message]) -> list[str]:
    """Return a short diff of two lists of messages, without their text."""
    old = {message.id: message for message in before}
    new = {message.id: message for message in after}
    added = [f"+ {message.role} {message.id}" for key, message in new.items() if key not in old]
    removed = [f"- {message.role} {message.id}" for key, message in old.items() if key not in new]
    edited = [
        f"~ {message.role} {message.id}: {len(old[key].text)} to {len(message.text)} characters"
        for key, message in new.items()
        if key in old and old[key] is not message and old[key] != message
    ]
    return removed + edited + added


def describe_tool_changes(before: ToolCall | ToolResult, after: Iterable[ToolCall | ToolResult]) -> list[str]:
    """Return a short diff of a tool call or result and the parts that a processor returned for it."""
    name = _tool_name(before)
    others = {_tool_name(part): part for part in after}
    if name not in others and [type(part) for part in others.values()] == [type(before)]:
        return [f"~ {other}" for other in others]  # the id that it had may be what had to go
    same = others.pop(name, None)
    changed = [] if same == before else [f"- {name}" if same is None else f"~ {name}"]
    return changed + [f"+ {other}" for other in others]


def _tool_name(part: ToolCall | ToolResult) -> str:
    return f"call {part.id}" if isinstance(part, ToolCall) else f"result {part.call_id}"
