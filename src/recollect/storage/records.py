"""The values that the store returns besides messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from recollect.scope import TenantId
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
    tenant_id: TenantId
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
    """Where a message is stored: its position in the thread, and its integer id; and whether it is new."""

    position: int
    number: int
    is_new: bool = True


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

    Only what user and assistant said is searched. Times are in microseconds since 1970. `speaker` is the name
    in the message's metadata, if any. `asks` says whether the text contains a question mark. Terms are hashes
    (uint32), with one byte of count for each; see `recollect.text.segments.analyse_segments`. A message that
    nobody has analysed yet has its `text` instead of these three.
    """

    number: int
    app_id: str
    project_id: str
    thread_id: str
    position: int
    created_at: int
    expires_at: int | None
    is_assistant: bool
    speaker: str | None
    asks: bool | None
    term_hashes: bytes | None
    term_counts: bytes | None
    text: str | None


class VectorRow(NamedTuple):
    """The stored vector of a segment of a message."""

    number: int
    segment: int
    model_id: str
    vector: bytes


class SearchChanges(NamedTuple):
    """What is new for search since the last read, and the user's epoch.

    `up_to` is the number at which the page ends, or None if nothing comes after it.
    """

    epoch: int
    rows: list[SearchRow]
    vectors: list[VectorRow]
    up_to: int | None = None


class VectorModel(NamedTuple):
    """The embedding model of a vector, and the length of its vectors."""

    model_id: str
    dimensions: int


class UnindexedMessage(NamedTuple):
    """A message that lacks its search rows, or the vectors in them."""

    number: int
    text: str


class UnindexedMessages(NamedTuple):
    """Messages that lack search rows, the user's erase epoch, and the model of the newest vector."""

    erase_epoch: int
    newest_model: VectorModel | None
    messages: list[UnindexedMessage]


@dataclass(frozen=True, slots=True)
class MessageTerms:
    """The search rows to store for a message: its terms, and a vector (float16) for each segment, if any."""

    number: int
    asks: bool
    term_hashes: bytes
    term_counts: bytes
    vectors: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class UserSummary:
    """What is stored of a user: threads, messages, the bytes of their contents, and the last write."""

    user_id: str
    threads: int
    messages: int
    bytes: int
    last_activity_at: datetime | None

    def to_dict(self) -> dict[str, object]:
        """Return the summary as JSON."""
        return {name: as_json(getattr(self, name)) for name in UserSummary.__slots__}


class PrunedUser(NamedTuple):
    """How many messages of a user are deleted, or would be: old ones, and expired ones."""

    old: int
    expired: int


PurgeState: TypeAlias = Literal["done", "pending", "failed", "not_applicable"]
"""How far a step of purging is; what is pending or failed is tried again when the store is next opened."""


class Purge(NamedTuple):
    """How far traces of deleted rows are removed: from SQLite's log, and from unused parts of its file.

    On PostgreSQL and in memory neither applies: the server's own vacuum does it, or there is no file.
    """

    log: PurgeState
    file: PurgeState


@dataclass(frozen=True, slots=True)
class EraseReport:
    """How many rows an erasure removed, by kind, the user's new epoch, and how far their traces are removed.

    `log` and `file` are those of a `Purge`.
    """

    counts: Mapping[str, int]
    epoch: int
    log: PurgeState = "pending"
    file: PurgeState = "pending"

    @property
    def total(self) -> int:
        """The sum over all kinds."""
        return sum(self.counts.values())
