"""Embeds stored messages: new ones in the background, all of them after a change of embedder.

Saving never waits for the embedder; until a message has its vector, search finds it by its words. The store
knows which messages have no vector. So a process that ends early loses nothing: the next process that saves
or searches for the user continues. `reindex` skips messages that have a vector of the new model, so an
interrupted run continues where it stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recollect.errors import EmbedderError, RecollectError
from recollect.recall.index.user_index import check_same_model
from recollect.scope import Scope
from recollect.storage.records import MessageVectors, UnembeddedMessages
from recollect.text.segments import split_into_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recollect.recall.embedding.embedder import CheckedEmbedder
    from recollect.storage.store import Store

_log = logging.getLogger("recollect")

MESSAGES_AT_ONCE = 32
"""How many messages are embedded and written in one batch."""

_MAX_USERS = 10_000  # whose progress and errors are remembered
_MAX_FAILURES = 3  # if so many messages fail in a row, the embedder counts as broken
_Key = tuple[int, str]


class Indexer:
    """Embeds the messages of scheduled users, one user at a time."""

    def __init__(self, embedder: CheckedEmbedder) -> None:
        self._embedder = embedder
        self._waiting: OrderedDict[_Key, tuple[Store, Scope]] = OrderedDict()
        self._done_up_to: OrderedDict[_Key, int] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._errors: dict[_Key, RecollectError] = {}

    def schedule(self, scope: Scope, store: Store) -> None:
        """Queue a user who may have messages without vectors; starts the task if none runs."""
        self._waiting[scope.tenant_key, scope.user_id] = (store, scope)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def wait_until_idle(self) -> None:
        """Wait until all scheduled users are done; raise the embedder's last error, if any."""
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)
        if self._errors:
            _, error = self._errors.popitem()
            self._errors.clear()
            raise error

    async def close(self) -> None:
        """Stop; the next process or search continues."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._waiting:
            key, (store, scope) = self._waiting.popitem(last=False)
            try:
                await self._embed_user(key, scope, store)
                self._errors.pop(key, None)  # a later success clears an earlier error
            except RecollectError as error:
                self._keep_error(key, error)
                _log.warning("messages wait for their vectors: %s", error)

    def _keep_error(self, key: _Key, error: RecollectError) -> None:
        self._errors[key] = error
        if len(self._errors) > _MAX_USERS:
            del self._errors[next(iter(self._errors))]

    async def _embed_user(self, key: _Key, scope: Scope, store: Store) -> None:
        """Embed a user's messages without vectors; one that the embedder rejects does not block others."""
        after = self._done_up_to.get(key, 0)
        rejected: EmbedderError | None = None
        while True:
            waiting = await store.without_vectors(
                self._embedder.model_id, after=after, limit=MESSAGES_AT_ONCE, scope=scope
            )
            if not waiting.messages:
                break
            # Vectors of two models cannot be compared: the old ones stay until `reindex` replaces them all.
            if waiting.newest_model is not None:
                check_same_model(waiting.newest_model, self._embedder.model_id, self._embedder.dimensions)
            try:
                stored = await embed_messages(self._embedder, waiting, scope, store)
            except EmbedderError as error:
                rejected = await self._embed_one_by_one(waiting, scope, store, error)
                stored = len(waiting.messages)
            # Fewer are stored if a message was deleted meanwhile; then the batch is read again.
            if stored == len(waiting.messages):
                after = waiting.messages[-1].number
                if rejected is None:
                    self._remember_done(key, after)
        if rejected is not None:
            raise rejected

    async def _embed_one_by_one(
        self, waiting: UnembeddedMessages, scope: Scope, store: Store, error: EmbedderError
    ) -> EmbedderError:
        """Embed the messages of a failed batch one by one; raise if the first few all fail."""
        done = 0
        for place, message in enumerate(waiting.messages):
            try:
                await embed_messages(self._embedder, waiting._replace(messages=[message]), scope, store)
                done += 1
            except EmbedderError as rejected:
                error = rejected
                if not done and place + 1 == min(_MAX_FAILURES, len(waiting.messages)):
                    raise
        return error

    def _remember_done(self, key: _Key, number: int) -> None:
        """Remember that all messages up to a number are done, so that the next read starts there."""
        self._done_up_to[key] = number
        self._done_up_to.move_to_end(key)
        if len(self._done_up_to) > _MAX_USERS:
            self._done_up_to.popitem(last=False)


async def embed_messages(
    embedder: CheckedEmbedder, waiting: UnembeddedMessages, scope: Scope, store: Store
) -> int:
    """Embed messages and store the vectors of those not deleted meanwhile; return how many were stored."""
    segments = [split_into_segments(message.text) for message in waiting.messages]
    texts = [
        message.text[start:end]
        for message, spans in zip(waiting.messages, segments, strict=True)
        for start, end in spans
    ]
    matrix = await embedder.embed_documents(texts)
    found: list[MessageVectors] = []
    first = 0
    for message, spans in zip(waiting.messages, segments, strict=True):
        vectors = matrix[first : first + len(spans)].astype("<f2")
        found.append(
            MessageVectors(message.number, np.array(spans, dtype="<u4").tobytes(), vectors.tobytes())
        )
        first += len(spans)
    return await store.put_vectors(
        found, model_id=embedder.model_id, dimensions=matrix.shape[1], epoch=waiting.epoch, scope=scope
    )


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
    tenant_id: int | None,
    show: Callable[[str, float], None],
) -> ReindexResult:
    """Replace the vectors of all messages of some users by vectors of the embedder's model."""
    done = ReindexResult()
    for number, user_id in enumerate(users):
        scope = Scope(tenant_id, user_id)
        total = await store.count_user_history(scope=scope)

        def tick(share: float, number: int = number, user_id: str = user_id) -> None:
            show(f"user {user_id}", (number + share) / len(users))

        done.messages += await _reindex_user(store, embedder, scope, total, tick)
        done.users += 1
    show("done", 1)
    return done


async def _reindex_user(
    store: Store, embedder: CheckedEmbedder, scope: Scope, total: int, tick: Callable[[float], None]
) -> int:
    written = after = 0
    while True:
        waiting = await store.without_vectors(
            embedder.model_id, after=after, limit=MESSAGES_AT_ONCE, any_model=False, scope=scope
        )
        if not waiting.messages:
            return written
        stored = await embed_messages(embedder, waiting, scope, store)
        written += stored
        if stored == len(waiting.messages):
            after = waiting.messages[-1].number  # otherwise a message was deleted meanwhile: read again
        tick(min(1.0, written / max(total, 1)))


async def users_of(store: Store, tenant_id: int | None) -> list[str]:
    """Return all users of a tenant."""
    found: list[str] = []
    while page := await store.list_users(after=found[-1] if found else None, tenant_id=tenant_id):
        found += page
    return found
