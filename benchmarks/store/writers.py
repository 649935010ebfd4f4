"""Many concurrent writers on one SQLite file: shared commits against one bare writer, and event-loop lag.

The second time recall is on: each turn is also scheduled for indexing, and the embedder works meanwhile.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

from benchmarks.harness.fixed import FixedSqlite, FixedTurn, prepare_fixed_turns
from benchmarks.harness.load import LoadWatch, wait_until_quiet, watch_load
from benchmarks.harness.logs import WarmUp, fill_logs
from benchmarks.harness.replay import messages_of
from benchmarks.harness.report import NOTHING, Goal, Part, Tick, at_least, at_most, report_only
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import Lap, Timings, compute_percentile, compute_ratio, race
from benchmarks.sizes import StoreSizes
from recollect.recall.embedding.embedder import CheckedEmbedder, default_embedder
from recollect.recall.recaller import Recaller
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle, open_store
from recollect.storage.store import Store

WRITERS = 32
"""How many tasks write at once."""

SLOW_SYNC_MS = 0.4
"""Sharing commits is faster only if a sync of the disk takes at least this long."""

_PROBE_SECONDS = 0.001
_MIN_GAIN, _MAX_LAG_MS = 1.8, 1.0
_GAIN = f"SQLite: {WRITERS} writers, turns per second against one fixed bare writer"
_LAG = f"SQLite: {WRITERS} writers, event-loop lag p50"
_WITH_RECALL = "with recall on"


@dataclass(slots=True)
class Writers:
    """Tasks that each write the turns of one user to a store; `on_saved` is called after each turn."""

    store: Store
    scopes: Sequence[Scope]
    on_saved: Callable[[Scope], None] | None = None
    lags: list[float] = field(default_factory=list[float])

    def make_lap(self, turns: Sequence[tuple[str, str]]) -> Lap:
        """Return a lap that writes the next turns in all tasks, and returns the seconds for each turn."""
        waiting = iter(turns)

        async def lap(count: int) -> list[float]:
            some = list(islice(waiting, count))
            started = time.perf_counter()
            self.lags += await _measure_lags(self._write_all(some))
            return [(time.perf_counter() - started) / count]

        return lap

    async def _write_all(self, turns: list[tuple[str, str]]) -> None:
        users = len(self.scopes)
        await asyncio.gather(
            *(self._write(scope, turns[number::users]) for number, scope in enumerate(self.scopes))
        )

    async def _write(self, scope: Scope, turns: list[tuple[str, str]]) -> None:
        for turn in turns:
            await self.store.append_turn(messages_of(turn), scope=scope)
            if self.on_saved is not None:
                self.on_saved(scope)


@dataclass(slots=True)
class WriterResults:
    """The seconds for each turn, the lags of the event loop, and the conditions of the measurement."""

    timings: dict[str, Timings]
    lags: list[float]
    warm_up: WarmUp
    load: LoadWatch

    def percentile_ms(self, share: float) -> float | None:
        """Return a percentile of the lags."""
        return _percentile_ms(self.lags, share)

    def to_figures(self) -> dict[str, object]:
        """Return the published figures."""
        return {
            "turns_per_second": {name: _list_rates(timings) for name, timings in self.timings.items()},
            "lag_ms": {"p50": self.percentile_ms(0.5), "p90": self.percentile_ms(0.9)},
            "load": self.load.to_figures(),
            "warm_up": self.warm_up.to_figures(),
        }


async def measure(folder: Path, sizes: StoreSizes, sync_ms: float, tick: Tick) -> Part:
    """Race 32 tasks against one bare writer with the same turns, then let them write with recall on."""
    await wait_until_quiet(sizes.quiet_seconds)
    turns = SampleTexts().turns(_count_turns(sizes) * (sizes.writer_rounds + sizes.max_writer_warm_up))
    idle = await _measure_lags(asyncio.sleep(0.2))
    found = await _race_writers(folder, sizes, turns, lambda done: tick(done / 2))
    part = _make_part(found, _percentile_ms(idle, 0.5), sync_ms)
    part.add(await _measure_with_recall(folder, sizes, turns, found, lambda done: tick(0.5 + done / 2)))
    return part


def _count_turns(sizes: StoreSizes) -> int:
    """Return how many turns all writers write in a round."""
    return WRITERS * sizes.turns_per_writer


async def _race_writers(
    folder: Path, sizes: StoreSizes, turns: list[tuple[str, str]], tick: Tick
) -> WriterResults:
    files = {"ours": folder / "writers.db", "fixed": folder / "fixed-writer.db"}
    fixed = FixedSqlite(files["fixed"], sessions=WRITERS)
    prepared = prepare_fixed_turns(turns, WRITERS)
    try:
        async with open_store(f"sqlite:///{files['ours']}") as store:
            writers = Writers(store, _make_scopes("user"))
            laps = {"ours": writers.make_lap(turns), "fixed": _make_fixed_lap(fixed, prepared)}
            with watch_load() as load:
                warm_up = await _fill_logs(laps, files, sizes)
                writers.lags.clear()
                timings = await _race(laps, sizes, tick)
    finally:
        fixed.close()
    return WriterResults(timings, writers.lags, warm_up, load)


def _make_scopes(name: str) -> list[Scope]:
    return [Scope(1, f"{name}-{number}", "conversation") for number in range(WRITERS)]


def _make_fixed_lap(fixed: FixedSqlite, prepared: list[FixedTurn]) -> Lap:
    waiting = iter(prepared)

    async def lap(count: int) -> list[float]:
        some = list(islice(waiting, count))
        started = time.perf_counter()
        for turn in some:
            fixed.append(turn)
        return [(time.perf_counter() - started) / count]

    return lap


async def _fill_logs(laps: dict[str, Lap], files: dict[str, Path], sizes: StoreSizes) -> WarmUp:
    return await fill_logs(laps, files, tries=_count_turns(sizes), max_rounds=sizes.max_writer_warm_up)


async def _race(laps: dict[str, Lap], sizes: StoreSizes, tick: Tick) -> dict[str, Timings]:
    return await race(laps, rounds=sizes.writer_rounds, tries=_count_turns(sizes), tick=tick, warm_up=0)


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


def _make_part(found: WriterResults, idle_ms: float | None, sync_ms: float) -> Part:
    is_slow = sync_ms >= SLOW_SYNC_MS
    work = f"The {WRITERS} writers"
    goals = found.load.judge([_make_gain_goal(found), _make_lag_goal(found)])
    notes = [*found.load.list_notes(work), *found.warm_up.list_notes(work)]
    if not is_slow:
        goals = [replace(goal, met=None) for goal in goals]
        notes.append(
            f"{work} are not judged: making 4 KB durable takes {sync_ms:.2f} ms here, and sharing commits is "
            f"meant for disks that take {SLOW_SYNC_MS} ms or more."
        )
    conditions = {"idle_lag_ms": idle_ms, "judged": is_slow and found.load.is_quiet}
    return Part(goals, {"writers": found.to_figures() | conditions}, notes)


def _make_gain_goal(found: WriterResults) -> Goal:
    ours, fixed = found.timings["ours"], found.timings["fixed"]
    gain = compute_ratio(fixed, ours)  # the time of a turn is one by the rate
    return at_least(
        _GAIN,
        _MIN_GAIN,
        gain.value,
        ours=_format_rate(ours),
        other=_format_rate(fixed),
        spread=gain.spread,
    )


def _make_lag_goal(found: WriterResults) -> Goal:
    lag = found.percentile_ms(0.5)
    return at_most(_LAG, _MAX_LAG_MS, lag, unit=" ms", ours=_format_ms(lag))


def _format_rate(timings: Timings) -> str:
    return f"{1 / timings.p50:,.0f} turns/s"


def _format_ms(lag: float | None) -> str:
    return NOTHING if lag is None else f"{lag:.2f} ms"


def _list_rates(timings: Timings) -> list[int]:
    return [round(1 / seconds) for (seconds,) in timings.rounds]


def _percentile_ms(values: list[float], share: float) -> float | None:
    return round(compute_percentile(sorted(values), share) * 1000, 3) if values else None


async def _measure_with_recall(
    folder: Path, sizes: StoreSizes, turns: list[tuple[str, str]], alone: WriterResults, tick: Tick
) -> Part:
    """Let the writers write with recall on, as `Memory(semantic_recall=True)` does, and count what waits.

    No contestant takes turns with them, because the embedder would work in its rounds too. The warm-up writes
    for other users, who are not indexed.
    """
    path, scopes, embedder = folder / "writers-with-recall.db", _make_scopes("user"), default_embedder()
    await embedder.embed_documents(["Load the model."])
    async with open_store(f"sqlite:///{path}") as store:
        recaller = Recaller(StoreHandle(store), embedder)
        writers = Writers(store, scopes, partial(recaller.schedule_indexing, store=store))
        others = Writers(store, _make_scopes("other"))
        with watch_load() as load:
            warm_up = await _fill_logs({"recall": others.make_lap(turns)}, {"recall": path}, sizes)
            timings = await _race({"recall": writers.make_lap(turns)}, sizes, tick)
        await recaller.close()
        waiting = await _count_waiting(store, embedder, scopes)
    found = WriterResults(timings, writers.lags, warm_up, load)
    written = 2 * _count_turns(sizes) * sizes.writer_rounds
    return _make_recall_part(found, alone.timings["fixed"], waiting, written)


async def _count_waiting(store: Store, embedder: CheckedEmbedder, scopes: Sequence[Scope]) -> int:
    """Return how many messages have no vector; the store counts up to 10,000 of each user."""
    return sum([await store.count_unindexed(embedder.model_id, scope=scope) for scope in scopes])


def _make_recall_part(found: WriterResults, fixed: Timings, waiting: int, written: int) -> Part:
    ours, lag = found.timings["recall"], found.percentile_ms(0.5)
    goals = [
        report_only(
            f"{_GAIN}, {_WITH_RECALL}",
            fixed.p50 / ours.p50,
            ours=_format_rate(ours),
            other=_format_rate(fixed),
        ),
        report_only(f"{_LAG} in ms, {_WITH_RECALL}", lag, ours=_format_ms(lag)),
    ]
    note = (
        f"The {WRITERS} writers {_WITH_RECALL}: when the last of {written:,} messages was stored, "
        f"{waiting:,} still waited for their vectors."
    )
    figures = found.to_figures() | {"messages": written, "waiting": waiting}
    return Part(goals, {"writers_with_recall": figures}, [note])
