"""Reading a thread's end in a large store and in a small one: what others keep must not slow it down."""

import random
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from recollect.bench import fill
from recollect.bench.report import Part, Tick, ratio_goal
from recollect.bench.server import Server
from recollect.bench.sizes import Sizes
from recollect.bench.timing import Lap, lap_of, race, ratio
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.store import Store

SMALL_STORE = 1_000
"""How many messages the small store holds."""

_LIMIT = 1.3


async def measure_sqlite(folder: Path, sizes: Sizes, tick: Tick) -> Part:
    """Compare two SQLite files."""
    small, large = folder / "small.db", folder / "large.db"
    fill.fill_sqlite(small, fill.crowd(SMALL_STORE), _ignored)
    fill.fill_sqlite(large, fill.crowd(sizes.large_store), lambda done: tick(done * 0.9))
    return await _compare(f"sqlite:///{small}", f"sqlite:///{large}", "SQLite", sizes)


async def measure_postgres(server: Server, sizes: Sizes, tick: Tick) -> Part:
    """Compare two PostgreSQL databases of one server."""
    with server.database("small") as small, server.database("large") as large:
        await fill.fill_postgres(small, fill.crowd(SMALL_STORE), _ignored)
        await fill.fill_postgres(large, fill.crowd(sizes.large_store), lambda done: tick(done * 0.9))
        server.settle()
        return await _compare(small, large, "PostgreSQL", sizes)


async def _compare(small_url: str, large_url: str, engine: str, sizes: Sizes) -> Part:
    async with AsyncExitStack() as stack:
        small = await stack.enter_async_context(open_store(small_url))
        large = await stack.enter_async_context(open_store(large_url))
        laps = {"large": _reading(large, sizes.large_store), "small": _reading(small, SMALL_STORE)}
        found = await race(laps, rounds=sizes.rounds, tries=sizes.tries, tick=_ignored)
    name = (
        f"{engine}: last 10 of a thread among {sizes.large_store:,} messages of "
        f"{fill.users_of(sizes.large_store):,} users, against {SMALL_STORE:,} messages"
    )
    goal = ratio_goal(name, _LIMIT, ratio(found["large"], found["small"]), found["large"], found["small"])
    figures = {side: timings.micros() for side, timings in found.items()}
    return Part([goal], {f"{engine.lower()}_large_store": figures})


def _reading(store: Store, messages: int) -> Lap:
    scopes = _random_scopes(fill.users_of(messages))
    return lap_of(lambda: store.last_messages(10, scope=next(scopes)))


def _random_scopes(users: int) -> Iterator[Scope]:
    scopes = [fill.scope_of(number) for number in range(users)]
    choice = random.Random(3)
    while True:
        yield choice.choice(scopes)


def _ignored(_: float) -> None:
    """Show no progress."""
