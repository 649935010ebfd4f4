"""The store that the contract is tested on: each engine in turn, with a clock that stands still."""

from collections.abc import AsyncGenerator

import pytest

from recollect import Store, open_store
from recollect.testing import ScriptedClock


@pytest.fixture
def clock() -> ScriptedClock:
    """The clock of the store."""
    return ScriptedClock()


@pytest.fixture
async def store(store_url: str, clock: ScriptedClock) -> AsyncGenerator[Store]:
    """An empty store on each engine in turn, whose clock is `clock`."""
    async with open_store(store_url, clock=clock) as opened:
        yield opened
