"""Embedding everything anew, after a change of embedder: user by user, and it can be stopped at any time.

What has a vector of the new model already is passed over, so that a run that was broken off is taken up where
it ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recollect.recall.embedding.indexer import MESSAGES_AT_ONCE, embed_messages
from recollect.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recollect.recall.embedding.embedder import Embedding
    from recollect.storage.store import Store


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
