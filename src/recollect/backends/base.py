"""What a long-term memory is to the runtime: it recalls before a run and persists after it.

A backend knows nothing of processors, prompts or models; `backends.processor` puts it into the pipeline,
after the guards on both sides. Its audit log is hidden events in the store, beside the session that they
are about.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from recollect.errors import StorageError
from recollect.messages import FramePart, Message, TextPart
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle
from recollect.text.quoting import BULLET, indent_lines, neutralise


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run before the model is asked: whose it is, and the user's prompt as it left the guards."""

    session_id: str
    run_id: str
    prompt: str


@dataclass(frozen=True, slots=True)
class RecalledItem:
    """One thing that a memory brought back; what it does not know of it is None."""

    text: str
    id: str | None = None
    session_id: str | None = None
    score: float | None = None
    source_scope: str | None = None
    resource_uri: str | None = None


@dataclass(frozen=True, slots=True)
class NoteBlock:
    """Curated notes under a heading, as the model may be shown them."""

    heading: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recollection:
    """What a memory has for a run.

    `blocks` are curated notes that belong into the system prompt. `items` are quoted to the model as
    untrusted reference, in a message of their own that is never kept. `problems` say what it had to do
    without; the run goes on.
    """

    blocks: tuple[NoteBlock, ...] = ()
    items: tuple[RecalledItem, ...] = ()
    problems: tuple[StorageError, ...] = ()

    @property
    def snapshot(self) -> str:
        """The curated notes as the model is shown them."""
        return "\n".join(part.text for part in self.snapshot_parts())

    def snapshot_parts(self) -> list[TextPart]:
        """Return the curated notes as the parts of a message; the headings are its frame."""
        parts: list[TextPart] = []
        for block in self.blocks:
            parts.append(FramePart(f"\n{block.heading}" if parts else block.heading))
            parts += [TextPart(BULLET + neutralise(indent_lines(note))) for note in block.notes]
        return parts


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """A run that ended well, as it left the guards: what was asked and answered, when, and the whole turn."""

    session_id: str
    run_id: str
    prompt: str
    answer: str
    asked_at: datetime
    answered_at: datetime
    messages: tuple[Message, ...] = ()


@runtime_checkable
class MemoryBackend(Protocol):
    """A long-term memory that a runtime can be given."""

    name: str
    rule: str
    """What the system prompt says about this memory; it never changes and quotes nothing."""

    async def recall_before_run(self, run: StartedRun) -> Recollection:
        """Return what the model should know for this prompt."""
        ...

    async def persist_after_run(self, run: CompletedRun) -> None:
        """Keep what the run is to leave behind; it has passed all guards."""
        ...

    def get_tools(self) -> Sequence[Callable[..., object]]:
        """Return the tools by which the model itself changes this memory, the same ones every time."""
        ...

    def status(self) -> dict[str, object]:
        """Return how it is set up, as JSON and without secrets."""
        ...

    async def close(self) -> None:
        """Let go of connections and files."""
        ...


class AuditLog(Protocol):
    """Where a backend writes down what it did: hidden events of the session, without credentials."""

    async def record(self, name: str, payload: Mapping[str, object], *, session_id: str, run_id: str) -> None:
        """Write one event; a failure is raised, and the backend does not swallow it."""
        ...


class StoreAudit:
    """Writes what backends did for one user as events of the store; see `AuditLog`."""

    def __init__(self, handle: StoreHandle, user: Scope) -> None:
        """Write to a store, about a user."""
        self._handle = handle
        self._user = user

    async def record(self, name: str, payload: Mapping[str, object], *, session_id: str, run_id: str) -> None:
        """Write one event of a session; it is on disk when this returns, and a failure is raised."""
        store = await self._handle.get()
        await store.add_event(name, payload, run_id=run_id, scope=self._user.with_thread(session_id))
