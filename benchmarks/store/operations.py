"""Appending a turn and reading the last ten: against bare drivers and a peer, and in a large store."""

import random
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import repeat
from pathlib import Path

import psycopg

from benchmarks.harness import fill
from benchmarks.harness.peers import INSTALL, Session, describe_durability, items_of, open_session
from benchmarks.harness.replay import BarePostgres, BareSqlite, messages_of, prepare_calls, record
from benchmarks.harness.report import Goal, Part, Tick, at_most, ignore_progress, ratio_goal
from benchmarks.harness.server import Server
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import Lap, Timings, compute_ratio, figures_of, make_lap, make_sync_lap, race
from benchmarks.sizes import StoreSizes
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.postgres.connection import prepare
from recollect.storage.store import Store

SMALL_STORE = 1_000
"""How many messages the small store holds."""

_SCOPE = Scope(1, "user", "conversation")  # the thread that all sides write to
_LAST = 10
_POSTGRES_LIMIT, _LARGE_LIMIT = 1.5, 1.3


async def measure_sqlite(folder: Path, sizes: StoreSizes, tick: Tick) -> Part:
    """Measure appending and reading on SQLite, against bare APSW and SQLiteSession."""
    turns = SampleTexts().turns(sizes.turns)
    recording = await record(turns, [_SCOPE])
    bare, session = BareSqlite(folder / "bare.db"), open_session(folder / "peer.db")
    prepared = iter([prepare_calls(turn, "sqlite") for turn in recording.turns])
    last_ten = prepare_calls(recording.last_ten, "sqlite")
    try:
        async with open_store(f"sqlite:///{folder / 'ours.db'}") as store:
            appending = {
                "ours": _make_append_lap(store, turns),
                "bare": make_sync_lap(lambda: bare.append(next(prepared))),
            }
            reading = {
                "ours": _make_read_lap(store, repeat(_SCOPE)),
                "bare": make_sync_lap(lambda: bare.read(last_ten)),
            }
            if session is not None:
                appending["peer"], reading["peer"] = _make_peer_laps(session, turns)
            appended, read = await _race_both(appending, reading, sizes, tick)
    finally:
        bare.close()
        if session is not None:
            session.close()
    goals = [
        _make_goal("SQLite: append a turn of 2 messages, against bare APSW", 1.5, appended, "bare"),
        _make_goal("SQLite: append a turn of 2 messages, against SQLiteSession", 0.6, appended, "peer"),
        _make_goal("SQLite: read the last 10, against bare APSW", 2.0, read, "bare"),
        _make_goal("SQLite: read the last 10, against SQLiteSession", 0.4, read, "peer"),
    ]
    return Part(goals, _make_figures("sqlite", appended, read), [_make_note(folder, session)])


async def measure_postgres(server: Server, sizes: StoreSizes, tick: Tick) -> Part:
    """Measure appending and reading on PostgreSQL, against bare psycopg under the same tenant rules."""
    turns = SampleTexts().turns(sizes.turns)
    recording = await record(turns, [_SCOPE])
    prepared = iter([prepare_calls(turn, "postgres") for turn in recording.turns])
    last_ten = prepare_calls(recording.last_ten, "postgres")
    with server.database("ours") as ours, server.database("bare") as theirs:
        await prepare(theirs)
        async with (
            open_store(ours) as store,
            await psycopg.AsyncConnection.connect(theirs, autocommit=True) as connection,
        ):
            bare = BarePostgres(connection, _SCOPE)
            appending = {
                "ours": _make_append_lap(store, turns),
                "bare": make_lap(lambda: bare.run(next(prepared))),
            }
            reading = {
                "ours": _make_read_lap(store, repeat(_SCOPE)),
                "bare": make_lap(lambda: bare.run(last_ten)),
            }
            appended, read = await _race_both(appending, reading, sizes, tick)
    goals = [
        _make_goal(f"PostgreSQL: {work}, against bare psycopg", _POSTGRES_LIMIT, found, "bare")
        for work, found in {"append a turn of 2 messages": appended, "read the last 10": read}.items()
    ]
    return Part(goals, _make_figures("postgres", appended, read))


def _make_append_lap(store: Store, turns: list[tuple[str, str]]) -> Lap:
    waiting = iter(turns)
    return make_lap(lambda: store.append_turn(messages_of(next(waiting)), scope=_SCOPE))


def _make_read_lap(store: Store, scopes: Iterator[Scope]) -> Lap:
    return make_lap(lambda: store.last_messages(_LAST, scope=next(scopes)))


def _make_peer_laps(session: Session, turns: list[tuple[str, str]]) -> tuple[Lap, Lap]:
    waiting = iter(turns)
    return (
        make_lap(lambda: session.add_items(items_of(next(waiting)))),
        make_lap(lambda: session.get_items(_LAST)),
    )


async def _race_both(
    appending: dict[str, Lap], reading: dict[str, Lap], sizes: StoreSizes, tick: Tick
) -> tuple[dict[str, Timings], dict[str, Timings]]:
    appended = await race(
        appending,
        rounds=sizes.rounds,
        tries=sizes.tries,
        tick=lambda done: tick(done / 2),
        warm_up=sizes.warm_up,
    )
    read = await race(reading, rounds=sizes.rounds, tries=sizes.tries, tick=lambda done: tick(0.5 + done / 2))
    return appended, read


def _make_goal(name: str, limit: float, found: dict[str, Timings], other: str) -> Goal:
    if other not in found:
        return at_most(name, limit, None)
    return ratio_goal(name, limit, compute_ratio(found["ours"], found[other]), found["ours"], found[other])


def _make_figures(engine: str, appended: dict[str, Timings], read: dict[str, Timings]) -> dict[str, object]:
    return {f"{engine}_append": figures_of(appended), f"{engine}_read_last_10": figures_of(read)}


def _make_note(folder: Path, session: Session | None) -> str:
    if session is None:
        return f"SQLiteSession was not measured because it is not installed: {INSTALL}"
    return (
        f"SQLiteSession commits with {describe_durability(folder / 'peer.db')}; recollect and bare APSW with "
        "journal_mode=WAL, synchronous=FULL and secure_delete=ON. SQLiteSession writes no search rows."
    )


async def measure_large_sqlite(folder: Path, sizes: StoreSizes, tick: Tick) -> Part:
    """Compare reading in a small and a large SQLite file: other users must not slow it down."""
    small, large = folder / "small.db", folder / "large.db"
    fill.fill_sqlite(small, fill.make_crowd(SMALL_STORE), ignore_progress)
    fill.fill_sqlite(large, fill.make_crowd(sizes.large_store), lambda done: tick(done * 0.9))
    return await _compare(f"sqlite:///{small}", f"sqlite:///{large}", "SQLite", sizes)


async def measure_large_postgres(server: Server, sizes: StoreSizes, tick: Tick) -> Part:
    """Compare reading in a small and a large PostgreSQL database."""
    with server.database("small") as small, server.database("large") as large:
        await fill.fill_postgres(small, fill.make_crowd(SMALL_STORE), ignore_progress)
        await fill.fill_postgres(large, fill.make_crowd(sizes.large_store), lambda done: tick(done * 0.9))
        server.settle()
        return await _compare(small, large, "PostgreSQL", sizes)


async def _compare(small_url: str, large_url: str, engine: str, sizes: StoreSizes) -> Part:
    users = fill.count_users(sizes.large_store)
    async with AsyncExitStack() as stack:
        small = await stack.enter_async_context(open_store(small_url))
        large = await stack.enter_async_context(open_store(large_url))
        laps = {
            "large": _make_read_lap(large, _draw_scopes(users)),
            "small": _make_read_lap(small, _draw_scopes(fill.count_users(SMALL_STORE))),
        }
        found = await race(laps, rounds=sizes.rounds, tries=sizes.tries, tick=ignore_progress)
    name = (
        f"{engine}: last 10 of a thread among {sizes.large_store:,} messages of {users:,} users, "
        f"against {SMALL_STORE:,} messages"
    )
    measured = compute_ratio(found["large"], found["small"])
    goal = ratio_goal(name, _LARGE_LIMIT, measured, found["large"], found["small"])
    return Part([goal], {f"{engine.lower()}_large_store": figures_of(found)})


def _draw_scopes(users: int) -> Iterator[Scope]:
    scopes = [fill.scope_of(number) for number in range(users)]
    choice = random.Random(3)
    while True:
        yield choice.choice(scopes)
