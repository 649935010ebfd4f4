"""What the store hands out besides messages: plain values, one class a kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from recollect.validation import as_json

DEFAULT_TITLE = "New Conversation"
"""The title of a thread that was given none."""


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation of one user.

    `updated_at` moves with every change, `last_message_at` is the time of the newest message,
    and `message_count` counts messages of every role.
    """

    id: str
    tenant_id: int | None
    user_id: str
    app_id: str
    project_id: str
    title: str
    metadata: Mapping[str, object]
    created_at: datetime
    updated_at: datetime
    last_message_at: datetime | None
    message_count: int

    def to_dict(self) -> dict[str, object]:
        """Return the thread as JSON."""
        return {name: as_json(getattr(self, name)) for name in Thread.__slots__}


class Placed(NamedTuple):
    """Where a message was put: its order number in the thread, and its integer id."""

    position: int
    number: int


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One value of a user's memory."""

    number: int
    key: str
    value: dict[str, object]
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class StateEntry:
    """The mode that a user is in."""

    mode: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """Something that was done for a run, written down for people; no model is ever shown it."""

    number: int
    thread_id: str
    name: str
    payload: Mapping[str, object]
    run_id: str | None
    created_at: datetime
    context_visible: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the event as JSON."""
        return {name: as_json(getattr(self, name)) for name in AuditEvent.__slots__}


class SearchRow(NamedTuple):
    """What search knows of a message: where it stands, who said it when, and its terms.

    The time is in microseconds since 1970. `speaker` is the name in the message's metadata, if it has one;
    `asks` says whether the text holds a question mark.
    Terms are hashes (uint32) in order, and one byte of count for each.
    """

    number: int
    app_id: str
    project_id: str
    thread_id: str
    position: int
    created_at: int
    speaker: str | None
    asks: bool
    term_hashes: bytes
    term_counts: bytes


class VectorRow(NamedTuple):
    """What an embedder made of a message; `stamp` is higher than that of every earlier write."""

    stamp: int
    number: int
    model_id: str
    dimensions: int
    spans: bytes
    vectors: bytes


class MessageVectors(NamedTuple):
    """Vectors on their way to a message: a span (two uint32) and a vector (float16) for each piece."""

    number: int
    spans: bytes
    vectors: bytes


class SearchChanges(NamedTuple):
    """What is new for search since the last look, and the epoch that the user has."""

    epoch: int
    rows: list[SearchRow]
    vectors: list[VectorRow]


class Waiting(NamedTuple):
    """A message that waits for vectors."""

    number: int
    text: str


class VectorModel(NamedTuple):
    """What made a vector: an embedder's model, and how long its vectors are."""

    model_id: str
    dimensions: int


class Unembedded(NamedTuple):
    """Messages that wait for vectors, the epoch that the user has, and the model of the newest vector."""

    epoch: int
    newest_model: VectorModel | None
    messages: list[Waiting]


@dataclass(frozen=True, slots=True)
class EraseReport:
    """What an erasure removed, by kind, and the epoch that the user has from now on."""

    counts: Mapping[str, int]
    epoch: int

    @property
    def total(self) -> int:
        """How many rows were removed."""
        return sum(self.counts.values())
