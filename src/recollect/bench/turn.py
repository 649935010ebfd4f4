"""The benchmark of the turn: `recollect bench turn`.

The models are local and answer at once, so that all that is measured is the work around them.
"""

import statistics
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from recollect.agent.agent import Agent
from recollect.bench import stream_part
from recollect.bench.bare_agent import bare_turn, instant_model
from recollect.bench.machine import disk_folder, facts, is_in_memory
from recollect.bench.recorder import messages_of
from recollect.bench.report import Goal, Part, Report, Show, at_most
from recollect.bench.texts import Talk
from recollect.bench.timing import Lap, Timings, lap_of, percentile, race
from recollect.memory.memory import Memory
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.store import Store

_LIMIT = 0.15
_LAST = 10
_PROMPT, _REPLY = Talk().turns(1)[0]
_OURS, _APART = Scope(1, "user", "conversation"), Scope(1, "user", "apart")
_STREAM_START, _MEMORY_START = 0.3, 0.7  # shares of the time that a full run takes


@dataclass(frozen=True, slots=True)
class TurnSizes:
    """Rounds and tries of each part, and how long the streams are whose memory is compared."""

    rounds: int = 60
    warm_up: int = 10
    tries: int = 20
    stream_rounds: int = 60
    stream_tries: int = 3
    short_stream: int = 1_000
    long_stream: int = 100_000


QUICK = TurnSizes(3, 1, 5, 2, 1, 100, 1_000)
"""For tests: the figures mean little."""


async def run(sizes: TurnSizes, *, show: Show) -> Report:
    """Measure everything and return what was found."""
    with tempfile.TemporaryDirectory(prefix="recollect-bench-", dir=disk_folder()) as name:
        folder = Path(name)
        machine = facts(folder)
        found = await _measure_turn(folder, sizes, show)
        if is_in_memory(folder):
            found.notes.append("The files were in memory, not on a disk: commits cost nothing here.")
    width = _MEMORY_START - _STREAM_START
    found.add(
        await stream_part.measure_time(
            sizes.stream_rounds,
            sizes.stream_tries,
            lambda done: show("streaming", _STREAM_START + done * width),
        )
    )
    show("memory of a stream", _MEMORY_START)
    found.add(await stream_part.measure_memory(sizes.short_stream, sizes.long_stream))
    show("done", 1)
    return Report("turn", datetime.now(UTC).date().isoformat(), machine, found)


async def _measure_turn(folder: Path, sizes: TurnSizes, show: Show) -> Part:
    async with open_store(f"sqlite:///{folder / 'turns.db'}") as store:
        for scope in (_OURS, _APART):
            for turn in Talk().turns(_LAST // 2):
                await store.append_turn(messages_of(turn), scope=scope)
        found = await race(
            await _laps(store),
            rounds=sizes.rounds,
            tries=sizes.tries,
            tick=lambda done: show("a turn", done * _STREAM_START),
            warm_up=sizes.warm_up,
        )
    return _turn_part(found)


async def _laps(store: Store) -> dict[str, Lap]:
    model = instant_model([_REPLY])
    history = await store.last_messages(_LAST, scope=_OURS)
    ours = Agent(model, memory=Memory(store, last_messages=_LAST))

    turns = [messages_of((_PROMPT, _REPLY))]

    async def two_operations() -> None:
        await store.last_messages(_LAST, scope=_APART)
        await store.append_turn(turns.pop(), scope=_APART)

    async def store_lap(count: int) -> list[float]:
        # Making messages is the agent's work, not the store's.
        turns.extend(messages_of((_PROMPT, _REPLY)) for _ in range(count))
        return await lap_of(two_operations)(count)

    return {
        "ours": lap_of(
            lambda: ours.generate(_PROMPT, tenant_id=1, resource_id=_OURS.user_id, thread_id=_OURS.thread_id)
        ),
        "store": store_lap,
        "bare": lap_of(bare_turn(model, _PROMPT, history)),
    }


def _turn_part(found: dict[str, Timings]) -> Part:
    ours, store, bare = (found[name] for name in ("ours", "store", "bare"))
    added = _added(ours.p50, store.p50, bare.p50)
    single = sorted(
        _added(*map(statistics.median, laps))
        for laps in zip(ours.rounds, store.rounds, bare.rounds, strict=True)
    )
    goal = Goal(
        "SQLite: a turn with history, less the store's two operations: what it adds to a bare turn",
        at_most(_LIMIT),
        round(added, 3),
        added <= _LIMIT,
        ours=f"{(ours.p50 - store.p50) * 1e6:,.0f} µs",
        other=f"{bare.p50 * 1e6:,.0f} µs",
        spread=f"{percentile(single, 0.1):.2f} to {percentile(single, 0.9):.2f}",
    )
    return Part([goal], {"turn": {name: timings.micros() for name, timings in found.items()}}, [_note(found)])


def _added(ours: float, store: float, bare: float) -> float:
    return (ours - store - bare) / bare


def _note(found: dict[str, Timings]) -> str:
    whole, store = (found[name].p50 * 1e6 for name in ("ours", "store"))
    return (
        f"A whole turn took {whole:,.0f} µs, of which the store's two operations, measured apart, take "
        f"{store:,.0f} µs. What a turn adds is (turn - store - bare) / bare; it is below zero where our loop "
        "costs less than Pydantic AI's own."
    )
