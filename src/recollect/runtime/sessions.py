"""Sessions: the threads of one user in the one store, and the memory that an agent has of them."""

import secrets
from collections.abc import Sequence

from recollect.backends.processor import BackendProcessor
from recollect.messages import now
from recollect.processors.base import Processor
from recollect.processors.message_history import MessageHistoryProcessor, MessagePersistenceProcessor
from recollect.runtime.context import ContextBuilder
from recollect.runtime.skills import SkillsProcessor
from recollect.scope import Scope
from recollect.storage.handle import StoreHandle
from recollect.storage.records import Thread


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
