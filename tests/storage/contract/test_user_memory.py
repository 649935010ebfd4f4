"""What a store promises about user memory: JSON objects by key, as they were given."""

import asyncio

import pytest
from tests.storage.contract.samples import ANN, ELSEWHERE, OTHERS, UNICODE, exported, said

from recollect.storage.store import Store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

VALUES: list[dict[str, object]] = [
    {},
    {"a": None, "b": [True, False], "c": {"d": [[], {}]}},
    {"whole": 1, "big": 10**40, "small": -(2**63), "half": 0.5, "tiny": 5e-324, "large": 1.7e308},
    {UNICODE: UNICODE, "": ""},
    {"z": 1, "a": 2, "m": 3},
    {"text": "x" * 300_000},
]


async def test_value_comes_back_as_it_was_given(store: Store) -> None:
    """No number is rounded, no key is sorted, no text is changed."""
    for value in VALUES:
        await store.set_memory("k", value, scope=ANN)
        entry = await store.get_memory("k", scope=ANN)
        assert entry is not None
        assert repr(entry.value) == repr(value)


async def test_entry_has_key_number_and_time(store: Store, clock: ScriptedClock) -> None:
    """An entry says under which key, number and time it is kept."""
    number = await store.set_memory("k", {"a": 1}, scope=ANN)
    entry = await store.get_memory("k", scope=ANN)
    assert entry is not None
    assert (entry.key, entry.number, entry.updated_at) == ("k", number, clock.time)


async def test_value_is_replaced_when_the_key_is_there(store: Store, clock: ScriptedClock) -> None:
    """The new value takes the place of the old one, whole, under the same number."""
    first = await store.set_memory("k", {"a": 1, "b": 2}, scope=ANN)
    later = clock.tick()
    assert await store.set_memory("k", {"b": 3}, scope=ANN) == first
    (entry,) = await store.list_memory(scope=ANN)
    assert (entry.value, entry.updated_at, entry.number) == ({"b": 3}, later, first)


async def test_missing_key_is_none(store: Store) -> None:
    """A key that is not there is None, and an unknown user has no entries."""
    assert await store.get_memory("k", scope=ANN) is None
    assert await store.list_memory(scope=ANN) == []


async def test_entries_are_listed_by_the_bytes_of_their_keys(store: Store) -> None:
    """The order is the same on every engine and in every language."""
    for key in ("b", "ä", "B", "a", "_", "10", "9"):
        await store.set_memory(key, {}, scope=ANN)
    assert [entry.key for entry in await store.list_memory(scope=ANN)] == [
        "10",
        "9",
        "B",
        "_",
        "a",
        "b",
        "ä",
    ]


async def test_deleting_says_if_the_key_was_there(store: Store) -> None:
    """Only the named entry goes."""
    await store.set_memory("k", {}, scope=ANN)
    await store.set_memory("K", {}, scope=ANN)
    assert await store.delete_memory("k", scope=ANN) is True
    assert await store.delete_memory("k", scope=ANN) is False
    assert [entry.key for entry in await store.list_memory(scope=ANN)] == ["K"]


async def test_number_is_not_used_again(store: Store) -> None:
    """A key that comes back after its deletion gets a new number."""
    first = await store.set_memory("k", {}, scope=ANN)
    await store.delete_memory("k", scope=ANN)
    assert await store.set_memory("k", {}, scope=ANN) > first


async def test_clearing_returns_how_many_there_were(store: Store) -> None:
    """All entries go, and nothing else does."""
    await store.append_turn(said("a"), scope=ANN)
    await store.set_state("active", scope=ANN)
    for key in ("a", "b", "c"):
        await store.set_memory(key, {}, scope=ANN)
    assert await store.clear_memory(scope=ANN) == 3
    assert await store.list_memory(scope=ANN) == []
    assert await store.clear_memory(scope=ANN) == 0
    assert await store.count_user_history(scope=ANN) == 1
    assert await store.get_state(scope=ANN) is not None


async def test_memory_is_the_users_own(store: Store) -> None:
    """Another user, or the same name in another tenant, has other entries under the same key."""
    await store.set_memory("k", {"of": "mine"}, scope=ANN)
    before = await exported(store)
    for other in OTHERS:
        assert await store.get_memory("k", scope=other) is None
        assert await store.delete_memory("k", scope=other) is False
        await store.set_memory("k", {"of": "theirs"}, scope=other)
        assert await store.clear_memory(scope=other) == 1
        assert await exported(store) == before


async def test_memory_spans_threads_apps_and_projects(store: Store) -> None:
    """A user has one memory, wherever it is asked for."""
    await store.set_memory("k", {"a": 1}, scope=ANN)
    for place in ELSEWHERE:
        entry = await store.get_memory("k", scope=place.with_thread(None))
        assert entry is not None
        assert entry.value == {"a": 1}


async def test_one_value_stays_when_many_are_set_at_once(store: Store) -> None:
    """Concurrent writes to one key leave one entry with one of the values."""
    numbers = await asyncio.gather(*(store.set_memory("k", {"n": n}, scope=ANN) for n in range(20)))
    assert len(set(numbers)) == 1
    (entry,) = await store.list_memory(scope=ANN)
    assert entry.value["n"] in range(20)
