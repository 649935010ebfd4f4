"""Many writers at once on one SQLite file: shared commits against one bare writer, and the loop's lag."""

import asyncio
import statistics
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path

from recollect.bench.recorder import Call, calls, messages_of, record
from recollect.bench.report import NOTHING, Goal, Part, Tick, at_least
from recollect.bench.sizes import Sizes
from recollect.bench.sqlite_part import BareSqlite
from recollect.bench.texts import Talk
from recollect.bench.timing import percentile
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.store import Store

WRITERS = 32
"""How many tasks write at once."""

SLOW_SYNC_MS = 0.3
"""Sharing commits can gain only where a commit waits for the disk for so long."""

_PROBE_SECONDS = 0.001
_LEAST_GAIN, _MOST_LAG_MS = 3.0, 1.0


@dataclass(slots=True)
class Found:
    """Turns per second of each round, and the lags of the event loop."""

    ours: list[float] = field(default_factory=list[float])
    bare: list[float] = field(default_factory=list[float])
    lags: list[float] = field(default_factory=list[float])


async def measure(folder: Path, sizes: Sizes, sync_ms: float, tick: Tick) -> Part:
    """Let 32 tasks and one bare writer write the same turns in alternating rounds."""
    scopes = [Scope(1, f"user-{number}", "conversation") for number in range(WRITERS)]
    each = WRITERS * sizes.turns_per_writer
    turns = Talk().turns(each * (sizes.writer_rounds + 1))
    recorded = await record(turns, scopes)
    prepared = [calls(turn, "sqlite") for turn in recorded.turns]
    bare, found = BareSqlite(folder / "bare-writer.db"), Found()
    idle = await _lags_while(asyncio.sleep(0.2))
    try:
        async with open_store(f"sqlite:///{folder / 'writers.db'}") as store:
            for number in range(sizes.writer_rounds + 1):
                some = slice(number * each, (number + 1) * each)
                await _round(found, store, scopes, turns[some], bare, prepared[some])
                if number == 0:
                    found = Found()  # the first round warms up
                tick(number / sizes.writer_rounds)
    finally:
        bare.close()
    return _part(found, idle, sync_ms)


async def _round(  # noqa: PLR0917 - two contestants, each with its work
    found: Found,
    store: Store,
    scopes: list[Scope],
    turns: list[tuple[str, str]],
    bare: BareSqlite,
    prepared: list[list[Call]],
) -> None:
    started = time.perf_counter()
    found.lags += await _lags_while(_write_all(store, scopes, turns))
    found.ours.append(len(turns) / (time.perf_counter() - started))
    started = time.perf_counter()
    for turn in prepared:
        bare.append(turn)
    found.bare.append(len(turns) / (time.perf_counter() - started))


async def _write_all(store: Store, scopes: list[Scope], turns: list[tuple[str, str]]) -> None:
    writers = [_write(store, scope, turns[number :: len(scopes)]) for number, scope in enumerate(scopes)]
    await asyncio.gather(*writers)


async def _write(store: Store, scope: Scope, turns: list[tuple[str, str]]) -> None:
    for turn in turns:
        await store.append_turn(messages_of(turn), scope=scope)


async def _lags_while(work: Awaitable[object]) -> list[float]:
    """Return by how much each short sleep of a task overslept while some work went on."""
    lags: list[float] = []
    probe = asyncio.create_task(_probe(lags))
    try:
        await work
    finally:
        probe.cancel()
    return lags


async def _probe(lags: list[float]) -> None:
    while True:
        started = time.perf_counter()
        await asyncio.sleep(_PROBE_SECONDS)
        lags.append(time.perf_counter() - started - _PROBE_SECONDS)


def _part(found: Found, idle: list[float], sync_ms: float) -> Part:
    ours, bare = statistics.median(found.ours), statistics.median(found.bare)
    gains = sorted(mine / theirs for mine, theirs in zip(found.ours, found.bare, strict=True))
    lags = sorted(found.lags)
    lag_ms = percentile(lags, 0.5) * 1000 if lags else None
    is_judged = sync_ms >= SLOW_SYNC_MS
    gain = Goal(
        f"SQLite: {WRITERS} writers, turns per second against one bare writer",
        at_least(_LEAST_GAIN),
        round(ours / bare, 2),
        ours / bare >= _LEAST_GAIN if is_judged else None,
        ours=f"{ours:,.0f} turns/s",
        other=f"{bare:,.0f} turns/s",
        spread=f"{percentile(gains, 0.1):.2f} to {percentile(gains, 0.9):.2f}",
    )
    figures: dict[str, object] = {
        "turns_per_second": {"ours": [round(value) for value in found.ours]}
        | {"bare": [round(value) for value in found.bare]},
        "lag_ms": {"idle_p50": _p(sorted(idle), 0.5), "p50": _p(lags, 0.5), "p90": _p(lags, 0.9)},
        "judged": is_judged,
    }
    return Part(
        [gain, _lag_goal(lag_ms, is_judged=is_judged)],
        {"writers": figures},
        _notes(sync_ms, is_judged=is_judged),
    )


def _lag_goal(lag_ms: float | None, *, is_judged: bool) -> Goal:
    met = lag_ms is not None and lag_ms <= _MOST_LAG_MS
    return Goal(
        f"SQLite: {WRITERS} writers, event-loop lag p50",
        f"≤ {_MOST_LAG_MS:g} ms",
        None if lag_ms is None else round(lag_ms, 3),
        met if is_judged else None,
        ours=NOTHING if lag_ms is None else f"{lag_ms:.2f} ms",
    )


def _p(ordered: list[float], share: float) -> float | None:
    return round(percentile(ordered, share) * 1000, 3) if ordered else None


def _notes(sync_ms: float, *, is_judged: bool) -> list[str]:
    if is_judged:
        return []
    note = (
        f"The {WRITERS} writers are not judged: making 4 KB durable takes {sync_ms:.2f} ms here, and "
        f"sharing commits is meant for disks that take {SLOW_SYNC_MS} ms or more."
    )
    return [note]
