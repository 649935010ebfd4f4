"""`memory.settled()` reports progress; `memory.reindex()` makes all vectors with the memory's embedder."""

import asyncio
from itertools import pairwise

import pytest
from tests.support.embedders import Broken, Held, Words

from recollect import EmbedderError, InvalidArgumentError, Memory, Message, Scope, Store, open_store
from recollect.errors import EmbedderChangedError
from recollect.recall.embedding.indexer import MESSAGES_AT_ONCE
from recollect.scope import PER_CALL

pytestmark = pytest.mark.anyio

MANY = 3 * MESSAGES_AT_ONCE + 5


class Halting(Held):
    """Begins when it is told to, and takes a moment for each batch."""

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Wait a little, then answer."""
        vectors = await super().embed_documents(texts)
        await asyncio.sleep(0.15)
        return vectors


def memory_of(store: Store, embedder: object, user_id: str | None = "ada") -> Memory:
    """Return a memory of tenant 1."""
    return Memory(store, tenant_id=1, user_id=user_id, embedder=embedder, semantic_recall=True)


async def save(memory: Memory, count: int = MANY, user_id: str = "ada") -> None:
    """Save messages of a user."""
    await memory.save_messages([Message("user", f"Cello {n}.") for n in range(count)], user_id=user_id)


async def models(store: Store, user_id: str = "ada") -> set[str]:
    """Return the models of a user's vectors."""
    return {row.model_id for row in (await store.search_rows(scope=Scope(1, user_id))).vectors}


async def test_progress_is_reported_by_counts_of_messages(store: Store) -> None:
    """It begins with nothing, only grows, and ends with all messages of all users."""
    seen: list[tuple[int, int]] = []
    embedder = Halting()

    def note(done: int, total: int) -> None:
        seen.append((done, total))
        embedder.go_on.set()

    async with memory_of(store, embedder) as memory:
        await save(memory)
        await save(memory, 5, "bob")
        await memory.settled(progress=note)
    assert {total for _, total in seen} == {MANY + 5}
    assert (seen[0][0], seen[-1][0]) == (0, MANY + 5)
    assert all(before < after for (before, _), (after, _) in pairwise(seen))
    assert len(seen) > 3


@pytest.mark.parametrize("embedder", [None, Words()])
async def test_nothing_is_reported_when_nothing_waits(store: Store, embedder: object) -> None:
    """No user is scheduled, so nobody is told anything."""
    seen: list[tuple[int, int]] = []
    async with memory_of(store, embedder) as memory:
        await memory.settled(progress=lambda done, total: seen.append((done, total)))
    assert seen == []


async def test_background_work_goes_on_when_a_callback_fails(store: Store) -> None:
    """Its error comes to the caller, and the messages get their vectors."""

    def fail(_: int, __: int) -> None:
        raise ZeroDivisionError

    async with memory_of(store, embedder := Halting()) as memory:
        await save(memory)
        with pytest.raises(ZeroDivisionError):
            await memory.settled(progress=fail)
        embedder.go_on.set()
        await memory.settled()
    assert len(embedder.read) == MANY


async def test_completion_is_not_reported_when_the_embedder_fails(store: Store) -> None:
    """The error is raised, and the last report is not of the total."""
    seen: list[tuple[int, int]] = []
    async with memory_of(store, Broken(documents=True)) as memory:
        await save(memory, 1)
        with pytest.raises(EmbedderError):
            await memory.settled(progress=lambda done, total: seen.append((done, total)))
    assert (1, 1) not in seen


async def test_changed_embedder_is_helped_by_reindex(store: Store) -> None:
    """The error names the method, which uses the memory's own embedder; afterwards nothing is left of it."""
    async with memory_of(store, Words("before")) as memory:
        await save(memory)
        await memory.settled()
    seen: list[tuple[int, int]] = []
    async with memory_of(store, Words("after", 8)) as memory:
        await save(memory, 1)
        with pytest.raises(EmbedderChangedError, match=r"`await memory\.reindex\(\)` with a custom embedder"):
            await memory.query("cello")
        done = await memory.reindex(progress=lambda done, total: seen.append((done, total)))
        assert (done.users, done.messages) == (1, MANY + 1)
        assert await models(store) == {"after"}
        await memory.settled()
        assert (await memory.query("cello")).notes == ()
        assert (await memory.reindex()).messages == 0
    assert {total for _, total in seen} == {MANY + 1}
    assert [done for done, _ in seen] == [32, 64, 96, MANY + 1, MANY + 1]


async def test_users_are_those_that_the_call_or_the_memory_names(sqlite_url: str) -> None:
    """Where neither names one, they are all users of the tenant."""
    store = await open_store(sqlite_url)
    async with memory_of(store, Words("before"), None) as memory:
        for user in ("ada", "bob", "eve"):
            await save(memory, 2, user)
        await memory.settled()
    async with memory_of(store, Words("after")) as memory:
        assert (await memory.reindex()).users == 1
        assert (await memory.reindex(user_id="bob")).users == 1
    assert [await models(store, user) for user in ("ada", "bob", "eve")] == [{"after"}, {"after"}, {"before"}]
    async with memory_of(store, Words("after"), None) as memory:
        done = await memory.reindex()
        assert (done.users, done.messages) == (3, 2)
    async with Memory(store, tenant_id=PER_CALL, embedder=Words("last")) as memory:
        with pytest.raises(InvalidArgumentError, match="tenant_id"):
            await memory.reindex()
        assert (await memory.reindex(tenant_id=2)).users == 0
        assert (await memory.reindex(tenant_id=1)).messages == 6
    await store.close()


async def test_reindex_without_an_embedder_is_an_error(store: Store) -> None:
    """A memory that searches by words alone has no vectors to make."""
    async with memory_of(store, None) as memory:
        with pytest.raises(InvalidArgumentError, match="embedder: is None"):
            await memory.reindex()


def test_both_work_from_sync_code(sqlite_url: str) -> None:
    """The callbacks get the same counts."""
    seen: list[tuple[int, int]] = []
    with Memory(sqlite_url, user_id="ada", embedder=Words("before")).sync as memory:
        memory.add_message("user", "The cello is in the attic.")
        memory.query("cello")
        memory.settled(progress=lambda done, total: seen.append((done, total)))
    with Memory(sqlite_url, user_id="ada", embedder=Words("after")).sync as memory:
        assert memory.reindex(progress=lambda done, total: seen.append((done, total))).messages == 1
    assert seen[-1] == (1, 1)


async def test_settled_waits_for_what_a_search_began(store: Store) -> None:
    """A search that is over in time leaves its batch in the background; `settled` waits for it."""
    embedder = Held()
    await store.append_turn([Message("user", "The cello is in the attic.")], scope=Scope(1, "ada", "t"))
    async with memory_of(store, embedder) as memory:
        assert (await memory.query("cello")).notes
        waiting = asyncio.create_task(memory.settled())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        embedder.go_on.set()
        await waiting
        assert (await memory.query("cello")).notes == ()
