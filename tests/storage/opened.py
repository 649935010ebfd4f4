"""Stores for property tests: opened once, for many examples that each take users of their own.

Examples run in sync code, so the store has an event loop on a thread of its own.
"""

import itertools
from collections.abc import Coroutine, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from tests.support.databases import fast_folder

from recollect import Store, open_store
from recollect.concurrency.portal import Portal
from recollect.testing import ScriptedClock

T = TypeVar("T")

ENGINES = ("memory", "file", pytest.param("postgres", marks=pytest.mark.postgres))
"""What a fixture that calls `open_for_examples` is parametrised with."""

_numbers = itertools.count()  # of the process, because stores may share a database


@dataclass(frozen=True, slots=True)
class OpenStore:
    """A store that sync code can use, on a thread of its own."""

    engine: str
    store: Store
    clock: ScriptedClock
    portal: Portal
    numbers: Iterator[int] = _numbers

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine where the store belongs."""
        return self.portal.run(work)

    def fresh(self, name: str = "user") -> str:
        """Return an id that no other example has."""
        return f"{name}-{next(self.numbers)}"


@contextmanager
def open_for_examples(engine: str, request: pytest.FixtureRequest) -> Generator[OpenStore]:
    """Open a store on an engine of `ENGINES`, on a database that nobody empties between examples."""
    with ExitStack() as stack:
        url = "sqlite://"
        if engine == "file":
            url = f"sqlite:///{stack.enter_context(fast_folder())}/store.db"
        elif engine == "postgres":
            url = request.getfixturevalue("examples_url")
        clock, portal = ScriptedClock(), Portal()
        stack.callback(portal.close)
        store = portal.run(_open(url, clock))
        stack.callback(lambda: portal.run(store.close()))
        yield OpenStore(engine, store, clock, portal)


async def _open(url: str, clock: ScriptedClock) -> Store:
    return await open_store(url, clock=clock)
