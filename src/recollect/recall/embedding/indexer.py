"""Embeds stored messages: new ones in the background, all of them after a change of embedder.

Saving never waits for this: a message is found by its words until its vector is there. The store knows what
still waits, so that a process that ends in between loses nothing: the next one that saves or searches for
the user goes on. Embedding everything again passes over what has a vector of the new model, so that a run
that was interrupted continues where it ended.
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
from recollect.text.segments import pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recollect.recall.embedding.embedder import Embedding
    from recollect.storage.store import Store

_log = logging.getLogger("recollect")

MESSAGES_AT_ONCE = 32
"""How many messages are embedded between two writes."""

_MOST_MARKS = 10_000
_TRIES = 3  # so many refused messages in a row, and the embedder is taken to be broken
_Key = tuple[int, str]


class Indexer:
    """Works through the users whose messages lack vectors, one at a time."""

    def __init__(self, embedder: Embedding) -> None:
        """Take the embedder; the work begins when there is some."""
        self._embedder = embedder
        self._waiting: OrderedDict[_Key, tuple[Store, Scope]] = OrderedDict()
        self._done_up_to: OrderedDict[_Key, int] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._errors: dict[_Key, RecollectError] = {}

    def notify(self, scope: Scope, store: Store) -> None:
        """Say that a user may have messages without vectors."""
        self._waiting[scope.tenant_key, scope.user_id] = (store, scope)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def settled(self) -> None:
        """Wait until everything is embedded; raise what kept the embedder from it."""
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)
        if self._errors:
            _, error = self._errors.popitem()
            self._errors.clear()
            raise error

    async def close(self) -> None:
        """Stop; what is left is done another time."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._waiting:
            key, (store, scope) = self._waiting.popitem(last=False)
            try:
                await self._embed_user(key, scope, store)
                self._errors.pop(key, None)  # what failed before was made up for
            except RecollectError as error:
                self._keep_error(key, error)
                _log.warning("messages wait for their vectors: %s", error)

    def _keep_error(self, key: _Key, error: RecollectError) -> None:
        self._errors[key] = error
        if len(self._errors) > _MOST_MARKS:
            del self._errors[next(iter(self._errors))]

    async def _embed_user(self, key: _Key, scope: Scope, store: Store) -> None:
        """Embed what a user's messages lack; those that the embedder refuses hold up no others."""
        after = self._done_up_to.get(key, 0)
        refused: EmbedderError | None = None
        while True:
            waiting = await store.without_vectors(
                self._embedder.model_id, after=after, limit=MESSAGES_AT_ONCE, scope=scope
            )
            if not waiting.messages:
                break
            # Vectors of two models cannot be compared: those of before stay until all are made anew.
            if waiting.newest_model is not None:
                check_same_model(waiting.newest_model, self._embedder.model_id, self._embedder.dimensions)
            try:
                kept = await embed_messages(self._embedder, waiting, scope, store)
            except EmbedderError as error:
                refused = await self._embed_one_by_one(waiting, scope, store, error)
                kept = len(waiting.messages)
            # Fewer are kept if something was removed meanwhile; then the others are looked for again.
            if kept == len(waiting.messages):
                after = waiting.messages[-1].number
                if refused is None:
                    self._mark(key, after)
        if refused is not None:
            raise refused

    async def _embed_one_by_one(
        self, waiting: UnembeddedMessages, scope: Scope, store: Store, error: EmbedderError
    ) -> EmbedderError:
        """Embed the messages of a batch that failed by themselves; if all fail, the embedder is broken."""
        done = 0
        for place, message in enumerate(waiting.messages):
            try:
                await embed_messages(self._embedder, waiting._replace(messages=[message]), scope, store)
                done += 1
            except EmbedderError as refused:
                error = refused
                if not done and place + 1 == min(_TRIES, len(waiting.messages)):
                    raise
        return error

    def _mark(self, key: _Key, number: int) -> None:
        """Remember that everything up to a number is done, so that the next look begins there."""
        self._done_up_to[key] = number
        self._done_up_to.move_to_end(key)
        if len(self._done_up_to) > _MOST_MARKS:
            self._done_up_to.popitem(last=False)


async def embed_messages(embedder: Embedding, waiting: UnembeddedMessages, scope: Scope, store: Store) -> int:
    """Embed messages and keep their vectors, unless they are gone by then; return how many were kept."""
    spans = [pieces(message.text) for message in waiting.messages]
    texts = [
        message.text[start:end]
        for message, cut in zip(waiting.messages, spans, strict=True)
        for start, end in cut
    ]
    matrix = await embedder.documents(texts)
    found: list[MessageVectors] = []
    first = 0
    for message, cut in zip(waiting.messages, spans, strict=True):
        vectors = matrix[first : first + len(cut)].astype("<f2")
        found.append(MessageVectors(message.number, np.array(cut, dtype="<u4").tobytes(), vectors.tobytes()))
        first += len(cut)
    return await store.put_vectors(
        found, model_id=embedder.model_id, dimensions=matrix.shape[1], epoch=waiting.epoch, scope=scope
    )


@dataclass(slots=True)
class Reindexed:
    """What was done: how many users were looked at, and how many messages were embedded."""

    users: int = 0
    messages: int = 0


async def reindex(
    store: Store,
    embedder: Embedding,
    users: Sequence[str],
    *,
    tenant_id: int | None,
    show: Callable[[str, float], None],
) -> Reindexed:
    """Give every message of some users a vector of the embedder's model, in place of other ones."""
    done = Reindexed()
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
    store: Store, embedder: Embedding, scope: Scope, total: int, tick: Callable[[float], None]
) -> int:
    written = after = 0
    while True:
        waiting = await store.without_vectors(
            embedder.model_id, after=after, limit=MESSAGES_AT_ONCE, any_model=False, scope=scope
        )
        if not waiting.messages:
            return written
        kept = await embed_messages(embedder, waiting, scope, store)
        written += kept
        if kept == len(waiting.messages):
            after = waiting.messages[-1].number  # else something was removed meanwhile: look again
        tick(min(1.0, written / max(total, 1)))


async def users_of(store: Store, tenant_id: int | None) -> list[str]:
    """Return all users of a tenant."""
    found: list[str] = []
    while page := await store.list_users(after=found[-1] if found else None, tenant_id=tenant_id):
        found += page
    return found
