"""Messages that have expired: search neither finds them nor shows them beside a hit."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.embedders import Words

from recollect import Message, Scope, Store, TextPart, ToolCall, ToolResult, open_store
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.index.cache import IndexCache
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.storage.opening import StoreHandle
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

ADA = Scope(None, "ada", "t")
HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> ScriptedClock:
    """The time of the store."""
    return ScriptedClock(datetime(2030, 5, 6, 9, tzinfo=UTC))


@pytest.fixture
async def store(store_url: str, clock: ScriptedClock) -> AsyncGenerator[Store]:
    """An empty store on each engine in turn, with that clock."""
    async with open_store(store_url, clock=clock) as opened:
        yield opened


@pytest.fixture(params=["words", "hybrid"])
async def recaller(store: Store, request: pytest.FixtureRequest) -> AsyncGenerator[Recaller]:
    """Search by words alone, and with vectors."""
    found = Recaller(StoreHandle(store), None if request.param == "words" else as_embedder(Words()))
    yield found
    await found.close()


async def save(store: Store, *texts: str, hours: int | None = None) -> None:
    """Save messages of ada's that expire after some hours."""
    due = None if hours is None else store.clock() + hours * HOUR
    await store.append_turn([Message("user", text) for text in texts], scope=ADA, expires_at=due)


async def settle(recaller: Recaller, store: Store) -> None:
    """Have all search rows of ada's written."""
    recaller.schedule_indexing(ADA, store)
    await recaller.wait_until_idle()


@pytest.mark.parametrize("is_cached", [True, False], ids=["cached", "cold"])
@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "still in the table"])
async def test_expired_message_is_no_hit_and_top_k_stays_full(
    store: Store,
    clock: ScriptedClock,
    recaller: Recaller,
    is_cached: bool,  # noqa: FBT001 - a case
    is_removed: bool,  # noqa: FBT001 - a case
) -> None:
    """The best hits expire, and the next best take their places, whoever has read or removed them."""
    await save(store, "cello", "the cello", hours=1)
    places = ("attic beside grandma's trunk", "hallway", "school hall on stage", "shop", "garden shed in May")
    await save(store, *(f"a cello stays in the {place}" for place in places))
    await settle(recaller, store)
    settings = RecallSettings(top_k=3, message_range=0)
    if is_cached:
        found = await recaller.search("cello", settings, scope=ADA)
        assert {"cello", "the cello"} <= {hit.text for hit in found}
    clock.tick(3600)
    if is_removed:
        await save(store, "something else")
    found = await recaller.search("cello", settings, scope=ADA, explain=True)
    assert len(found) == 3
    assert all("stays" in hit.text for hit in found)
    assert found.searched == 5 + is_removed
    assert not {miss.message_id for miss in found.misses} & {hit.message.id for hit in found}


async def test_expired_message_is_no_neighbour(
    store: Store, clock: ScriptedClock, recaller: Recaller
) -> None:
    """A hit is shown without the expired messages around it."""
    await save(store, "one before")
    await save(store, "right before", hours=1)
    await save(store, "The cello is in the attic.")
    await save(store, "right after", hours=1)
    await settle(recaller, store)
    settings = RecallSettings(top_k=1, message_range=1)
    (hit,) = await recaller.search("cello", settings, scope=ADA)
    assert [m.text for m in (*hit.before, *hit.after)] == ["right before", "right after"]
    clock.tick(3600)
    (hit,) = await recaller.search("cello", settings, scope=ADA)
    assert {m.text for m in (*hit.before, *hit.after)} <= {"one before"}


async def test_message_expires_to_the_microsecond(
    store: Store, clock: ScriptedClock, recaller: Recaller
) -> None:
    """It is found until its time, and not from then on."""
    await save(store, "The cello is in the attic.", hours=1)
    clock.time += HOUR - timedelta(microseconds=1)
    assert len(await recaller.search("cello", RecallSettings(), scope=ADA)) == 1
    clock.time += timedelta(microseconds=1)
    assert len(await recaller.search("cello", RecallSettings(), scope=ADA)) == 0


async def test_index_is_read_again_when_a_message_has_expired(store: Store, clock: ScriptedClock) -> None:
    """No word of an expired message stays in memory, where it would move the ranking of others."""
    cache = IndexCache()
    await save(store, "one", "two", hours=1)
    await save(store, "three")
    async with cache.open_index(ADA, store) as first:
        assert len(first) == 3
    async with cache.open_index(ADA, store) as second:
        assert second is first
    clock.tick(3600)
    async with cache.open_index(ADA, store) as third:
        assert len(third) == 1
    async with cache.open_index(ADA, store) as fourth:
        assert fourth is third


async def test_expired_messages_get_no_search_rows(
    store: Store, clock: ScriptedClock, recaller: Recaller
) -> None:
    """Nothing waits for the background work that nobody can find any more."""
    await save(store, "The cello is in the attic.", hours=1)
    assert await store.count_unindexed("words", scope=ADA) == 1
    clock.tick(3600)
    assert await store.count_unindexed("words", scope=ADA) == 0
    await settle(recaller, store)
    assert await store.search_rows(scope=ADA) == (await store.epoch(scope=ADA), [], [], None)


async def test_top_k_is_full_again_when_a_message_expires_sooner_than_the_index_knows(
    store: Store, clock: ScriptedClock, recaller: Recaller
) -> None:
    """A late tool result makes all from its call on expire too; a search that meets that searches again."""
    call = Message("assistant", [TextPart("cello cello"), ToolCall("c1", "lookup", {})])
    await store.append_turn([call], scope=ADA)
    await save(store, "the cello of the cellist", "a cello among many other words")
    settings = RecallSettings(top_k=2, message_range=0)
    assert len(await recaller.search("cello", settings, scope=ADA)) == 2
    result = Message("tool", [ToolResult("c1", "lookup", "found")])
    await store.append_turn([result], scope=ADA, expires_at=store.clock() + HOUR)
    await save(store, "another cello, which stays", "and a cello on the stairs")
    clock.tick(3600)
    found = await recaller.search("cello", settings, scope=ADA)
    assert {hit.text for hit in found} == {"another cello, which stays", "and a cello on the stairs"}


async def test_expired_vectors_of_another_model_stop_no_embedder(store: Store, clock: ScriptedClock) -> None:
    """Nobody can find the message any more, so its vector cannot be mixed with others."""
    await save(store, "The cello is in the attic.", hours=1)
    for embedder in (Words(), Words("other")):
        recaller = Recaller(StoreHandle(store), as_embedder(embedder))
        await settle(recaller, store)
        await recaller.close()
        clock.tick(3600)
        await store.append_turn([Message("user", "A violin.")], scope=ADA.with_thread("another"))
    assert await store.count_unindexed("other", scope=ADA) == 1
