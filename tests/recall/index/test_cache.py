"""The cache of indexes: within its budget, always fresh, and safe for concurrent searches."""

import asyncio
import threading
from typing import Any

import pytest
from tests.storage.contract.samples import index_all
from tests.support.embedders import Words
from tests.support.waiting import GENEROUS, until

from recollect import Memory, Message, Scope, StorageError, Store
from recollect.recall.index import cache as cache_module
from recollect.recall.index.cache import IndexCache
from recollect.recall.index.user_index import UserIndex
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.scope import TenantId
from recollect.storage.opening import StoreHandle
from recollect.storage.records import SearchChanges
from recollect.text.terms import term_hash

pytestmark = pytest.mark.anyio

BUDGET = 1_000_000


async def save(store: Store, user: str, *texts: str, tenant: TenantId = None) -> Scope:
    """Save messages of a user."""
    scope = Scope(tenant, user, "t")
    await store.append_turn([Message("user", text) for text in texts], scope=scope)
    return scope


async def _save_many(store: Store, user: str) -> Scope:
    return await save(store, user, *(f"message {n}" for n in range(2_500)))


async def numbers(cache: IndexCache, scope: Scope, store: Store) -> list[int]:
    """Return the numbers of the messages that a user's index has."""
    async with cache.open_index(scope, store) as index:
        return index.numbers.tolist()


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)  # the cache is the same on every engine
async def test_cache_stays_within_its_budget_when_a_thousand_users_search(store: Store) -> None:
    """The size never exceeds the budget, the last users are cached, and all searches are right."""
    cache = IndexCache(BUDGET)
    scopes = [Scope(None, f"user {n}", "t") for n in range(1_000)]
    written = scopes[::10]
    for scope in written:
        await store.append_turn([Message("user", f"I am {scope.user_id}.")], scope=scope)
    for scope in scopes:
        assert len(await numbers(cache, scope, store)) == (scope in written)
        assert 0 < cache.nbytes <= BUDGET
    assert len(cache) < 200
    for scope in reversed(scopes[-200:]):
        assert len(await numbers(cache, scope, store)) == (scope in written)
    assert cache.nbytes <= BUDGET


async def test_least_recently_searched_user_goes_first(store: Store) -> None:
    """A user who is searched often stays in the cache."""
    cache = IndexCache(100_000)
    often = await save(store, "often", "cello")
    async with cache.open_index(often, store) as index:
        kept = index
    for n in range(50):
        await numbers(cache, Scope(None, f"user {n}"), store)
        async with cache.open_index(often, store) as index:
            assert index is kept


async def test_index_larger_than_the_budget_stays_beside_the_others(store: Store) -> None:
    """A large user is not read again for each search, and leaves the budget to the others."""
    cache = IndexCache(40_000)
    large, larger = await _save_many(store, "large"), await _save_many(store, "larger")
    async with cache.open_index(large, store) as index:
        kept = index
    for n in range(20):
        await numbers(cache, Scope(None, f"user {n}"), store)
        async with cache.open_index(large, store) as index:
            assert index is kept
    assert 40_000 < cache.nbytes <= 80_000 + kept.nbytes
    assert len(cache) > 1
    assert len(await numbers(cache, larger, store)) == 2_500
    async with cache.open_index(large, store) as index:
        assert index is not kept  # there is room for one such index


async def test_user_is_read_page_by_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages make the same index as one read, with all rows, links and vectors."""
    scope = Scope(None, "ada", "t")
    for turn in range(6):
        await store.append_turn(
            [Message("user", f"cello {turn}"), Message("assistant", "viola")],
            scope=scope.with_thread(f"t{turn % 2}"),
        )
    await index_all(store, scope, model_id="m")
    async with IndexCache().open_index(scope, store) as whole:
        pass
    monkeypatch.setattr(cache_module, "_TRIES", (5,))
    async with IndexCache().open_index(scope, store) as paged:
        pass
    for name in ("numbers", "times", "thread_of", "previous", "next", "words", "has_vector"):
        assert (getattr(paged, name) == getattr(whole, name)).all()
    assert whole.has_vector.all()
    assert paged.postings.find(term_hash("cello"))[0].tolist() == list(range(0, 12, 2))


async def test_reading_begins_again_when_a_message_is_deleted_between_pages(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pages belong to one epoch; where deletions never end, all is read at once."""
    monkeypatch.setattr(cache_module, "_TRIES", (3, 3, None))
    scope = Scope(None, "ada", "t")
    turn = [Message("user", f"cello {n}", id=f"m{n}") for n in range(9)]
    places = await store.append_turn(turn, scope=scope)
    waiting, plain = [f"m{n}" for n in range(9)], store.search_rows

    async def read_and_delete(**options: Any) -> SearchChanges:  # noqa: ANN401 - those of search_rows
        found = await plain(**options)
        await store.delete_messages([waiting.pop(0)], scope=scope)
        return found

    monkeypatch.setattr(store, "search_rows", read_and_delete)
    found = await numbers(IndexCache(), scope, store)
    gone = 4  # two pages of the first try and two of the second; the last read is one snapshot
    assert found == [place.number for place in places[gone:]]


async def test_index_is_fresh_when_messages_come_and_go(store: Store) -> None:
    """Each use sees what was saved or removed right before it; only what is new is read."""
    cache = IndexCache()
    scope = await save(store, "ada", "one")
    async with cache.open_index(scope, store) as first:
        assert len(first) == 1
    await save(store, "ada", "two", "three")
    async with cache.open_index(scope, store) as second:
        assert second is first
        assert len(second) == 3
    await store.delete_thread(scope=scope)
    assert await numbers(cache, scope, store) == []
    await store.erase(scope=scope)
    await save(store, "ada", "four")
    assert len(await numbers(cache, scope, store)) == 1


async def test_users_and_tenants_have_indexes_of_their_own(store: Store) -> None:
    """The same user id in another tenant is somebody else."""
    recaller = Recaller(StoreHandle(store), None)
    for tenant, word in ((None, "cello"), (1, "violin"), ("01", "flute")):
        await save(store, "ada", f"I play the {word}.", tenant=tenant)
    for tenant, word in ((None, "cello"), (1, "violin"), ("01", "flute")):
        found = await recaller.search("play", RecallSettings(), scope=Scope(tenant, "ada", "t"))
        assert [hit.text for hit in found] == [f"I play the {word}."]


async def test_int_and_its_digits_share_an_index(store: Store) -> None:
    """What tenant 1 saved, a search of tenant "1" finds in the same index."""
    cache = IndexCache()
    scope = await save(store, "ada", "one", "two", tenant=1)
    assert await numbers(cache, Scope("1", "ada"), store) == await numbers(cache, scope, store)
    assert len(cache) == 1


async def test_concurrent_searches_are_right_while_others_save(store: Store) -> None:
    """Each of many searches, of one user and of several, sees all messages saved before it."""
    async with Memory(
        store, tenant_id=None, semantic_recall=True, embedder=Words(), resource_id="x"
    ) as memory:

        async def save_and_search(user: str, count: int) -> None:
            for n in range(count):
                await memory.add_message("user", f"cello {user} number{n}", resource_id=user)
                found = await memory.query(f"number{n}", top_k=1, message_range=0, resource_id=user)
                assert [hit.text for hit in found] == [f"cello {user} number{n}"]
                assert found.searched > n

        await asyncio.gather(
            *(save_and_search(f"user{n % 4}", 5) for n in range(4)), save_and_search("user0x", 12)
        )
        await asyncio.gather(*(memory.query("cello", resource_id="user0") for _ in range(20)))
        await memory.settled()


async def test_nothing_is_kept_when_an_index_cannot_be_read(store: Store) -> None:
    """A store that is down leaves no entries in the cache."""
    cache = IndexCache()
    await store.close()
    for n in range(20):
        with pytest.raises(StorageError):
            await numbers(cache, Scope(None, f"user {n}"), store)
    assert (len(cache), cache.nbytes) == (0, 0)


async def test_index_is_whole_when_a_search_was_cancelled_while_it_grew(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that still adds rows to an abandoned index spoils no later search."""
    handle, cache = StoreHandle(sqlite_url), IndexCache()
    store = await handle.get()
    scope = await save(store, "ada", "one")
    assert len(await numbers(cache, scope, store)) == 1
    await save(store, "ada", *(f"message {n}" for n in range(2_500)))
    begun, may_go_on, over, plain = threading.Event(), threading.Event(), threading.Event(), UserIndex.apply

    def slow(index: UserIndex, changes: SearchChanges) -> bool:
        begun.set()
        may_go_on.wait(GENEROUS)  # the thread that cannot be cancelled
        try:
            return plain(index, changes)
        finally:
            over.set()

    monkeypatch.setattr(UserIndex, "apply", slow)
    search = asyncio.create_task(numbers(cache, scope, store))
    await until(begun.is_set)
    search.cancel()
    await asyncio.gather(search, return_exceptions=True)
    monkeypatch.setattr(UserIndex, "apply", plain)
    found = await numbers(cache, scope, store)
    may_go_on.set()
    await until(over.is_set)
    assert found == await numbers(cache, scope, store)
    assert len(found) == len(set(found)) == 2_501
    await handle.close()
