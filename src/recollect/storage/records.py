"""The values that the store returns besides messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from recollect.validation import as_json

DEFAULT_TITLE = "New Conversation"
"""The title of a thread that was created without one."""


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation of one user.

    `updated_at` changes with every write, `last_message_at` is the time of the last message,
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


class Placement(NamedTuple):
    """Where a message is stored: its position in the thread, and its integer id."""

    position: int
    number: int


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One value of a user's memory, under a key."""

    number: int
    key: str
    value: dict[str, object]
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class StateEntry:
    """The mode of a user, a word that the application chooses."""

    mode: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """Something that was done for a run, recorded for people; no prompt contains it."""

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
    """What search knows of a message: its position, time, speaker and terms.

    `created_at` is in microseconds since 1970. `speaker` is the name in the message's metadata, if any.
    `asks` says whether the text contains a question mark. Terms are sorted hashes (uint32), with one byte of
    count for each.
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
    """The stored vectors of a message; `stamp` is higher than that of every earlier write."""

    stamp: int
    number: int
    model_id: str
    dimensions: int
    spans: bytes
    vectors: bytes


class MessageVectors(NamedTuple):
    """Vectors to store for a message: a span (two uint32) and a vector (float16) for each segment."""

    number: int
    spans: bytes
    vectors: bytes


class SearchChanges(NamedTuple):
    """What is new for search since the last read, and the user's epoch."""

    epoch: int
    rows: list[SearchRow]
    vectors: list[VectorRow]


class UnembeddedMessage(NamedTuple):
    """A message that has no vectors yet."""

    number: int
    text: str


class VectorModel(NamedTuple):
    """The embedding model of a vector, and the length of its vectors."""

    model_id: str
    dimensions: int


class UnembeddedMessages(NamedTuple):
    """Messages without vectors, the user's epoch, and the model of the newest vector."""

    epoch: int
    newest_model: VectorModel | None
    messages: list[UnembeddedMessage]


@dataclass(frozen=True, slots=True)
class EraseReport:
    """How many rows an erasure removed, by kind, and the user's new epoch."""

    counts: Mapping[str, int]
    epoch: int

    @property
    def total(self) -> int:
        """The sum over all kinds."""
        return sum(self.counts.values())
