"""Memory: what an agent remembers, and a provider of processors.

A `Memory` goes into an agent's lists beside the guards, or into `memory=`. It opens its store on first use.
Every method takes the ids of a scope as keyword arguments. An id that is left out is the one that the memory
was made with. A memory without a file or a server makes up its own user where it was given none.
"""

import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, Unpack, cast, get_args

from recollect.concurrency.sync_face import PortalHolder
from recollect.errors import InvalidArgumentError
from recollect.memory.base import Owner, OwnerIds, resolve_scope, resolve_tenant
from recollect.memory.history import (
    DEFAULT_LAST_MESSAGES,
    MessageHistoryProcessor,
    MessagePersistenceProcessor,
    expires_after,
    load_messages,
)
from recollect.memory.legacy_processors import LegacyMemoryProcessor, LegacyProcessorAdapter
from recollect.memory.other_threads import OtherThreadsProcessor
from recollect.memory.semantic_recall import SemanticRecallProcessor, new_recaller
from recollect.memory.user_memory import UserMemoryProcessor
from recollect.memory.working_memory import WorkingMemoryProcessor, parse_working_memory_options
from recollect.messages import Message, Role
from recollect.pipeline.context import Ids, RunIds, UserIds, choose_user_id, parse_run_ids
from recollect.pipeline.processor import Processor
from recollect.recall.filters import RecallFilter, Speaker
from recollect.recall.settings import (
    DEFAULT_MAX_TOKENS,
    DEFAULT_THRESHOLD,
    DEFAULT_TOP_K,
    RecallSettings,
    SearchScope,
    parse_recall_settings,
)
from recollect.scope import DEFAULT_THREAD, UNSET, PerCall, Scope, TenantId
from recollect.storage.opening import StoreHandle, StoreLocation
from recollect.storage.records import Thread
from recollect.storage.store import Store
from recollect.validation import Scalar, check_choice, check_flag, check_id, check_int, check_list, check_text
from recollect.working_memory import Strategy, WorkingMemory

if TYPE_CHECKING:
    from recollect.memory.sync import SyncMemory
    from recollect.recall.embedding.indexer import Progress, ReindexResult
    from recollect.recall.recaller import Recaller
    from recollect.recall.results import Backlog, Recall

_MAX_TTL = timedelta(days=365_000)  # the calendar ends with the year 9999
Within: TypeAlias = Literal["user", "thread"]
"""Where a query searches: in all threads of the user, or in one thread."""


class Memory:
    """What an agent remembers: message history, semantic recall, and working memory about the user."""

    def __init__(  # noqa: PLR0913 - one for each part, all by keyword
        self,
        store: StoreLocation | None = None,
        *,
        last_messages: int | bool | None = DEFAULT_LAST_MESSAGES,
        other_threads: int = 0,
        semantic_recall: bool | Mapping[str, Any] | RecallSettings = False,
        embedder: object = UNSET,
        working_memory: object = None,
        user_memory: bool = False,
        threads: Sequence[str | Thread] = (),
        processors: Sequence[LegacyMemoryProcessor] = (),
        ttl: timedelta | None = None,
        tenant_id: TenantId | PerCall = None,
        user_id: str | None = None,
        resource_id: str | None = None,
        thread_id: str | None = None,
    ) -> None:
        """Choose the store, what the model is shown, and the default ids.

        `last_messages` is how many messages of the thread the model is shown (False: none), `other_threads`
        how many of the user's other threads. `semantic_recall` finds messages related to the prompt;
        `embedder` compares their meanings (None: search by words alone). `working_memory` is a template, a
        Pydantic model class, or a dict of options of `WorkingMemoryProcessor`. `user_memory` shows what
        `users.set_memory` has stored about the user. Missing `threads` are created, named by their ids.
        Messages expire after `ttl`: then no read returns them, and a later write removes them.

        On a file or a server a memory needs `user_id` (`resource_id` means the same), here or with each call.
        It belongs to one tenant, `tenant_id` (a positive int, a text or None; 1 and "1" are the same), or
        with `PER_CALL` to the tenant that each call names.
        """
        self.portals = PortalHolder("memory")
        self._entered = 0
        self._recall = parse_recall_settings(semantic_recall)
        self._embedder = embedder
        self._recaller: Recaller | None = None
        self._handle = StoreHandle(store, prepare=self._create_threads if threads else None)
        given = Owner(tenant_id, choose_user_id(user_id, resource_id), thread_id)
        self._owner = _fill_in_ids(given, is_in_memory=self._handle.is_in_memory)
        if threads:
            self._resolve_scope(RunIds())  # raises now if a user is missing
        self._last_messages = _check_last_messages(last_messages)
        self._other_threads = check_int(other_threads, "other_threads")
        self._ttl = _check_ttl(ttl)
        options = parse_working_memory_options(working_memory)
        self._working_memory = (
            None if options is None else WorkingMemoryProcessor(self._handle, **options, **self._ids())
        )
        self._shows_user_memory = check_flag(user_memory, "user_memory")
        self._threads = tuple(_check_thread(thread) for thread in check_list(threads, "threads"))
        self._legacy_processors = _check_legacy(processors)
        if processors:
            warnings.warn(
                "Memory(processors=…) is deprecated; put processors into the agent's lists instead "
                "(see docs/migration.md)",
                DeprecationWarning,
                stacklevel=2,
            )

    def get_input_processors(self) -> list[Processor]:
        """Return the processors that read: other threads, history, recall and working memory."""
        ids = self._ids()
        found: list[Processor] = []
        if self._other_threads:
            found.append(OtherThreadsProcessor(self._handle, last_messages=self._other_threads, **ids))
        found.append(MessageHistoryProcessor(self._handle, last_messages=self._last_messages, **ids))
        if self._recall is not None:
            found.append(self._make_recall_processor(self._recall))
        if self._shows_user_memory:
            found.append(UserMemoryProcessor(self._handle, **ids))
        if self._working_memory is not None:
            found.append(self._working_memory)
        if self._legacy_processors:
            found.append(LegacyProcessorAdapter(self._legacy_processors))
        return found

    def get_output_processors(self) -> list[Processor]:
        """Return the processors that write: the turn, and the working memory learned from it."""
        on_saved = self._on_saved if self._recall is not None else None
        turn = MessagePersistenceProcessor(self._handle, on_saved=on_saved, ttl=self._ttl, **self._ids())
        # Working memory comes first: it must read the user's epoch before the turn is written.
        return [turn] if self._working_memory is None else [self._working_memory, turn]

    def get_tools(self) -> list[Callable[..., object]]:
        """Return the tools for the model; an agent adds those of its memory by itself."""
        return [] if self._working_memory is None else [*self._working_memory.get_tools()]

    async def get_messages(
        self, limit: int | None = None, *, before: str | None = None, **ids: Unpack[Ids]
    ) -> list[Message]:
        """Return the newest messages of a thread, oldest first; an unknown thread has none.

        `before` is the id of a message: then those right before it, to page back through a thread.
        """
        store, scope = await self._open(**ids)
        if before is not None:
            return await store.messages_before(before, limit, scope=scope)
        return await store.last_messages(limit, scope=scope)

    async def remember_messages(
        self,
        last: int | None = None,
        *,
        include: Sequence[str] = (),
        with_previous: int = 0,
        with_next: int = 0,
        **ids: Unpack[Ids],
    ) -> list[Message]:
        """Return the last messages of a thread, and those in `include` with their neighbours."""
        store, scope = await self._open(**ids)
        limit = self._last_messages if last is None else last
        found = await store.last_messages(limit, scope=scope)
        if include:
            around = await store.messages_by_id(
                include, with_previous=with_previous, with_next=with_next, scope=scope
            )
            known = {message.id for message in found}
            found = [message for message in around if message.id not in known] + found
        return sorted(found, key=lambda message: message.position or 0)

    async def save_messages(
        self, messages: Iterable[Message], *, expires_at: datetime | None = None, **ids: Unpack[Ids]
    ) -> list[Message]:
        """Append messages to a thread, all or none, and return them as stored."""
        given = check_list(messages, "messages")
        if not given:
            return []
        store, scope = await self._open(**ids)
        if self._recall is not None:
            self._get_recaller()  # now: what it raises or warns of must not come after the write
        due = expires_after(self._ttl, store) if expires_at is None else expires_at
        await store.append_turn(given, scope=scope, expires_at=due)
        self._on_saved(scope, store)
        return await load_messages([message.id for message in given], store, scope)

    async def add_message(
        self,
        role: Role,
        content: str,
        *,
        metadata: Mapping[str, object] | None = None,
        id: str | None = None,  # noqa: A002 - the message's own name for it
        created_at: datetime | None = None,
        expires_at: datetime | None = None,
        **ids: Unpack[Ids],
    ) -> Message:
        """Append one message to a thread and return it; one whose id the thread has is returned as stored."""
        message = Message(role, content, id=id, metadata=metadata, created_at=created_at)
        stored = await self.save_messages([message], expires_at=expires_at, **ids)
        return stored[0] if stored else message  # nothing, if it was deleted or has expired at once

    async def delete_messages(self, ids_or_messages: Iterable[str | Message], **ids: Unpack[Ids]) -> int:
        """Delete messages with the tool results that belong to them; return how many were deleted."""
        items = check_list(ids_or_messages, "ids_or_messages")
        names = [
            item.id if isinstance(item, Message) else check_id(item, "ids_or_messages") for item in items
        ]
        store, scope = await self._open(**ids)
        return await store.delete_messages(names, scope=scope)

    async def create_thread(
        self, *, title: str | None = None, metadata: Mapping[str, object] | None = None, **ids: Unpack[Ids]
    ) -> Thread:
        """Create a thread, or return the existing one."""
        store, scope = await self._open(**ids)
        return await store.create_thread(title=title, metadata=metadata, scope=scope)

    async def save_thread(
        self, *, title: str | None = None, metadata: Mapping[str, object] | None = None, **ids: Unpack[Ids]
    ) -> Thread:
        """Create a thread, or update the existing one."""
        store, scope = await self._open(**ids)
        await store.create_thread(title=title, metadata=metadata, scope=scope)
        return await store.update_thread(title=title, metadata=metadata, scope=scope)

    async def update_thread(
        self, *, title: str | None = None, metadata: Mapping[str, object] | None = None, **ids: Unpack[Ids]
    ) -> Thread:
        """Update the title or the metadata of a thread; None leaves a value as it is."""
        store, scope = await self._open(**ids)
        return await store.update_thread(title=title, metadata=metadata, scope=scope)

    async def get_thread_by_id(self, thread_id: str | None = None, **ids: Unpack[UserIds]) -> Thread | None:
        """Return a thread, or None."""
        store, scope = await self._open(thread_id=thread_id, **ids)
        return await store.get_thread(scope=scope)

    async def list_threads(
        self, *, limit: int | None = None, offset: int = 0, **ids: Unpack[Ids]
    ) -> list[Thread]:
        """Return the user's threads, the one with the latest message first."""
        store, scope = await self._open(**ids)
        return await store.list_threads(limit=limit, offset=offset, scope=scope)

    async def delete_thread(self, thread_id: str, **ids: Unpack[UserIds]) -> bool:
        """Delete a thread with all its messages; return whether it existed."""
        store, scope = await self._open(thread_id=check_id(thread_id, "thread_id"), **ids)
        return await store.delete_thread(scope=scope)

    async def query(  # noqa: PLR0913 - options and filters by keyword
        self,
        question: str,
        *,
        top_k: int = DEFAULT_TOP_K,
        threshold: float | None = DEFAULT_THRESHOLD,
        within: Within = "user",
        message_range: int | Mapping[str, int] = 1,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        explain: bool = False,
        role: Speaker | None = None,
        thread_ids: Sequence[str] | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        metadata: Mapping[str, Scalar] | None = None,
        as_of: datetime | None = None,
        **ids: Unpack[Ids],
    ) -> "Recall":
        """Search the messages for a question, best hit first; an empty question finds nothing.

        `within` is "user" for all of the user's threads, or "thread". With `explain` each hit has its scores.
        Every hit satisfies the filters, from `role` to `as_of` (see `RecallFilter`); `app_id` and
        `project_id` are ids. The messages around a hit are there whatever the filters, except for `as_of`.
        """
        filters = RecallFilter(role, thread_ids, after, before, metadata, as_of)
        check_choice(within, "within", get_args(Within))
        searched: SearchScope = "thread" if within == "thread" else "resource"
        settings = RecallSettings(top_k, threshold, searched, message_range, max_tokens)
        check_text(question, "question")
        _, scope = await self._open(**ids)
        return await self._get_recaller().search(
            question, settings, scope=scope, explain=explain, filters=filters
        )

    async def get_working_memory(self, **ids: Unpack[Ids]) -> WorkingMemory:
        """Return the working memory of the user or the thread; fields read as keys or as attributes."""
        store, scope = await self._open_working_memory(**ids)
        return self._add_fields(await store.get_working_memory(scope=scope))

    async def update_working_memory(
        self,
        patch: dict[str, object],
        *,
        strategy: Strategy = "merge",
        expected_version: int | None = None,
        **ids: Unpack[Ids],
    ) -> WorkingMemory:
        """Update working memory: None deletes a field, a list replaces one, all other fields stay.

        If `expected_version` is not the current version, it raises `ConflictError` and changes nothing.
        """
        store, scope = await self._open_working_memory(**ids)
        own = self._working_memory
        changed = await store.update_working_memory(
            patch,
            strategy=strategy,
            expected_version=expected_version,
            check=None if own is None else own.fields.validate,
            scope=scope,
        )
        return self._add_fields(changed)

    async def working_memory_history(
        self, *, limit: int | None = None, **ids: Unpack[Ids]
    ) -> list[WorkingMemory]:
        """Return the stored versions of working memory, the newest first."""
        store, scope = await self._open_working_memory(**ids)
        found = await store.working_memory_history(limit=limit, scope=scope)
        return [self._add_fields(version) for version in found]

    async def restore_working_memory(self, version: int, **ids: Unpack[Ids]) -> WorkingMemory:
        """Write an earlier version of working memory again, as a new version."""
        store, scope = await self._open_working_memory(**ids)
        return self._add_fields(await store.restore_working_memory(version, scope=scope))

    async def clear_working_memory(self, **ids: Unpack[Ids]) -> int:
        """Delete working memory with all its versions; return how many there were."""
        store, scope = await self._open_working_memory(**ids)
        return await store.clear_working_memory(scope=scope)

    async def backlog(self, **ids: Unpack[Ids]) -> "Backlog":
        """Count what waits for the background work of search: messages of the user, and other users."""
        _, scope = await self._open(**ids)
        return await self._get_recaller().count_backlog(scope)

    async def ping(self) -> None:
        """Return if the store can be opened and read, for readiness checks; raise `StorageError` if not."""
        await (await self._handle.get()).ping()

    async def prepare(self) -> None:
        """Open the store now, and load the offline embedder if recall uses one; the first use would."""
        await self._handle.get()
        if self._recall is not None:
            await self._get_recaller().prepare()

    async def settled(self, *, progress: "Progress | None" = None) -> None:
        """Wait for background tasks: updates of working memory, and search rows of messages.

        `progress(done, total)` is called with counts of messages while they are embedded. What the embedder
        raised is raised here.
        """
        if self._working_memory is not None:
            await self._working_memory.wait_until_idle()
        if self._recaller is not None:
            await self._recaller.wait_until_idle(progress)

    async def reindex(self, *, progress: "Progress | None" = None, **ids: Unpack[UserIds]) -> "ReindexResult":
        """Replace the vectors of other models by those of this memory's embedder, after a change of it.

        They are those of the user, or of all users of the tenant where neither the call nor the memory names
        one. You can stop it and call it again. `progress(done, total)` gets counts of messages.
        """
        run = parse_run_ids(Ids(**ids))
        user_id = run.user_id or self._owner.user_id
        if user_id is not None:
            user_id = self._resolve_scope(run).user_id  # checked
        tenant_id = resolve_tenant(run, self._owner)
        return await self._get_recaller().reindex(user_id, tenant_id=tenant_id, progress=progress)

    async def close(self) -> None:
        """Finish updates of working memory, stop indexing, and close the store if this memory opened it."""
        if self._working_memory is not None:
            await self._working_memory.wait_until_idle()
        if self._recaller is not None:
            await self._recaller.close()
        await self._handle.close()

    @property
    def is_entered(self) -> bool:
        """Whether an `async with` block of the memory, or of an agent that has it, is running."""
        return self._entered > 0

    async def __aenter__(self) -> Self:
        """Open the store, so that a wrong path or URL is an error here."""
        await self._handle.get()
        self._entered += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the memory when the last `async with` block ends."""
        self._entered -= 1
        if not self.is_entered:
            await self.close()

    @property
    def sync(self) -> "SyncMemory":
        """The same methods for sync code."""
        from recollect.memory.sync import SyncMemory

        return SyncMemory(self, self.portals)

    def _ids(self) -> OwnerIds:
        own = self._owner
        return {"tenant_id": own.tenant_id, "user_id": own.user_id, "thread_id": own.thread_id}

    def _get_recaller(self) -> "Recaller":
        if self._recaller is None:
            self._recaller = new_recaller(self._handle, self._embedder)
        return self._recaller

    def _make_recall_processor(self, settings: RecallSettings) -> Processor:
        return SemanticRecallProcessor(
            self._handle,
            recaller=self._get_recaller(),
            top_k=settings.top_k,
            threshold=settings.threshold,
            scope=settings.scope,
            message_range=settings.message_range,
            max_tokens=settings.max_tokens,
            **self._ids(),
        )

    def _on_saved(self, scope: Scope, store: Store) -> None:
        if self._recall is not None:
            self._get_recaller().schedule_indexing(scope, store)

    async def _open(self, **ids: Unpack[Ids]) -> tuple[Store, Scope]:
        scope = self._resolve_scope(parse_run_ids(ids))
        return await self._handle.get(), scope

    async def _open_working_memory(self, **ids: Unpack[Ids]) -> tuple[Store, Scope]:
        store, scope = await self._open(**ids)
        own = self._working_memory
        return store, scope.with_thread(None) if own is None else own.get_memory_scope(scope)

    def _add_fields(self, memory: WorkingMemory) -> WorkingMemory:
        return (
            memory if self._working_memory is None else memory.with_fields(self._working_memory.fields.names)
        )

    def _resolve_scope(self, ids: RunIds) -> Scope:
        # Never None here: a memory always has a thread.
        return cast("Scope", resolve_scope(ids, self._owner, is_in_memory=self._handle.is_in_memory))

    async def _create_threads(self, store: Store) -> None:
        scope = self._resolve_scope(RunIds())
        for thread_id, title, metadata in self._threads:
            await store.create_thread(title=title, metadata=metadata, scope=scope.with_thread(thread_id))


def _fill_in_ids(given: Owner, *, is_in_memory: bool) -> Owner:
    """Fill in missing ids; a made-up user is never written to a file or a server."""
    if given.user_id is None and is_in_memory:
        own = f"memory-{secrets.token_hex(8)}"
        return replace(given, user_id=own, thread_id=given.thread_id or own)
    return replace(given, thread_id=given.thread_id or DEFAULT_THREAD)


def _check_thread(thread: str | Thread) -> tuple[str, str | None, Mapping[str, object] | None]:
    """Return the id of a thread, and the title and metadata to create it with."""
    if isinstance(thread, Thread):
        return thread.id, thread.title, thread.metadata
    return check_id(thread, "threads"), None, None


def _check_last_messages(last_messages: int | bool | None) -> int | None:  # noqa: FBT001 - own value
    if last_messages is True or last_messages is False:
        return DEFAULT_LAST_MESSAGES if last_messages else 0
    return None if last_messages is None else check_int(last_messages, "last_messages")


def _check_ttl(ttl: object) -> timedelta | None:
    if ttl is not None and not (isinstance(ttl, timedelta) and timedelta(0) < ttl <= _MAX_TTL):
        raise InvalidArgumentError(
            "ttl", f"must be a positive timedelta of at most {_MAX_TTL.days:,} days, not {ttl!r:.60}"
        )
    return ttl


def _check_legacy(processors: Sequence[LegacyMemoryProcessor]) -> tuple[LegacyMemoryProcessor, ...]:
    for item in cast("list[object]", check_list(processors, "processors")):
        if isinstance(item, type) or not callable(getattr(item, "process", None)):
            raise InvalidArgumentError(
                "processors",
                f"a {type(item).__name__} has no method process(messages, …); put a Processor into "
                "the agent's lists",
            )
    return tuple(processors)
