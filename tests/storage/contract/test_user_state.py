"""What a store promises about user state: one mode for each user."""

import pytest
from tests.storage.contract.samples import ANN, ELSEWHERE, OTHERS

from recollect.storage.records import StateEntry
from recollect.storage.store import Store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio


async def test_state_has_mode_and_time(store: Store, clock: ScriptedClock) -> None:
    """A mode comes back with the time at which it was set."""
    await store.set_state("zzz \U0001f634", scope=ANN)
    assert await store.get_state(scope=ANN) == StateEntry("zzz \U0001f634", clock.time)


async def test_state_is_replaced_when_it_is_set_again(store: Store, clock: ScriptedClock) -> None:
    """A user is in one mode at a time, the one that was set last."""
    await store.set_state("active", scope=ANN)
    later = clock.tick()
    await store.set_state("halted", scope=ANN)
    assert await store.get_state(scope=ANN) == StateEntry("halted", later)


async def test_missing_state_is_none(store: Store) -> None:
    """A user whose mode was never set has none."""
    assert await store.get_state(scope=ANN) is None


async def test_deleting_says_if_there_was_a_state(store: Store) -> None:
    """A forgotten mode is gone."""
    await store.set_state("active", scope=ANN)
    assert await store.delete_state(scope=ANN) is True
    assert await store.get_state(scope=ANN) is None
    assert await store.delete_state(scope=ANN) is False


async def test_state_is_the_users_own(store: Store) -> None:
    """Another user, or the same name in another tenant, is in a mode of its own."""
    await store.set_state("active", scope=ANN)
    for other in OTHERS:
        assert await store.get_state(scope=other) is None
        assert await store.delete_state(scope=other) is False
        await store.set_state("halted", scope=other)
        for scope, mode in ((ANN, "active"), (other, "halted")):
            state = await store.get_state(scope=scope)
            assert state is not None
            assert state.mode == mode


async def test_state_spans_threads_apps_and_projects(store: Store) -> None:
    """A user is in one mode, wherever it is asked for."""
    await store.set_state("active", scope=ANN)
    for place in ELSEWHERE:
        state = await store.get_state(scope=place.with_thread(None))
        assert state is not None
        assert state.mode == "active"
