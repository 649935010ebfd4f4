"""The list of a tenant's users: what is stored of each, and when somebody last did something."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest

from recollect import Message, Scope, Store, open_store
from recollect.storage.records import UserSummary
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

START = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
ANN = Scope(1, "ann", "t")


@pytest.fixture
def clock() -> ScriptedClock:
    """The time of the store."""
    return ScriptedClock(START)


@pytest.fixture
async def store(store_url: str, clock: ScriptedClock) -> AsyncGenerator[Store]:
    """An empty store on each engine in turn, with that clock."""
    async with open_store(store_url, clock=clock) as opened:
        yield opened


async def ann_of(store: Store) -> UserSummary:
    """Return what the list says of the one user."""
    (found,) = await store.list_users(tenant_id=1)
    return found


async def test_expired_messages_do_not_count(store: Store, clock: ScriptedClock) -> None:
    """From the moment they expire, whether or not a write has removed them."""
    await store.append_turn([Message("user", "kept")], scope=ANN)
    await store.append_turn([Message("user", "gone " * 9)], scope=ANN, expires_at=START + DAY)
    assert (await ann_of(store)).messages == 2
    clock.tick(86_400)
    found = await ann_of(store)
    assert (found.threads, found.messages, found.bytes) == (1, 1, len("kept"))


async def test_removing_old_messages_is_no_activity_of_the_user(store: Store, clock: ScriptedClock) -> None:
    """Neither pruning nor the removal of what has expired; writes and events are."""
    await store.append_turn([Message("user", "old")], scope=ANN)
    await store.append_turn([Message("user", "short-lived")], scope=ANN, expires_at=START + DAY)
    clock.tick(10 * 86_400)
    assert await store.prune(START + DAY, scope=ANN) == (1, 1)
    assert (await ann_of(store)).last_activity_at == START
    await store.add_event("looked", {}, scope=ANN)
    assert (await ann_of(store)).last_activity_at == START + 10 * DAY


async def test_user_without_data_is_listed_until_erased(store: Store) -> None:
    """With zeros."""
    await store.append_turn([Message("user", "hi")], scope=ANN)
    await store.clear_history(scope=ANN)
    assert (await ann_of(store)).messages == 0
    await store.erase(scope=ANN)
    assert await store.list_users(tenant_id=1) == []


async def test_prune_takes_many_units_at_once(store: Store, clock: ScriptedClock) -> None:
    """Thousands of messages are deleted in a few statements, with their search rows and counts."""
    turns = [Message("user", f"message {number}", created_at=START) for number in range(3_000)]
    await store.append_turn(turns, scope=ANN)
    clock.tick(86_400)
    await store.append_turn([Message("user", "new", created_at=START + DAY)], scope=ANN.with_thread("u"))
    late = [Message("user", "late", created_at=START + DAY)]
    await store.append_turn(late, scope=ANN)
    assert await store.prune(START + DAY, scope=ANN) == (3_000, 0)
    assert [m.text for m in await store.last_messages(None, scope=ANN)] == ["late"]
    assert (await ann_of(store)).messages == 2
