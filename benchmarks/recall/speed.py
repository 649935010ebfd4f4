"""How long a question takes, warm and cold, over few and many messages, and how long indexing takes.

All contestants of a goal ask the same questions, and take turns.
"""

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path

from benchmarks.harness.report import Goal, Part, Tick, Ticker, at_least, at_most, micros, ratio_goal
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import Lap, Ratio, Timings, figures_of, lap_of, medians, race, ratio
from benchmarks.recall.stores import SEARCHED, Searched, ready_embedder, unit_vectors
from benchmarks.sizes import RecallSizes
from recollect.messages import Message
from recollect.recall.embedding.embedder import Embedding
from recollect.recall.embedding.indexer import Indexer
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle, open_store
from recollect.storage.store import Store

_WARM, _COLD, _GROWTH, _AMONG_OTHERS, _INDEXING = 1.5, 1.5, 25, 1.2, 0.95  # the goals
_SETTINGS = RecallSettings(top_k=4, message_range=1)
_QUESTIONS = 50
_INDEX_WARM_UP = 1


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

    laps = {"ours": _ask(Recaller(StoreHandle(searched.usual), embedder)), "bare": lap_of(bare)}
    found = await race(laps, rounds=sizes.rounds, tries=sizes.tries, tick=tick)
    name = (
        f"{searched.engine}: a question over {sizes.usual:,} messages, against embedding it and one scan of "
        "vectors"
    )
    return Part([_goal(name, _WARM, found)], {f"{searched.engine.lower()}_warm": figures_of(found)})


async def _cold(searched: Searched, embedder: Embedding, sizes: RecallSizes, tick: Tick) -> Part:
    """Compare what a question costs more when nothing is in memory yet with a bare reading of the rows."""
    handle, questions = StoreHandle(searched.usual), _questions()
    laps = {
        "cold": lap_of(lambda: Recaller(handle, embedder).search(next(questions), _SETTINGS, scope=SEARCHED)),
        "warm": _ask(Recaller(handle, embedder)),
        "bare": lap_of(searched.read_bare),
    }
    found = await race(laps, rounds=sizes.cold_rounds, tries=1, tick=tick)
    cold, warm, bare = (found[name] for name in laps)
    measured = Ratio.of(
        (cold.p50 - warm.p50) / bare.p50,
        ((first - later) / other for first, later, other in medians(cold, warm, bare)),
    )
    goal = at_most(
        f"{searched.engine}: the first question over {sizes.usual:,} messages, less a later one, against "
        "bare reading of the search rows",
        _COLD,
        measured.value,
        ours=micros(cold.p50 - warm.p50),
        other=micros(bare.p50),
        spread=measured.spread,
    )
    return Part([goal], {f"{searched.engine.lower()}_cold": figures_of(found)})


async def _growth(searched: Searched, model_id: str, sizes: RecallSizes, tick: Tick) -> Part:
    """Compare a question over many messages with one over few, without the time of the embedder."""
    found = await _compare({"many": searched.many, "few": searched.few}, model_id, sizes, tick)
    name = (
        f"{searched.engine}: a question over {sizes.many:,} messages, without embedding, against "
        f"{sizes.few:,}"
    )
    return Part([_goal(name, _GROWTH, found)], {f"{searched.engine.lower()}_growth": figures_of(found)})


async def measure_among_others(
    alone: Store, among: Store, model_id: str, sizes: RecallSizes, tick: Tick
) -> Part:
    """Compare a question in a store with many other users with one in a store without."""
    found = await _compare({"among": among, "alone": alone}, model_id, sizes, tick)
    name = (
        f"SQLite: a question over {sizes.usual:,} messages, without embedding, among {sizes.others:,} of "
        "other users, against none"
    )
    return Part([_goal(name, _AMONG_OTHERS, found)], {"sqlite_among_others": figures_of(found)})


def _goal(name: str, limit: float, found: Mapping[str, Timings]) -> Goal:
    """Judge the first of two contestants against the second."""
    ours, other = found.values()
    return ratio_goal(name, limit, ratio(ours, other), ours, other)


async def _compare(
    stores: Mapping[str, Store], model_id: str, sizes: RecallSizes, tick: Tick
) -> dict[str, Timings]:
    embedder = ready_embedder(model_id)
    laps = {name: _ask(Recaller(StoreHandle(store), embedder)) for name, store in stores.items()}
    return await race(laps, rounds=sizes.rounds, tries=sizes.tries, tick=tick)


def _questions() -> "cycle[str]":
    return cycle(SampleTexts().questions(_QUESTIONS))


def _ask(recaller: Recaller) -> Lap:
    questions = _questions()
    return lap_of(lambda: recaller.search(next(questions), _SETTINGS, scope=SEARCHED))


async def measure_indexing(folder: Path, embedder: Embedding, sizes: RecallSizes, tick: Tick) -> Part:
    """Let the indexer and the bare embedder take turns, each with the texts of one user after another."""
    samples = SampleTexts()
    texts = [samples.texts(sizes.indexed) for _ in range(_INDEX_WARM_UP + sizes.index_rounds)]
    scopes = [Scope(1, f"indexed-{number}", "conversation") for number in range(len(texts))]
    async with open_store(f"sqlite:///{folder / 'indexing.db'}") as store:
        for scope, said in zip(scopes, texts, strict=True):
            await store.append_turn([Message("user", text) for text in said], scope=scope)
        waiting, batches = iter(scopes), iter(texts)
        indexer = Indexer(embedder)
        laps = {
            "ours": lap_of(lambda: _index(indexer, next(waiting), store)),
            "bare": lap_of(lambda: embedder.documents(next(batches))),
        }
        found = await race(laps, rounds=sizes.index_rounds, tries=1, tick=tick, warm_up=_INDEX_WARM_UP)
        await indexer.close()
    measured = ratio(found["bare"], found["ours"])
    ours, bare = (f"{sizes.indexed / found[name].p50:,.0f} messages/s" for name in ("ours", "bare"))
    goal = at_least(
        "SQLite: messages embedded and stored per second, against the embedder alone",
        _INDEXING,
        measured.value,
        ours=ours,
        other=bare,
        spread=measured.spread,
    )
    return Part([goal], {"indexing": figures_of(found)})


async def _index(indexer: Indexer, scope: Scope, store: Store) -> None:
    indexer.notify(scope, store)
    await indexer.settled()
