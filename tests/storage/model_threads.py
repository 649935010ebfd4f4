"""The threads of the model: messages where they stand, with their search rows, until a write removes them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeAlias

from recollect import Message
from recollect.messages import part_to_dict
from recollect.storage.records import MessageTerms, SearchRow, VectorRow
from recollect.storage.rows import to_micros

Place: TypeAlias = tuple[str, str, str]
"""The app, the project and the id of a thread."""

Record: TypeAlias = dict[str, object]
"""One line of an export."""


@dataclass(slots=True)
class KeptMessage:
    """A message where it stands."""

    message: Message
    position: int
    number: int
    run_id: str | None
    expires_at: datetime | None = None
    terms: MessageTerms | None = None
    model_id: str | None = None
    vectors: Sequence[bytes] = ()
    unit: int = 0

    def facts(self, place: Place) -> tuple[object, ...]:
        """Return all that a reader can see of it; compare `facts_of`."""
        return _facts(self.message, place[2], self.position, self.number, self.run_id, self.expires_at)

    @property
    def has_tools(self) -> bool:
        """Whether it is a tool call or a result."""
        return bool(self.message.tool_calls or self.message.tool_results)

    def is_expired(self, now: datetime) -> bool:
        """Whether no reader may see it."""
        return self.expires_at is not None and self.expires_at <= now

    def put_terms(self, terms: MessageTerms, model_id: str | None, *, replaces: bool) -> None:
        """Store terms; vectors take the place of all earlier ones."""
        self.terms = terms
        if terms.vectors or replaces:
            self.vectors, self.model_id = terms.vectors, model_id if terms.vectors else None

    def lacks_rows(self, model_id: str | None, *, any_model: bool) -> bool:
        """Whether it waits for terms or, where a model is named, for a vector."""
        if self.terms is None:
            return True
        if model_id is None or not self.terms.term_hashes:
            return False
        return not self.vectors or not (any_model or self.model_id == model_id)

    def search_row(self, place: Place) -> SearchRow:
        """Return what search reads of it: its terms, or its text where it has none yet."""
        name = self.message.metadata.get("name")
        speaker = name if isinstance(name, str) else None
        time = to_micros(self.message.created_at)
        due = None if self.expires_at is None else to_micros(self.expires_at)
        known = (self.number, *place, self.position, time, due, self.message.role == "assistant", speaker)
        if self.terms is None:
            return SearchRow(*known, None, None, None, self.message.text)
        terms = self.terms
        return SearchRow(*known, terms.asks, terms.term_hashes, terms.term_counts, None)

    def vector_rows(self) -> list[VectorRow]:
        """Return its vectors by segment."""
        return [
            VectorRow(self.number, segment, str(self.model_id), vector)
            for segment, vector in enumerate(self.vectors)
        ]

    def count_rows(self) -> int:
        """Count the rows that the table of search rows has of it."""
        return 0 if self.terms is None else max(1, len(self.vectors))


@dataclass(slots=True)
class KeptThread:
    """A thread with its messages in order, expired ones included that no write has removed."""

    title: str
    metadata: Mapping[str, object]
    created_at: datetime
    updated_at: datetime
    next_position: int = 1
    messages: list[KeptMessage] = field(default_factory=list[KeptMessage])

    def add(
        self, message: Message, number: int, run_id: str | None, expires_at: datetime | None
    ) -> KeptMessage:
        """Put a message at the end."""
        kept = KeptMessage(message, self.next_position, number, run_id, expires_at)
        self.messages.append(kept)
        self.next_position += 1
        return kept

    def live(self, now: datetime) -> "KeptThread":
        """Return the thread as a reader sees it: without what has expired."""
        return replace(self, messages=[kept for kept in self.messages if not kept.is_expired(now)])

    def find(self, message_id: str) -> int | None:
        """Return the index of a message, or None."""
        for index, kept in enumerate(self.messages):
            if kept.message.id == message_id:
                return index
        return None

    def units(self) -> list[int]:
        """Return for each message the index of the first one that must not be separated from it.

        A result belongs to the nearest call of its id before it, with all that stands between.
        """
        starts = list(range(len(self.messages)))
        calls: dict[str, int] = {}
        for index, kept in enumerate(self.messages):
            for result in kept.message.tool_results:
                if result.call_id in calls:
                    start = starts[calls[result.call_id]]
                    starts[: index + 1] = [min(known, start) for known in starts[: index + 1]]
            calls |= {call.id: index for call in kept.message.tool_calls}
        return starts

    def whole_units(self) -> list[list[KeptMessage]]:
        """Return the messages of each unit."""
        units: dict[int, list[KeptMessage]] = {}
        for start, kept in zip(self.units(), self.messages, strict=True):
            units.setdefault(start, []).append(kept)
        return list(units.values())

    def settle_units(self) -> None:
        """Note the unit of each message, and have the messages of a unit expire with the first of them."""
        for unit in self.whole_units():
            due = min((kept.expires_at for kept in unit if kept.expires_at is not None), default=None)
            for kept in unit:
                kept.expires_at, kept.unit = due, unit[0].position

    def whole(self, first: int, end: int) -> list[KeptMessage]:
        """Return the messages from an index up to another, with the rest of the units at both ends."""
        if first >= end:
            return []
        starts = self.units()
        first = starts[first]
        while end < len(starts) and starts[end] == starts[end - 1]:
            end += 1
        return self.messages[first:end]

    def up_to(self, end: int, limit: int | None) -> list[KeptMessage]:
        """Return the last messages before an index."""
        return self.whole(0 if limit is None else max(end - limit, 0), end)

    def remove(self, gone: Iterable[KeptMessage], time: datetime | None = None) -> int:
        """Remove messages, at a time if somebody did so; return how many there were."""
        numbers = {kept.number for kept in gone}
        if numbers:
            self.messages = [kept for kept in self.messages if kept.number not in numbers]
            self.updated_at = time or self.updated_at
        return len(numbers)

    @property
    def last_message_at(self) -> datetime | None:
        """The time of the message that stands last."""
        return self.messages[-1].message.created_at if self.messages else None

    def record(self, place: Place) -> Record:
        """Return its line of an export."""
        return {
            "kind": "thread",
            "app_id": place[0],
            "project_id": place[1],
            "id": place[2],
            "title": self.title,
            "metadata": self.metadata,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
            "next_position": self.next_position,
        }


def facts_of(message: Message) -> tuple[object, ...]:
    """Return all that can be seen of a stored message, what `==` leaves out included."""
    place = (message.thread_id, message.position, message.number, message.run_id, message.expires_at)
    return _facts(message, *place)


def message_record(place: Place, kept: KeptMessage) -> Record:
    """Return the line of an export."""
    message = kept.message
    content = message.body if isinstance(message.body, str) else [part_to_dict(part) for part in message.body]
    return {
        "kind": "message",
        "app_id": place[0],
        "project_id": place[1],
        "thread_id": place[2],
        "position": kept.position,
        "id": message.id,
        "role": message.role,
        "origin": message.origin,
        "content": content,
        "metadata": message.metadata,
        "created_at": iso(message.created_at),
        "run_id": kept.run_id,
        "expires_at": None if kept.expires_at is None else iso(kept.expires_at),
    }


def iso(time: datetime) -> str:
    """Return a time as an export has it."""
    return time.astimezone(UTC).isoformat()


def _facts(message: Message, *place: object) -> tuple[object, ...]:
    created_at = message.created_at.astimezone(UTC)
    return (message.id, message.role, message.origin, message.body, message.metadata, created_at, *place)
