"""Sessions: the threads of one user in the one store, and the memory that an agent has of them."""

import secrets
from collections.abc import Sequence

from recollect.backends.processor import BackendProcessor
from recollect.memory.history import MessageHistoryProcessor, MessagePersistenceProcessor
from recollect.messages import now
from recollect.pipeline.processor import Processor
from recollect.runtime.context import ContextBuilder
from recollect.runtime.sessions.records import SessionSummary
from recollect.runtime.sessions.transcripts import first_words
from recollect.runtime.skills import SkillsProcessor
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle
from recollect.storage.records import AuditEvent, Thread
from recollect.validation import check_id


class Sessions:
    """The sessions of a user."""

    def __init__(self, handle: StoreHandle, user_id: str) -> None:
        """Look into a store that is opened when it is first needed."""
        self._handle = handle
        self.user_id = user_id

    def new_id(self) -> str:
        """Return an id for a new session; ids sort by the time at which they were made."""
        return f"{now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"

    async def recent(self, limit: int = 20) -> Sequence[Thread]:
        """Return the sessions that were talked in last, the latest first."""
        store = await self._handle.get()
        return await store.list_threads(limit=limit, scope=Scope(None, self.user_id))

    async def summaries(self, limit: int = 20) -> list[SessionSummary]:
        """Return the same with the words that each began with."""
        store = await self._handle.get()
        return [
            SessionSummary(thread, await first_words(thread, store, self._scope(thread.id)))
            for thread in await self.recent(limit)
        ]

    async def find(self, session_id: str) -> Thread | None:
        """Return a session, or None where nothing was said in it yet."""
        store = await self._handle.get()
        return await store.get_thread(scope=self._scope(session_id))

    async def has_kept(self, session_id: str, run_id: str) -> bool:
        """Whether the turn of a run is in its session."""
        store = await self._handle.get()
        return bool(await store.turn_of_run(run_id, scope=self._scope(session_id)))

    async def events_of(self, session_id: str, run_id: str) -> list[AuditEvent]:
        """Return what was written down about a run, the oldest first."""
        store = await self._handle.get()
        return await store.list_events(run_id=run_id, scope=self._scope(session_id))

    def _scope(self, session_id: str) -> Scope:
        return Scope(None, self.user_id, check_id(session_id, "session_id"))


class SessionMemory:
    """What an agent's runs remember: the session so far, and one long-term memory."""

    def __init__(self, handle: StoreHandle, backend: BackendProcessor, *, last_messages: int) -> None:
        """Stand for the processors of both, in the place of memory."""
        self._handle = handle
        self._backend = backend
        self._last_messages = last_messages

    def get_input_processors(self) -> list[Processor]:
        """Return what is shown: skills, long-term memory, history, and who puts them in order."""
        history = MessageHistoryProcessor(self._handle, last_messages=self._last_messages)
        return [SkillsProcessor(), self._backend, history, ContextBuilder()]

    def get_output_processors(self) -> list[Processor]:
        """Return what is kept: the turn in its session, and then what long-term memory takes from it."""
        return [MessagePersistenceProcessor(self._handle), self._backend]
