"""Sessions: the threads of one user in the store, and the memory that an agent has of them.

The conversation is the messages of user and assistant, without tool calls and results.
"""

import secrets
from collections.abc import Iterable, Sequence

from recollect.backends.processor import BackendProcessor
from recollect.errors import MemoryNotFoundError
from recollect.memory.history import MessageHistoryProcessor, MessagePersistenceProcessor
from recollect.messages import Message, now
from recollect.pipeline.processor import Processor
from recollect.pipeline.prompt_order import ContextBuilder
from recollect.runtime.sessions.rendering import SessionSummary
from recollect.runtime.skills import SkillsProcessor
from recollect.scope import Scope, TenantId
from recollect.storage.opening import StoreHandle
from recollect.storage.records import AuditEvent, Thread
from recollect.storage.store import Store
from recollect.validation import check_id

_PAGE = 200
_MAX_AROUND = 1_000  # of every role; as many as the store reads around a message
_FIRST_WORDS_LENGTH = 200


def _select_conversation(messages: Iterable[Message]) -> list[Message]:
    """Return the messages of user and assistant that have text."""
    return [message for message in messages if message.is_conversation]


async def read_first(session: Thread, count: int, store: Store, scope: Scope) -> list[Message]:
    """Return the first messages of the conversation."""
    found: list[Message] = []
    for offset in range(0, session.message_count, _PAGE):
        found += _select_conversation(await store.page_of_messages(limit=_PAGE, offset=offset, scope=scope))
        if len(found) >= count:
            break
    return found[:count]


async def read_last(count: int, store: Store, scope: Scope) -> list[Message]:
    """Return the last messages of the conversation."""
    limit = 4 * count
    while True:
        read = await store.last_messages(limit, scope=scope)
        found = _select_conversation(read)
        if len(found) >= count or len(read) < limit:
            return found[-count:]
        limit *= 8


async def read_around(message_id: str, count: int, store: Store, scope: Scope) -> list[Message]:
    """Return a message with up to `count` messages before and after it; an unknown id is an error."""
    reach = 4 * count
    before, found, after = await _read_messages_around(message_id, reach, store, scope)
    # Too few on a side although `reach` was read: tool messages fill the gap, so read further.
    if any(len(_select_conversation(side)) < count and len(side) >= reach for side in (before, after)):
        before, found, after = await _read_messages_around(message_id, _MAX_AROUND, store, scope)
    return [*_select_conversation(before)[-count:], found, *_select_conversation(after)[:count]]


async def _read_messages_around(
    message_id: str, reach: int, store: Store, scope: Scope
) -> tuple[list[Message], Message, list[Message]]:
    read = await store.messages_by_id([message_id], with_previous=reach, with_next=reach, scope=scope)
    for place, message in enumerate(read):
        if message.id == message_id and message.is_conversation:
            return read[:place], message, read[place + 1 :]
    raise MemoryNotFoundError(f"session {scope.thread_id!r:.80} has no message {message_id!r:.80}")


async def read_first_words(session: Thread, store: Store, scope: Scope) -> str:
    """Return the words that a session began with."""
    found = await read_first(session, 1, store, scope)
    return found[0].text[:_FIRST_WORDS_LENGTH] if found else ""


class Sessions:
    """The sessions of a user."""

    def __init__(self, handle: StoreHandle, user: Scope) -> None:
        """Look into a store that is opened when it is first needed."""
        self._handle = handle
        self.user = user

    def new_id(self) -> str:
        """Return an id for a new session; ids sort by the time at which they were made."""
        return f"{now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"

    async def recent(self, limit: int = 20) -> Sequence[Thread]:
        """Return the sessions with the newest messages, the latest first."""
        store = await self._handle.get()
        return await store.list_threads(limit=limit, scope=self.user)

    async def summaries(self, limit: int = 20) -> list[SessionSummary]:
        """Return the same with the words that each began with."""
        store = await self._handle.get()
        return [
            SessionSummary(thread, await read_first_words(thread, store, self._scope(thread.id)))
            for thread in await self.recent(limit)
        ]

    async def find(self, session_id: str) -> Thread | None:
        """Return a session, or None where nothing was said in it yet."""
        store = await self._handle.get()
        return await store.get_thread(scope=self._scope(session_id))

    async def has_run(self, session_id: str, run_id: str) -> bool:
        """Whether the session has stored the turn of a run."""
        store = await self._handle.get()
        return bool(await store.turn_of_run(run_id, scope=self._scope(session_id)))

    async def events_of(self, session_id: str, run_id: str) -> list[AuditEvent]:
        """Return what was written down about a run, the oldest first."""
        store = await self._handle.get()
        return await store.list_events(run_id=run_id, scope=self._scope(session_id))

    def _scope(self, session_id: str) -> Scope:
        return self.user.with_thread(check_id(session_id, "session_id"))


class SessionMemory:
    """What an agent's runs remember: the session so far, and one long-term memory."""

    def __init__(
        self,
        handle: StoreHandle,
        backend: BackendProcessor,
        *,
        last_messages: int,
        tenant_id: TenantId = None,
    ) -> None:
        self._handle = handle
        self._tenant_id = tenant_id
        self._backend = backend
        self._last_messages = last_messages

    def get_input_processors(self) -> list[Processor]:
        """Return what is shown: skills, long-term memory, history, and who puts them in order."""
        history = MessageHistoryProcessor(
            self._handle, last_messages=self._last_messages, tenant_id=self._tenant_id
        )
        return [SkillsProcessor(), self._backend, history, ContextBuilder()]

    def get_output_processors(self) -> list[Processor]:
        """Return what is kept: the turn in its session, and then what long-term memory takes from it."""
        return [MessagePersistenceProcessor(self._handle, tenant_id=self._tenant_id), self._backend]
