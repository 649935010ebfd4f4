"""What a store promises about erasing a user: every row of every kind, and nobody else's."""

import pytest
from tests.storage.contract.samples import (
    ANN,
    BOB,
    ELSEWHERE,
    OTHERS,
    exported,
    ids_of,
    keep_every_kind,
    said,
    whole_thread,
)

from recollect.storage.store import Store

pytestmark = pytest.mark.anyio

NOTHING = {
    "search_rows": 0,
    "messages": 0,
    "threads": 0,
    "user_memory": 0,
    "user_state": 0,
    "working_memory": 0,
    "events": 0,
}


async def test_report_counts_the_rows_of_every_kind(store: Store) -> None:
    """The report says how much of each kind there was."""
    await keep_every_kind(store)
    report = await store.erase(scope=ANN)
    assert report.counts == {
        "search_rows": 0,
        "messages": 6,
        "threads": 2,
        "user_memory": 2,
        "user_state": 1,
        "working_memory": 3,
        "events": 2,
    }
    assert report.total == 16


async def test_nothing_is_left_in_any_app_or_project(store: Store) -> None:
    """After erasing, every way of reading finds nothing."""
    for scope in (ANN, *ELSEWHERE):
        await store.append_turn(said("a", "b"), scope=scope)
    await store.set_memory("k", {}, scope=ANN)
    await store.set_state("active", scope=ANN)
    report = await store.erase(scope=ANN.with_thread(None))
    assert (report.counts["messages"], report.counts["threads"]) == (8, 4)
    for scope in (ANN, *ELSEWHERE):
        assert await whole_thread(store, scope) == []
        assert await store.list_threads(scope=scope) == []
        assert await store.messages_by_id(["a", "b"], scope=scope) == []
    assert await store.user_history(scope=ANN) == []
    assert (await store.search_rows(scope=ANN)).rows == []
    assert await store.list_memory(scope=ANN) == []
    assert await store.get_state(scope=ANN) is None
    assert len(await exported(store)) == 2


async def test_second_erasure_finds_nothing(store: Store) -> None:
    """Erasing an erased or an unknown user is no error and counts nothing."""
    await keep_every_kind(store)
    await store.erase(scope=ANN)
    assert (await store.erase(scope=ANN)).counts == NOTHING
    assert (await store.erase(scope=BOB)).total == 0


async def test_other_users_keep_everything(store: Store) -> None:
    """Another user, or the same name in another tenant, is not touched."""
    for other in OTHERS:
        await keep_every_kind(store)
        await keep_every_kind(store, other)
        before = (await exported(store, other), await store.search_rows(scope=other))
        epoch = await store.epoch(scope=other)
        await store.erase(scope=ANN)
        assert (await exported(store, other), await store.search_rows(scope=other)) == before
        assert await store.epoch(scope=other) == epoch


async def test_erased_user_can_start_again(store: Store) -> None:
    """All ids are free again, positions start again, and nothing old comes back."""
    old = await store.append_turn(said("a", "b"), scope=ANN)
    await store.erase(scope=ANN)
    (new,) = await store.append_turn(said("b"), scope=ANN.with_thread("u"))
    assert new.position == 1
    assert new.number > old[-1].number
    assert ids_of(await store.user_history(scope=ANN)) == ["b"]
