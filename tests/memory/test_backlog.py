"""`memory.backlog()`: what waits for the background work of search, counted while it works."""

import pytest
from tests.support.embedders import Broken, Held, Words

from recollect import EmbedderError, Memory, Message, Scope, Store
from recollect.recall.results import Backlog

pytestmark = pytest.mark.anyio

ADA = Scope(None, "ada", "default")
TEXTS = ("The cello is in the attic.", "I take the train.", "\U0001f600")


def memory_of(store: Store, embedder: object) -> Memory:
    """Return ada's memory."""
    return Memory(store, user_id="ada", semantic_recall=True, embedder=embedder)


async def fill(store: Store) -> None:
    """Save ada's messages without scheduling anything."""
    await store.append_turn([Message("user", text) for text in TEXTS], scope=ADA)


async def test_backlog_is_empty_when_nothing_is_stored(store: Store) -> None:
    """A user of whom nothing is known waits for nothing."""
    async with memory_of(store, Words()) as memory:
        assert await memory.backlog() == Backlog(words=0, vectors=0, users=0)


async def test_backlog_counts_words_and_vectors_with_an_embedder(store: Store) -> None:
    """All messages lack both before the work and nothing after it, though one has no word to embed."""
    await fill(store)
    async with memory_of(store, Words()) as memory:
        assert await memory.backlog() == Backlog(words=3, vectors=3, users=0)
        await memory.query("cello")
        await memory.settled()
        assert await memory.backlog() == Backlog(words=0, vectors=0, users=0)


async def test_backlog_counts_words_alone_without_an_embedder(store: Store) -> None:
    """Where nobody embeds, no vector is missing."""
    await fill(store)
    async with memory_of(store, None) as memory:
        assert await memory.backlog() == Backlog(words=3, vectors=0, users=0)
        await memory.query("cello")
        await memory.settled()
        assert await memory.backlog() == Backlog(words=0, vectors=0, users=0)


async def test_backlog_counts_vectors_alone_when_the_embedder_is_broken(store: Store) -> None:
    """The terms are stored anyway, and a message without a word waits for nothing."""
    await fill(store)
    async with memory_of(store, Broken(documents=True)) as memory:
        await memory.query("cello")
        with pytest.raises(EmbedderError):
            await memory.settled()
        assert await memory.backlog() == Backlog(words=0, vectors=2, users=0)


async def test_backlog_counts_the_users_who_wait_in_this_process(store: Store) -> None:
    """The user whose messages are being embedded no longer waits; the others are not counted by message."""
    embedder = Held()
    async with memory_of(store, embedder) as memory:
        await memory.add_message("user", TEXTS[0])
        await embedder.reached.wait()
        for user in ("bob", "eve"):
            await memory.add_message("user", TEXTS[1], user_id=user)
        assert await memory.backlog() == Backlog(words=1, vectors=1, users=2)
        assert await memory.backlog(user_id="bob") == Backlog(words=1, vectors=1, users=2)
        embedder.go_on.set()
        await memory.settled()
        for user in ("ada", "bob", "eve"):
            assert await memory.backlog(user_id=user) == Backlog(words=0, vectors=0, users=0)


def test_backlog_is_counted_from_sync_code(sqlite_url: str) -> None:
    """The sync side counts the same, before the work and after it."""
    memory = Memory(sqlite_url, user_id="ada", embedder=Words())
    with memory.sync as sync:
        for text in TEXTS:
            sync.add_message("user", text)
        assert sync.backlog() == Backlog(words=3, vectors=3, users=0)
        assert len(sync.query("cello", top_k=1)) == 1
        sync.settled()
        assert sync.backlog() == Backlog(words=0, vectors=0, users=0)
