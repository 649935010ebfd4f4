"""How long a question takes: warm and cold, over few and many messages, and among other people's.

All contestants of a goal ask the same questions, and take turns.
"""

import statistics
from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle
from typing import NamedTuple, TypeAlias

from recollect.bench.recall_fill import SEARCHED, ready_embedder, unit_vectors
from recollect.bench.recall_sizes import RecallSizes
from recollect.bench.recorder import Recorder
from recollect.bench.report import Goal, Part, Tick, at_most, micros, ratio_goal
from recollect.bench.texts import Talk
from recollect.bench.timing import Lap, Ratio, Timings, lap_of, percentile, race, ratio
from recollect.recall.embedding.embedder import Embedding
from recollect.recall.index.cache import MOST_MESSAGES
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.storage.engine import Statement
from recollect.storage.opening import StoreHandle
from recollect.storage.sqlite.connection import MEMORY
from recollect.storage.sqlite.engine import SqliteEngine
from recollect.storage.store import Store

ReadBare: TypeAlias = Callable[[], Awaitable[object]]
"""Reads the search rows of the user with a bare driver."""

Ticker: TypeAlias = Callable[[str], Tick]
"""Begins a part by name, and returns what is to be told how much of it is done."""

WARM, COLD, GROWTH, AMONG_OTHERS = 1.5, 1.5, 25, 1.2
"""The goals."""

_SETTINGS = RecallSettings(top_k=4, message_range=1)
_QUESTIONS = 50


class Searched(NamedTuple):
    """An engine, the stores in which the user has few, usual and many messages, and the bare driver."""

    engine: str
    few: Store
    usual: Store
    many: Store
    read_bare: ReadBare


async def measure(searched: Searched, embedder: Embedding, sizes: RecallSizes, ticker: Ticker) -> Part:
    """Measure what is measured on both engines."""
    found = await _warm(searched, embedder, sizes, ticker(f"{searched.engine}, warm"))
    found.add(await _cold(searched, embedder, sizes, ticker(f"{searched.engine}, cold")))
    found.add(await _growth(searched, embedder.model_id, sizes, ticker(f"{searched.engine}, few and many")))
    return found


async def _warm(searched: Searched, embedder: Embedding, sizes: RecallSizes, tick: Tick) -> Part:
    """Compare a question with embedding it and one scan over as many vectors."""
    matrix = unit_vectors(sizes.usual)
    questions = _questions()

    async def bare() -> object:
        return matrix @ await embedder.query(next(questions))

    laps = {"ours": _asking(Recaller(StoreHandle(searched.usual), embedder)), "bare": lap_of(bare)}
    found = await race(laps, rounds=sizes.rounds, tries=sizes.tries, tick=tick)
    name = _warm_name(searched.engine, sizes)
    goal = ratio_goal(name, WARM, ratio(found["ours"], found["bare"]), found["ours"], found["bare"])
    return Part([goal], {f"{searched.engine.lower()}_warm": _figures(found)})


async def _cold(searched: Searched, embedder: Embedding, sizes: RecallSizes, tick: Tick) -> Part:
    """Compare what a question costs more when nothing is in memory yet with a bare reading of the rows."""
    handle, questions = StoreHandle(searched.usual), _questions()
    laps = {
        "cold": lap_of(lambda: Recaller(handle, embedder).search(next(questions), _SETTINGS, scope=SEARCHED)),
        "warm": _asking(Recaller(handle, embedder)),
        "bare": lap_of(searched.read_bare),
    }
    found = await race(laps, rounds=sizes.cold_rounds, tries=1, tick=tick)
    cold, warm, bare = (found[name] for name in laps)
    measured = _beyond(cold, warm, bare)
    goal = Goal(
        _cold_name(searched.engine, sizes),
        at_most(COLD),
        round(measured.value, 3),
        measured.value <= COLD,
        ours=f"{(cold.p50 - warm.p50) * 1e6:,.0f} µs",
        other=micros(bare),
        spread=measured.spread,
    )
    return Part([goal], {f"{searched.engine.lower()}_cold": _figures(found)})


async def _growth(searched: Searched, model_id: str, sizes: RecallSizes, tick: Tick) -> Part:
    """Compare a question over many messages with one over few, without the time of the embedder."""
    found = await _compared({"many": searched.many, "few": searched.few}, model_id, sizes, tick)
    name = _growth_name(searched.engine, sizes)
    goal = ratio_goal(name, GROWTH, ratio(found["many"], found["few"]), found["many"], found["few"])
    return Part([goal], {f"{searched.engine.lower()}_growth": _figures(found)})


async def measure_among_others(
    alone: Store, among: Store, model_id: str, sizes: RecallSizes, tick: Tick
) -> Part:
    """Compare a question in a store with many other users with one in a store without."""
    found = await _compared({"among": among, "alone": alone}, model_id, sizes, tick)
    name = (
        f"SQLite: a question over {sizes.usual:,} messages, without embedding, among {sizes.others:,} of "
        "other users, against none"
    )
    goal = ratio_goal(
        name, AMONG_OTHERS, ratio(found["among"], found["alone"]), found["among"], found["alone"]
    )
    return Part([goal], {"sqlite_among_others": _figures(found)})


def names_and_limits(engine: str, sizes: RecallSizes) -> list[tuple[str, float]]:
    """Return the goals that are the same for both engines."""
    return [
        (_warm_name(engine, sizes), WARM),
        (_cold_name(engine, sizes), COLD),
        (_growth_name(engine, sizes), GROWTH),
    ]


def _warm_name(engine: str, sizes: RecallSizes) -> str:
    return f"{engine}: a question over {sizes.usual:,} messages, against embedding it and one scan of vectors"


def _cold_name(engine: str, sizes: RecallSizes) -> str:
    return (
        f"{engine}: the first question over {sizes.usual:,} messages, less a later one, against bare reading "
        "of the search rows"
    )


def _growth_name(engine: str, sizes: RecallSizes) -> str:
    return f"{engine}: a question over {sizes.many:,} messages, without embedding, against {sizes.few:,}"


async def reading_statements() -> list[Statement]:
    """Take down the statements with which a search reads a user's rows for the first time."""
    recorder = Recorder(await SqliteEngine.open(MEMORY))
    async with Store(recorder) as store:
        await store.search_rows(limit=MOST_MESSAGES, scope=SEARCHED)
    return recorder.transactions[-1]


async def _compared(
    stores: Mapping[str, Store], model_id: str, sizes: RecallSizes, tick: Tick
) -> dict[str, Timings]:
    embedder = ready_embedder(model_id)
    laps = {name: _asking(Recaller(StoreHandle(store), embedder)) for name, store in stores.items()}
    return await race(laps, rounds=sizes.rounds, tries=sizes.tries, tick=tick)


def _questions() -> "cycle[str]":
    return cycle(Talk().questions(_QUESTIONS))


def _asking(recaller: Recaller) -> Lap:
    questions = _questions()
    return lap_of(lambda: recaller.search(next(questions), _SETTINGS, scope=SEARCHED))


def _beyond(cold: Timings, warm: Timings, bare: Timings) -> Ratio:
    rounds = zip(cold.rounds, warm.rounds, bare.rounds, strict=True)
    medians = [[statistics.median(lap) for lap in laps] for laps in rounds]
    single = sorted((first - later) / other for first, later, other in medians)
    return Ratio((cold.p50 - warm.p50) / bare.p50, percentile(single, 0.1), percentile(single, 0.9))


def _figures(found: Mapping[str, Timings]) -> dict[str, dict[str, float]]:
    return {name: timings.micros() for name, timings in found.items()}
