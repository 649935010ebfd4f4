"""Stores to search: one user with many messages and a vector for each, alone or among others.

The vectors are random, because embedding a hundred thousand texts would take half an hour. How long a search
takes does not depend on what is in them.
"""

from typing import TYPE_CHECKING

import numpy as np

from recollect.bench.fill import Owner, crowd
from recollect.recall.embedding.embedder import Embedding
from recollect.storage.records import MessageVectors
from recollect.storage.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOTE = (
    "The searched user's messages are made up and their vectors are random; the messages of other users have "
    "no vectors."
)
"""What a reader has to know of these stores."""

DIMENSIONS = 384
"""How long the vectors are: as long as those of the built-in embedder."""

SEARCHED = Owner("searched", 0).thread(0)
"""The user who is searched, in the thread that asks."""

_AT_ONCE = 1_000
_SPAN = np.array([0, 200], dtype="<u4").tobytes()


def unit_vectors(count: int, seed: int = 5) -> "NDArray[np.float32]":
    """Return random vectors of length 1."""
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSIONS), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ready_embedder(model_id: str) -> Embedding:
    """Return an embedder that takes no time: it has one vector, for whatever is asked."""
    vector = unit_vectors(1, seed=6)[0]

    async def embed_query(_: str) -> object:
        return vector

    async def embed_documents(texts: list[str]) -> object:
        return [vector for _ in texts]

    return Embedding(embed_query, embed_documents, model_id, DIMENSIONS)


def owners(messages: int, others: int = 0) -> list[Owner]:
    """Return the user with so many messages, and as many others as share some more."""
    return [Owner(SEARCHED.user_id, messages), *(crowd(others) if others else ())]


async def add_vectors(store: Store, model_id: str) -> None:
    """Give every message of the user a vector, as if it came from a model."""
    found = await store.search_rows(scope=SEARCHED)
    vectors = unit_vectors(len(found.rows)).astype("<f2")
    items = [
        MessageVectors(row.number, _SPAN, vector.tobytes())
        for row, vector in zip(found.rows, vectors, strict=True)
    ]
    for first in range(0, len(items), _AT_ONCE):
        await store.put_vectors(
            items[first : first + _AT_ONCE],
            model_id=model_id,
            dimensions=DIMENSIONS,
            epoch=found.epoch,
            scope=SEARCHED,
        )
