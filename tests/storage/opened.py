"""Stores for property tests: opened once, for many examples that each take users of their own.

Examples run in sync code, so the store has an event loop on a thread of its own.
"""

import itertools
import secrets
from collections.abc import Coroutine, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from recollect import Store, open_store
from recollect.concurrency.portal import Portal
from recollect.testing.databases import postgres_database

T = TypeVar("T")

ENGINES = ("memory", "file", pytest.param("postgres", marks=pytest.mark.postgres))
"""What a fixture that calls `open_for_examples` is parametrised with."""


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        """Begin at a fixed time."""
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Tell the time."""
        return self.time


@dataclass(frozen=True, slots=True)
class OpenStore:
    """A store that sync code can use, on a thread of its own."""

    engine: str
    store: Store
    clock: Clock
    portal: Portal
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine where the store belongs."""
        return self.portal.run(work)

    def fresh(self, name: str = "user") -> str:
        """Return an id that no other example has."""
        return f"{name}-{next(self.numbers)}"


@contextmanager
def open_for_examples(engine: str, request: pytest.FixtureRequest) -> Generator[OpenStore]:
    """Open a store on an engine of `ENGINES`, on a database that no other test touches."""
    with ExitStack() as stack:
        url = "sqlite://"
        if engine == "file":
            folder = request.getfixturevalue("tmp_path_factory").mktemp("examples")
            url = f"sqlite:///{folder}/store.db"
        elif engine == "postgres":
            server = request.getfixturevalue("server_url")
            url = stack.enter_context(postgres_database(server, f"recollect_{secrets.token_hex(6)}"))
        clock, portal = Clock(), Portal()
        stack.callback(portal.close)
        store = portal.run(_opened(url, clock))
        stack.callback(lambda: portal.run(store.close()))
        yield OpenStore(engine, store, clock, portal)


async def _opened(url: str, clock: Clock) -> Store:
    return await open_store(url, clock=clock)
