"""The interface of a long-term memory: it recalls before a run and persists after it.

A backend knows nothing of processors, and of a run only its prompt and answer. `backends.processor` puts it
into the pipeline, after the guards on both sides. A backend's audit log is a list of
hidden events in the store, filed under the session that they are about.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

from recollect.errors import StorageError
from recollect.messages import FramePart, Message, TextPart
from recollect.pipeline.context import RunIds
from recollect.scope import UNSET, Scope, encode_tenant
from recollect.storage.opening import StoreHandle
from recollect.text.quoting import BULLET, indent_lines, neutralise

Owner: TypeAlias = tuple[str, str | None]
"""Whose run it is: the tenant's key, and the user's id; None if the run names no user."""


def get_owner(ids: RunIds) -> Owner:
    """Return whose run it is; a run that names no tenant belongs to the system."""
    return encode_tenant(None if ids.tenant_id is UNSET else ids.tenant_id), ids.user_id


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run before the model call; the guards have already passed the prompt."""

    session_id: str
    run_id: str
    prompt: str
    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class RecalledItem:
    """One recalled text and its source; fields that the memory does not know are None."""

    text: str
    id: str | None = None
    session_id: str | None = None
    score: float | None = None
    source_scope: str | None = None
    resource_uri: str | None = None


@dataclass(frozen=True, slots=True)
class NoteBlock:
    """Curated notes under a heading, safe to show to the model."""

    heading: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recollection:
    """What a memory recalls for a run.

    `blocks` are curated notes for the system prompt. `items` are quoted to the model as untrusted reference,
    in a separate message that is never stored. `problems` say what could not be read; the run continues
    without it.
    """

    blocks: tuple[NoteBlock, ...] = ()
    items: tuple[RecalledItem, ...] = ()
    problems: tuple[StorageError, ...] = ()

    @property
    def snapshot(self) -> str:
        """The text of the curated notes as the model sees it."""
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
    """A run that completed normally: prompt, answer and all messages of the turn, after the guards.

    The answer is the text of the last step; it is empty if the model ended with a tool or with nothing. The
    prompt is empty if it has no text.
    """

    session_id: str
    run_id: str
    prompt: str
    answer: str
    asked_at: datetime
    answered_at: datetime
    messages: tuple[Message, ...] = ()
    owner: Owner | None = None


@runtime_checkable
class MemoryBackend(Protocol):
    """A long-term memory that a runtime can be given."""

    name: str
    rule: str
    """What the system prompt says about this memory: a constant text that quotes no memory."""

    async def recall_before_run(self, run: StartedRun) -> Recollection:
        """Return what the model should know for this prompt."""
        ...

    async def persist_after_run(self, run: CompletedRun) -> object:
        """Store what should be remembered of the run; it has passed all guards.

        The backend decides what of the run is worth keeping; it returns False if nothing was.
        """
        ...

    def get_tools(self) -> Sequence[Callable[..., object]]:
        """Return the tools with which the model changes this memory; every call returns the same ones."""
        ...

    def status(self) -> dict[str, object]:
        """Return the configuration as JSON, without secrets."""
        ...

    async def close(self) -> None:
        """Close connections and files."""
        ...


class AuditLog(Protocol):
    """Records what a backend did, as hidden events of the session, without credentials."""

    async def record(self, name: str, payload: Mapping[str, object], *, session_id: str, run_id: str) -> None:
        """Write one event; raises if that fails, and the backend does not swallow the error."""
        ...


class StoreAudit:
    """An `AuditLog` that writes to the store, for one user."""

    def __init__(self, handle: StoreHandle, user: Scope) -> None:
        self._handle = handle
        self._user = user

    async def record(self, name: str, payload: Mapping[str, object], *, session_id: str, run_id: str) -> None:
        """Write one event of a session; it is on disk when this returns."""
        store = await self._handle.get()
        await store.add_event(name, payload, run_id=run_id, scope=self._user.with_thread(session_id))
