"""Writes the search rows of stored messages: new ones in the background, all of them for a new embedder.

Saving waits neither for the analyser nor for the embedder; until a message has its rows, search reads its
text, and until it has its vector, search finds it by its words. A search has the newest messages embedded
ahead of the queue, and waits a moment for them. The store knows which messages lack
something. So a process that ends early loses nothing: the next process that saves or searches for the user
continues. `reindex` skips messages that have a vector of the new model, so an interrupted run continues where
it stopped.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakValueDictionary

from recollect.concurrency.threads import run_by_size
from recollect.errors import EmbedderError, RecollectError, StoreMisuseError
from recollect.recall.index.user_index import check_same_model
from recollect.scope import Scope, TenantId
from recollect.storage.records import MessageTerms, UnindexedMessage, UnindexedMessages
from recollect.text.segments import analyse_segments, get_segment
from recollect.text.terms import has_question_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recollect.recall.embedding.embedder import CheckedEmbedder
    from recollect.storage.store import Store

_log = logging.getLogger("recollect")

Progress: TypeAlias = "Callable[[int, int], None]"
"""Is called with the number of messages that are done, and of all."""

MESSAGES_AT_ONCE = 32
"""How many messages are embedded and written in one batch."""

_FEW_AT_ONCE = 4  # in a batch that a search waits for: two turns, in time even on a busy machine
_PROGRESS_SECONDS = 0.1  # between two reports of progress
_MAX_USERS = 10_000  # whose progress and errors are remembered
_MAX_FAILURES = 3  # if so many messages fail in a row, the embedder counts as broken
_Key = tuple[str, str]


class Indexer:
    """Indexes the messages of scheduled users, one user at a time; without an embedder only their terms."""

    def __init__(self, embedder: CheckedEmbedder | None) -> None:
        self._embedder = embedder
        self._waiting: OrderedDict[_Key, tuple[Store, Scope]] = OrderedDict()
        self._done_up_to: OrderedDict[_Key, int] = OrderedDict()
        self._terms_up_to: OrderedDict[_Key, int] = OrderedDict()
        self._tried_up_to: OrderedDict[_Key, int] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._current: tuple[Store, Scope] | None = None
        self._ahead: dict[_Key, asyncio.Task[None]] = {}
        # One batch of a user at a time: otherwise a search and the background would embed the same messages.
        self._locks: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()
        self._indexed = 0
        self._errors: dict[_Key, RecollectError] = {}

    @property
    def waiting_users(self) -> int:
        """How many users wait."""
        return len(self._waiting)

    def schedule(self, scope: Scope, store: Store) -> bool:
        """Queue a user who may have messages without search rows; starts the task if none runs.

        Returns False when too many wait already: then the user's next search does it.
        """
        key = _make_key(scope)
        if len(self._waiting) >= _MAX_USERS and key not in self._waiting:
            return False
        self._waiting[key] = (store, scope)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())
        return True

    def embed_newest(
        self, numbers: Sequence[int], scope: Scope, store: Store, *, seconds: float
    ) -> asyncio.Task[None] | None:
        """Embed a user's messages ahead of the queue, the newest first, as many as fit into the time.

        Returns the task, or None if there is nothing that was not tried before. The batch that is under way
        when the time is over goes on, so the caller need not wait for it.
        """
        key, embedder = _make_key(scope), self._embedder
        if embedder is None or not numbers:
            return None
        if key not in self._ahead and numbers[-1] > self._tried_up_to.get(key, 0):
            _remember(self._tried_up_to, key, numbers[-1])
            work = self._embed_newest(embedder, numbers, scope, store, seconds)
            self._ahead[key] = task = asyncio.get_running_loop().create_task(work)
            task.add_done_callback(lambda _: self._ahead.pop(key, None))
        return self._ahead.get(key)

    async def wait_until_idle(self, progress: Progress | None = None) -> None:
        """Wait until all scheduled users are done; raise the embedder's last error, if any."""
        if progress is not None:
            await self._report(progress)
        while running := self._list_running():
            await asyncio.gather(*map(asyncio.shield, running))
        if self._errors:
            _, error = self._errors.popitem()
            self._errors.clear()
            raise error

    def forget_error(self, scope: Scope) -> None:
        """Forget what the embedder raised for a user, because something else has helped."""
        self._errors.pop(_make_key(scope), None)

    async def close(self) -> None:
        """Stop; the next process or search continues."""
        self._waiting.clear()
        running = self._list_running()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _list_running(self) -> list[asyncio.Task[None]]:
        own = [] if self._task is None or self._task.done() else [self._task]
        return [*own, *self._ahead.values()]

    async def _report(self, progress: Progress) -> None:
        """Report how far the work is until it is done; the total is what waits now."""
        before, total = self._indexed, await self._count_waiting()
        done = -1
        while total and (running := self._list_running()):
            if (now := min(self._indexed - before, total)) > done:
                done = now
                progress(done, total)
            await asyncio.wait(running, timeout=_PROGRESS_SECONDS)
        if total and not self._errors:
            progress(total, total)

    async def _count_waiting(self) -> int:
        model_id = None if self._embedder is None else self._embedder.model_id
        waiting = {_make_key(scope): (store, scope) for store, scope in self._waiting.values()}
        if self._current is not None:
            waiting[_make_key(self._current[1])] = self._current
        total = 0
        for store, scope in waiting.values():
            with suppress(StoreMisuseError):  # closed meanwhile: then the work ends too
                total += await store.count_unindexed(model_id, limit=None, scope=scope)
        return total

    def _get_lock(self, key: _Key) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    async def _embed_newest(
        self, embedder: CheckedEmbedder, numbers: Sequence[int], scope: Scope, store: Store, seconds: float
    ) -> None:
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        try:
            for end in range(len(numbers), 0, -_FEW_AT_ONCE):
                before = numbers[max(0, end - _FEW_AT_ONCE)] - 1
                async with self._get_lock(_make_key(scope)):
                    waiting = await _read_unindexed(embedder, scope, store, after=before, limit=_FEW_AT_ONCE)
                    stored = await index_messages(embedder, waiting, scope, store) if waiting.messages else 0
                self._indexed += stored
                if clock() >= until:
                    break
        except RecollectError as error:  # the background meets it again, and reports it
            _log.debug("a search goes on without new vectors: %s", error)

    async def _work(self) -> None:
        while self._waiting:
            key, (store, scope) = self._waiting.popitem(last=False)
            self._current = (store, scope)
            try:
                await self._index_user(key, scope, store)
                self._errors.pop(key, None)  # a later success clears an earlier error
            except StoreMisuseError:
                _log.debug("the store was closed before the background work was done; it continues later")
            except RecollectError as error:
                self._keep_error(key, error)
                waiting_for = "terms" if self._embedder is None else "vectors"
                _log.warning("messages wait for their %s: %s", waiting_for, error)
                with suppress(RecollectError):  # of the store, which the next one meets again
                    await self._index_terms(key, scope, store)
            finally:
                self._current = None

    def _keep_error(self, key: _Key, error: RecollectError) -> None:
        self._errors[key] = error
        if len(self._errors) > _MAX_USERS:
            del self._errors[next(iter(self._errors))]

    async def _index_user(self, key: _Key, scope: Scope, store: Store) -> None:
        """Index what a user's messages lack; one that the embedder rejects does not block others."""
        embedder = self._embedder
        if embedder is None:
            await self._index_terms(key, scope, store)
            return
        after = self._done_up_to.get(key, 0)
        rejected: EmbedderError | None = None
        while True:
            if ahead := self._ahead.get(key):  # a search waits for it
                await asyncio.wait([ahead])
            async with self._get_lock(key):
                waiting = await _read_unindexed(embedder, scope, store, after=after, limit=MESSAGES_AT_ONCE)
                if not waiting.messages:
                    break
                try:
                    stored = await index_messages(embedder, waiting, scope, store)
                except EmbedderError as error:
                    rejected = await _index_one_by_one(embedder, waiting, scope, store, error)
                    stored = len(waiting.messages)
            self._indexed += stored
            # Fewer are stored if a message was deleted meanwhile; then the batch is read again.
            if stored == len(waiting.messages):
                after = waiting.messages[-1].number
                if rejected is None:
                    _remember(self._done_up_to, key, after)
        if rejected is not None:
            raise rejected

    async def _index_terms(self, key: _Key, scope: Scope, store: Store) -> None:
        """Store the terms of all messages of a user that lack them, from where it ended the last time."""
        after = self._terms_up_to.get(key, 0)
        while (waiting := await store.unindexed_messages(None, after=after, scope=scope)).messages:
            stored = await index_messages(None, waiting, scope, store)
            self._indexed += stored  # after the await: a search may have counted meanwhile
            after = waiting.messages[-1].number
        _remember(self._terms_up_to, key, after)


def _make_key(scope: Scope) -> _Key:
    return scope.tenant_key, scope.user_id


def _remember(up_to: OrderedDict[_Key, int], key: _Key, number: int) -> None:
    """Remember up to which message of a user something was done; too many users forget the oldest."""
    up_to[key] = number
    up_to.move_to_end(key)
    if len(up_to) > _MAX_USERS:
        up_to.popitem(last=False)


async def _read_unindexed(
    embedder: CheckedEmbedder, scope: Scope, store: Store, *, after: int, limit: int
) -> UnindexedMessages:
    """Read messages that lack a vector; raise if the user's newest vector is of another model.

    Vectors of two models cannot be compared: the old ones stay until `reindex` replaces them all.
    """
    waiting = await store.unindexed_messages(embedder.model_id, after=after, limit=limit, scope=scope)
    if waiting.messages and waiting.newest_model is not None:
        check_same_model(waiting.newest_model, embedder.model_id, embedder.dimensions)
    return waiting


async def _index_one_by_one(
    embedder: CheckedEmbedder, waiting: UnindexedMessages, scope: Scope, store: Store, error: EmbedderError
) -> EmbedderError:
    """Index the messages of a failed batch one by one; raise if the first few all fail.

    The newest come first: the oldest may be there because the embedder rejects them each time.
    """
    done = 0
    for place, message in enumerate(reversed(waiting.messages)):
        try:
            await index_messages(embedder, waiting._replace(messages=[message]), scope, store)
            done += 1
        except EmbedderError as rejected:
            error = rejected
            if not done and place + 1 == min(_MAX_FAILURES, len(waiting.messages)):
                raise
    return error


async def index_messages(
    embedder: CheckedEmbedder | None,
    waiting: UnindexedMessages,
    scope: Scope,
    store: Store,
    *,
    replace: bool = False,
) -> int:
    """Store the search rows of messages that were not deleted meanwhile; return of how many."""
    found = await _analyse_all(waiting.messages)
    if embedder is not None:
        found = await _add_vectors(embedder, found, [message.text for message in waiting.messages])
    model_id = None if embedder is None else embedder.model_id
    return await store.put_search_rows(
        found, model_id=model_id, erase_epoch=waiting.erase_epoch, replace=replace, scope=scope
    )


async def _analyse_all(messages: Sequence[UnindexedMessage]) -> list[MessageTerms]:
    size = sum(len(message.text) for message in messages)
    return await run_by_size(size, lambda: [_analyse(message) for message in messages])


def _analyse(message: UnindexedMessage) -> MessageTerms:
    terms = analyse_segments(message.text)
    return MessageTerms(message.number, has_question_mark(message.text), terms.hashes, terms.counts)


async def _add_vectors(
    embedder: CheckedEmbedder, found: list[MessageTerms], texts: Sequence[str]
) -> list[MessageTerms]:
    """Return the terms with the vector of the first segment of each text; a text without words has none.

    One vector a message finds more than one for each segment: of many, a long text is near to every question.
    """
    with_words = [item for item in found if item.term_hashes]
    firsts = [
        text[slice(*get_segment(text, 0))]
        for item, text in zip(found, texts, strict=True)
        if item.term_hashes
    ]
    if not firsts:
        return found
    vectors = (await embedder.embed_documents(firsts)).astype("<f2")
    made = {item.number: vector.tobytes() for item, vector in zip(with_words, vectors, strict=True)}
    return [
        dataclasses.replace(item, vectors=[made[item.number]]) if item.number in made else item
        for item in found
    ]


@dataclass(slots=True)
class ReindexResult:
    """How many users were processed, and how many messages were embedded."""

    users: int = 0
    messages: int = 0


async def reindex(
    store: Store,
    embedder: CheckedEmbedder,
    users: Sequence[str],
    *,
    tenant_id: TenantId,
    show: Progress,
) -> ReindexResult:
    """Replace the vectors of all messages of some users by vectors of the embedder's model."""
    scopes = [Scope(tenant_id, user_id) for user_id in users]
    total = 0
    for scope in scopes:
        total += await store.count_unindexed(embedder.model_id, any_model=False, limit=None, scope=scope)
    done = ReindexResult()

    def count(stored: int) -> None:
        done.messages += stored
        show(min(done.messages, total), total)

    for scope in scopes:
        await _reindex_user(store, embedder, scope, count)
        done.users += 1
    show(total, total)
    return done


async def _reindex_user(
    store: Store, embedder: CheckedEmbedder, scope: Scope, count: Callable[[int], None]
) -> None:
    after = 0
    while True:
        waiting = await store.unindexed_messages(
            embedder.model_id, after=after, limit=MESSAGES_AT_ONCE, any_model=False, scope=scope
        )
        if not waiting.messages:
            return
        stored = await index_messages(embedder, waiting, scope, store, replace=True)
        if stored == len(waiting.messages):
            after = waiting.messages[-1].number  # otherwise a message was deleted meanwhile: read again
        count(stored)


async def users_of(store: Store, tenant_id: TenantId) -> list[str]:
    """Return all users of a tenant."""
    found: list[str] = []
    while page := await store.list_users(after=found[-1] if found else None, tenant_id=tenant_id):
        found += [user.user_id for user in page]
    return found
