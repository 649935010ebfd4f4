"""Appending a turn and reading the last ten: against bare drivers and a peer, and in a large store."""

import random
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import repeat
from pathlib import Path

import psycopg

from benchmarks.harness import fill
from benchmarks.harness.load import LoadWatch, wait_until_quiet, watch_load
from benchmarks.harness.logs import WarmUp, fill_logs
from benchmarks.harness.replay import BarePostgres, prepare_calls, record
from benchmarks.harness.report import Goal, Part, Tick, at_most, ignore_progress, ratio_goal, report_only
from benchmarks.harness.server import Server
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import (
    Lap,
    Timings,
    compute_ratio,
    figures_of,
    make_lap,
    make_processor_lap,
    race,
)
from benchmarks.sizes import StoreSizes
from benchmarks.store.contestants import (
    SCOPE,
    Contestants,
    describe_peer,
    make_append_lap,
    make_read_lap,
    open_contestants,
)
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.postgres.connection import prepare

SMALL_STORE = 1_000
"""How many messages the small store holds."""

# The goals by what the store is compared with; None is only reported.
_APPEND_LIMITS = {"fixed": 1.5, "replay": 1.35, "peer": 0.8}
_READ_LIMITS = {"fixed": 2.0, "replay": None, "peer": 0.4}
_PROCESSOR_LIMITS = {"fixed": None, "replay": None}
_POSTGRES_LIMITS = {"bare": 1.5}
_LARGE_LIMITS = {"SQLite": 1.6, "PostgreSQL": 1.3}
_NAMES = {
    "fixed": "fixed bare APSW",
    "replay": "a replay of its own statements",
    "peer": "SQLiteSession",
    "bare": "bare psycopg",
}


async def measure_sqlite(folder: Path, sizes: StoreSizes, tick: Tick) -> Part:
    """Measure appending and reading on SQLite, against two bare writers and SQLiteSession."""
    await wait_until_quiet(sizes.quiet_seconds)
    async with open_contestants(folder, sizes.sqlite_turns) as sides:
        with watch_load() as load:
            warm_up = await _fill_logs(sides, sizes)
            appended = await _race(sides.appending, sizes, lambda done: tick(done / 2), warm_up=0)
        read = await _race(sides.reading, sizes, lambda done: tick(0.5 + done / 2))
        note = describe_peer(sides)
    appending, work = "SQLite: append a turn of 2 messages", "Appending to SQLite"
    return Part(
        [
            *load.judge(_make_goals(appending, _APPEND_LIMITS, appended)),
            *_make_goals("SQLite: read the last 10", _READ_LIMITS, read),
        ],
        _make_figures("sqlite", appended, read, load) | {"sqlite_append_warm_up": warm_up.to_figures()},
        [note, *load.list_notes(work), *warm_up.list_notes(work)],
    )


async def measure_processor_time(folder: Path, sizes: StoreSizes, tick: Tick) -> Part:
    """Measure the processor time of the same append without waiting for the disk."""
    files = folder / "processor"
    files.mkdir()
    async with open_contestants(files, sizes.sqlite_turns, is_durable=False) as sides:
        warm_up = await _fill_logs(sides, sizes)
        laps = {name: make_processor_lap(lap) for name, lap in sides.appending.items()}
        found = await _race(laps, sizes, tick, warm_up=0)
    name = "SQLite: processor time of an append with synchronous=OFF"
    return Part(
        _make_goals(name, _PROCESSOR_LIMITS, found),
        {"sqlite_append_processor": figures_of(found), "sqlite_processor_warm_up": warm_up.to_figures()},
        warm_up.list_notes("Processor time of an append"),
    )


async def _fill_logs(sides: Contestants, sizes: StoreSizes) -> WarmUp:
    return await fill_logs(sides.appending, sides.files, tries=sizes.tries, max_rounds=sizes.max_warm_up)


async def measure_postgres(server: Server, sizes: StoreSizes, tick: Tick) -> Part:
    """Measure appending and reading on PostgreSQL, against bare psycopg under the same tenant rules."""
    turns = SampleTexts().turns(sizes.postgres_turns)
    recording = await record(turns, [SCOPE])
    prepared = iter([prepare_calls(turn, "postgres") for turn in recording.turns])
    last_ten = prepare_calls(recording.last_ten, "postgres")
    await wait_until_quiet(sizes.quiet_seconds)
    with server.database("ours") as ours, server.database("bare") as theirs:
        await prepare(theirs)
        async with (
            open_store(ours) as store,
            await psycopg.AsyncConnection.connect(theirs, autocommit=True) as connection,
        ):
            bare = BarePostgres(connection, SCOPE)
            appending = {
                "ours": make_append_lap(store, turns),
                "bare": make_lap(lambda: bare.run(next(prepared))),
            }
            reading = {
                "ours": make_read_lap(store, repeat(SCOPE)),
                "bare": make_lap(lambda: bare.run(last_ten)),
            }
            with watch_load() as load:
                appended = await _race(
                    appending, sizes, lambda done: tick(done / 2), warm_up=sizes.postgres_warm_up
                )
            read = await _race(reading, sizes, lambda done: tick(0.5 + done / 2))
    goals = [
        *load.judge(_make_goals("PostgreSQL: append a turn of 2 messages", _POSTGRES_LIMITS, appended)),
        *_make_goals("PostgreSQL: read the last 10", _POSTGRES_LIMITS, read),
    ]
    notes = load.list_notes("Appending to PostgreSQL")
    return Part(goals, _make_figures("postgres", appended, read, load), notes)


async def _race(
    laps: Mapping[str, Lap], sizes: StoreSizes, tick: Tick, *, warm_up: int = 2
) -> dict[str, Timings]:
    return await race(laps, rounds=sizes.rounds, tries=sizes.tries, tick=tick, warm_up=warm_up)


def _make_goals(work: str, limits: Mapping[str, float | None], found: Mapping[str, Timings]) -> list[Goal]:
    """Return the goals of one race, one for each other contestant."""
    return [_make_goal(f"{work}, against {_NAMES[other]}", limits[other], found, other) for other in limits]


def _make_goal(name: str, limit: float | None, found: Mapping[str, Timings], other: str) -> Goal:
    if other not in found:
        return report_only(name, None) if limit is None else at_most(name, limit, None)
    return ratio_goal(name, limit, compute_ratio(found["ours"], found[other]), found["ours"], found[other])


def _make_figures(
    engine: str, appended: Mapping[str, Timings], read: Mapping[str, Timings], load: LoadWatch
) -> dict[str, object]:
    return {
        f"{engine}_append": figures_of(appended),
        f"{engine}_append_load": load.to_figures(),
        f"{engine}_read_last_10": figures_of(read),
    }


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
            "large": make_read_lap(large, _draw_scopes(users)),
            "small": make_read_lap(small, _draw_scopes(fill.count_users(SMALL_STORE))),
        }
        found = await race(laps, rounds=sizes.rounds, tries=sizes.tries, tick=ignore_progress)
    name = (
        f"{engine}: last 10 of a thread among {sizes.large_store:,} messages of {users:,} users, "
        f"against {SMALL_STORE:,} messages"
    )
    measured = compute_ratio(found["large"], found["small"])
    goal = ratio_goal(name, _LARGE_LIMITS[engine], measured, found["large"], found["small"])
    return Part([goal], {f"{engine.lower()}_large_store": figures_of(found)})


def _draw_scopes(users: int) -> Iterator[Scope]:
    scopes = [fill.scope_of(number) for number in range(users)]
    choice = random.Random(3)
    while True:
        yield choice.choice(scopes)
