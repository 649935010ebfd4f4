"""Many concurrent writers on one SQLite file: shared commits against one bare writer, and event-loop lag."""

import asyncio
import statistics
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.harness.replay import BareSqlite, Call, messages_of, prepare_calls, record
from benchmarks.harness.report import NOTHING, Goal, Part, Tick, at_least, at_most
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import Ratio, compute_percentile
from benchmarks.sizes import StoreSizes
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.store import Store

WRITERS = 32
"""How many tasks write at once."""

SLOW_SYNC_MS = 0.3
"""Sharing commits is faster only if a sync of the disk takes at least this long."""

_PROBE_SECONDS = 0.001
_MIN_GAIN, _MAX_LAG_MS = 3.0, 1.0


@dataclass(slots=True)
class WriterResults:
    """Turns per second of each round, and the lags of the event loop."""

    ours: list[float] = field(default_factory=list[float])
    bare: list[float] = field(default_factory=list[float])
    lags: list[float] = field(default_factory=list[float])


async def measure(folder: Path, sizes: StoreSizes, sync_ms: float, tick: Tick) -> Part:
    """Race 32 tasks against one bare writer with the same turns."""
    scopes = [Scope(1, f"user-{number}", "conversation") for number in range(WRITERS)]
    each = WRITERS * sizes.turns_per_writer
    turns = SampleTexts().turns(each * (sizes.writer_rounds + 1))
    recorded = await record(turns, scopes)
    prepared = [prepare_calls(turn, "sqlite") for turn in recorded.turns]
    bare, found = BareSqlite(folder / "bare-writer.db"), WriterResults()
    idle = await _measure_lags(asyncio.sleep(0.2))
    try:
        async with open_store(f"sqlite:///{folder / 'writers.db'}") as store:
            for number in range(sizes.writer_rounds + 1):
                some = slice(number * each, (number + 1) * each)
                await _run_round(found, store, scopes, turns[some], bare, prepared[some])
                if number == 0:
                    found = WriterResults()  # the first round warms up
                tick(number / sizes.writer_rounds)
    finally:
        bare.close()
    return _make_part(found, idle, sync_ms)


async def _run_round(  # noqa: PLR0917 - two contestants, each with its work
    found: WriterResults,
    store: Store,
    scopes: list[Scope],
    turns: list[tuple[str, str]],
    bare: BareSqlite,
    prepared: list[list[Call]],
) -> None:
    started = time.perf_counter()
    found.lags += await _measure_lags(_write_all(store, scopes, turns))
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


async def _measure_lags(work: Awaitable[object]) -> list[float]:
    """Return the delays of a task's short sleeps while some work runs."""
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


def _make_part(found: WriterResults, idle: list[float], sync_ms: float) -> Part:
    is_judged = sync_ms >= SLOW_SYNC_MS
    lags = sorted(found.lags)
    figures: dict[str, object] = {
        "turns_per_second": {
            "ours": [round(value) for value in found.ours],
            "bare": [round(value) for value in found.bare],
        },
        "lag_ms": {
            "idle_p50": _percentile_ms(sorted(idle), 0.5),
            "p50": _percentile_ms(lags, 0.5),
            "p90": _percentile_ms(lags, 0.9),
        },
        "judged": is_judged,
    }
    goals = [_make_gain_goal(found), _make_lag_goal(_percentile_ms(lags, 0.5))]
    if is_judged:
        return Part(goals, {"writers": figures})
    note = (
        f"The {WRITERS} writers are not judged: making 4 KB durable takes {sync_ms:.2f} ms here, and "
        f"sharing commits is meant for disks that take {SLOW_SYNC_MS} ms or more."
    )
    return Part([replace(goal, met=None) for goal in goals], {"writers": figures}, [note])


def _make_gain_goal(found: WriterResults) -> Goal:
    ours, bare = statistics.median(found.ours), statistics.median(found.bare)
    gain = Ratio.of(ours / bare, (mine / theirs for mine, theirs in zip(found.ours, found.bare, strict=True)))
    return at_least(
        f"SQLite: {WRITERS} writers, turns per second against one bare writer",
        _MIN_GAIN,
        gain.value,
        ours=f"{ours:,.0f} turns/s",
        other=f"{bare:,.0f} turns/s",
        spread=gain.spread,
    )


def _make_lag_goal(lag_ms: float | None) -> Goal:
    shown = NOTHING if lag_ms is None else f"{lag_ms:.2f} ms"
    name = f"SQLite: {WRITERS} writers, event-loop lag p50"
    return at_most(name, _MAX_LAG_MS, lag_ms, unit=" ms", ours=shown)


def _percentile_ms(ordered: list[float], share: float) -> float | None:
    return round(compute_percentile(ordered, share) * 1000, 3) if ordered else None
