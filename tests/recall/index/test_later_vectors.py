"""Vectors that are stored after an index was cached: the next use of the index picks them up."""

from collections.abc import Sequence

import pytest
from tests.support.embedders import Words

from recollect import EmbedderError, Message, Scope, Store
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.indexer import Indexer, reindex
from recollect.recall.index.cache import IndexCache
from recollect.recall.index.user_index import UserIndex
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.storage.opening import StoreHandle

pytestmark = pytest.mark.anyio

ADA = Scope(None, "ada", "t")
FEW = 20
MANY = 520
"""So many vectors are not looked up one by one."""


class Picky(Words):
    """Rejects each text that says so."""

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Fail if such a text is among them."""
        if any("rejected" in text for text in texts):
            raise ValueError("a text is rejected")
        return await super().embed_documents(texts)


async def save(store: Store, texts: Sequence[str]) -> None:
    """Save messages of ada's."""
    await store.append_turn([Message("user", text) for text in texts], scope=ADA)


async def embed(store: Store, embedder: Words) -> None:
    """Have ada's search rows written."""
    indexer = Indexer(as_embedder(embedder))
    indexer.schedule(ADA, store)
    await indexer.wait_until_idle()


async def open_index(cache: IndexCache, store: Store) -> UserIndex:
    """Return ada's index as it is now."""
    async with cache.open_index(ADA, store) as index:
        return index


@pytest.mark.parametrize("count", [1, FEW, MANY])
async def test_vectors_are_picked_up_when_they_come_after_the_index(store: Store, count: int) -> None:
    """The index stays, and has the vector of each message that was embedded meanwhile."""
    cache = IndexCache()
    await save(store, [f"message {n}" for n in range(count)])
    first = await open_index(cache, store)
    assert not first.has_vector.any()
    await embed(store, Words())
    assert await open_index(cache, store) is first
    assert first.has_vector.all()
    await save(store, ["one more"])
    assert (await open_index(cache, store)).has_vector.tolist() == [True] * count + [False]
    await embed(store, Words())
    assert await open_index(cache, store) is first
    assert first.has_vector.all()


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_vectors_are_picked_up_when_an_old_message_never_gets_one(store: Store, count: int) -> None:
    """A message that the embedder rejects for good stays without, and holds up no other."""
    cache = IndexCache()
    await save(store, ["this is rejected", *(f"message {n}" for n in range(count))])
    first = await open_index(cache, store)
    for total in (count, count + 1):
        with pytest.raises(EmbedderError, match="rejected"):
            await embed(store, Picky())
        assert await open_index(cache, store) is first
        assert first.has_vector.tolist() == [False] + [True] * total
        assert first.numbers_without_vector.tolist() == first.numbers[:1].tolist()
        await save(store, ["one more"])
        assert (await open_index(cache, store)).has_vector.tolist() == [False] + [True] * total + [False]


async def test_new_messages_are_embedded_when_several_old_ones_are_rejected(store: Store) -> None:
    """The embedder counts as broken only if it fails for the newest messages too."""
    await save(store, [f"rejected {n}" for n in range(5)])
    with pytest.raises(EmbedderError, match="rejected"):
        await embed(store, Picky())
    await save(store, ["one more", "and another"])
    with pytest.raises(EmbedderError, match="rejected"):
        await embed(store, Picky())
    assert (await open_index(IndexCache(), store)).has_vector.tolist() == [False] * 5 + [True] * 2
    assert await store.count_unindexed(scope=ADA) == 0


async def test_one_vector_of_a_long_message_is_picked_up(store: Store) -> None:
    """A long message that was embedded later has one vector: that of its first segment."""
    cache = IndexCache()
    filler = "Nothing of note happened on that day, and so the diary goes on. " * 30
    await save(store, [f"The cello is in the attic.\n\n{filler}"])
    first = await open_index(cache, store)
    embedder = Words(dimensions=256)
    await embed(store, embedder)
    assert await open_index(cache, store) is first
    assert first.has_vector.tolist() == [True]
    assert [vector.segment for vector in (await store.search_rows(scope=ADA)).vectors] == [0]
    (read,) = embedder.read
    assert read.startswith("The cello is in the attic.")
    assert len(read) < 1_100


async def test_other_caches_read_again_when_vectors_were_replaced(store: Store) -> None:
    """After a reindex no cache mixes the vectors of two models."""
    cache, by_words = IndexCache(), IndexCache(with_vectors=False)
    await save(store, ["The cello is in the attic.", "I take the train."])
    await embed(store, Words("old"))
    first = await open_index(cache, store)
    assert {model.model_id for model in first.models} == {"old"}
    assert (await open_index(by_words, store)).models == set()
    await reindex(store, as_embedder(Words("new", 8)), ["ada"], tenant_id=None, show=lambda _, __: None)
    second = await open_index(cache, store)
    assert second is not first
    assert [tuple(model) for model in second.models] == [("new", 8)]
    assert second.has_vector.all()
    assert (await open_index(by_words, store)).models == set()


async def test_reindex_replaces_the_rows_of_its_own_messages_alone(store: Store) -> None:
    """An interrupted run leaves the vectors of the rest as they were."""
    await save(store, [f"message {n}" for n in range(40)])
    await embed(store, Words("old"))
    with pytest.raises(RuntimeError, match="enough"):
        await reindex(store, as_embedder(Words("new")), ["ada"], tenant_id=None, show=_stop)
    vectors = (await store.search_rows(scope=ADA)).vectors
    assert [vector.model_id for vector in vectors] == ["new"] * 32 + ["old"] * 8


def _stop(_: int, __: int) -> None:
    raise RuntimeError("enough")


async def test_search_by_words_schedules_again_when_the_queue_was_full(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user whom the full queue did not take is queued by the next search."""
    recaller = Recaller(StoreHandle(store), None)
    await save(store, ["The cello is in the attic."])
    with monkeypatch.context() as patch:
        patch.setattr("recollect.recall.embedding.indexer._MAX_USERS", 0)
        assert len(await recaller.search("cello", RecallSettings(), scope=ADA)) == 1
        await recaller.wait_until_idle()
    assert await store.count_unindexed(scope=ADA) == 1
    assert len(await recaller.search("cello", RecallSettings(), scope=ADA)) == 1
    await recaller.wait_until_idle()
    assert await store.count_unindexed(scope=ADA) == 0
    await recaller.close()
