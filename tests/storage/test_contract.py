"""The store contract on SQLite in memory, SQLite on disk and PostgreSQL."""

import inspect
from collections import Counter
from collections.abc import AsyncGenerator

import pytest

# Only what is registered before its first import has its asserts explained.
pytest.register_assert_rewrite("recollect.testing.contract")

from recollect import Store, open_store  # noqa: E402 - comes after the line above on purpose
from recollect.testing import contract  # noqa: E402 - the same
from recollect.testing.contract import ScriptedClock, StoreContract  # noqa: E402 - the same


@pytest.fixture
def clock() -> ScriptedClock:
    """The clock of the store."""
    return ScriptedClock()


@pytest.fixture
async def store(store_url: str, clock: ScriptedClock) -> AsyncGenerator[Store]:
    """An empty store on each engine in turn, with a clock that stands still."""
    async with open_store(store_url, clock=clock) as opened:
        yield opened


class TestStoreContract(StoreContract):
    """Everything that is expected of a store."""


def test_every_part_is_in_the_whole_contract() -> None:
    """No class of the package is left out of `StoreContract`."""
    classes = [value for _, value in inspect.getmembers(contract, inspect.isclass)]
    parts = {value for value in classes if value.__name__.endswith("Contract")}
    assert parts <= set(StoreContract.__mro__)
    assert len(parts) > 10


def test_no_test_hides_another_of_the_same_name() -> None:
    """A name that two parts share would silently drop one of the tests."""
    names = Counter(name for part in StoreContract.__mro__ for name in vars(part) if name.startswith("test_"))
    assert [name for name, count in names.items() if count > 1] == []
    assert len(names) > 100
