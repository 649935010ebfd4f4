"""The speed of a question, warm and cold, over few and many messages, and the speed of indexing.

All contestants of a goal ask the same questions and take turns.
"""

import time
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path

from benchmarks.harness.report import (
    Goal,
    Part,
    Tick,
    Ticker,
    at_least,
    at_most,
    format_micros,
    ratio_goal,
    report_only,
)
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import (
    Lap,
    Ratio,
    Timings,
    compute_medians,
    compute_ratio,
    figures_of,
    make_lap,
    race,
)
from benchmarks.recall.stores import (
    SEARCHED,
    SearchedStores,
    make_instant_embedder,
    make_owners,
    make_unit_vectors,
    sqlite_store,
)
from benchmarks.sizes import RecallSizes
from recollect.messages import Message
from recollect.recall.embedding.embedder import CheckedEmbedder
from recollect.recall.embedding.indexer import Indexer
from recollect.recall.index.cache import IndexCache
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle, open_store
from recollect.storage.store import Store

_WARM, _COLD, _GROWTH, _AMONG_OTHERS, _INDEXING = 1.5, 1.5, 25, 1.2, 0.95  # the goals
_LARGE, _BYTES_A_MESSAGE = 15, 1_200  # those of a large user
_SETTINGS = RecallSettings(top_k=4, message_range=1)
_QUESTIONS = 50
_INDEX_WARM_UP = 1


async def measure(
    searched: SearchedStores, embedder: CheckedEmbedder, sizes: RecallSizes, ticker: Ticker
) -> Part:
    """Measure the goals of one engine."""
    found = await _measure_warm(searched, embedder, sizes, ticker(f"{searched.engine}, warm"))
    found.add(await _measure_cold(searched, embedder, sizes, ticker(f"{searched.engine}, cold")))
    found.add(
        await _measure_growth(searched, embedder.model_id, sizes, ticker(f"{searched.engine}, few and many"))
    )
    return found


async def _measure_warm(
    searched: SearchedStores, embedder: CheckedEmbedder, sizes: RecallSizes, tick: Tick
) -> Part:
    """Compare a question with embedding it and one scan over as many vectors."""
    matrix = make_unit_vectors(sizes.usual)
    questions = _cycle_questions()

    async def bare() -> object:
        return matrix @ await embedder.embed_query(next(questions))

    laps = {"ours": _make_search_lap(Recaller(StoreHandle(searched.usual), embedder)), "bare": make_lap(bare)}
    found = await race(laps, rounds=sizes.rounds, tries=sizes.tries, tick=tick)
    name = (
        f"{searched.engine}: a question over {sizes.usual:,} messages, against embedding it and one scan of "
        "vectors"
    )
    return Part([_make_goal(name, _WARM, found)], {f"{searched.engine.lower()}_warm": figures_of(found)})


async def _measure_cold(
    searched: SearchedStores, embedder: CheckedEmbedder, sizes: RecallSizes, tick: Tick
) -> Part:
    """Compare the extra cost of a question without an index in memory with a bare read of the rows."""
    handle, questions = StoreHandle(searched.usual), _cycle_questions()
    laps = {
        "cold": make_lap(
            lambda: Recaller(handle, embedder).search(next(questions), _SETTINGS, scope=SEARCHED)
        ),
        "warm": _make_search_lap(Recaller(handle, embedder)),
        "bare": make_lap(searched.read_bare),
    }
    found = await race(laps, rounds=sizes.cold_rounds, tries=1, tick=tick)
    cold, warm, bare = (found[name] for name in laps)
    measured = Ratio.of(
        (cold.p50 - warm.p50) / bare.p50,
        ((first - later) / other for first, later, other in compute_medians(cold, warm, bare)),
    )
    goal = at_most(
        f"{searched.engine}: the first question over {sizes.usual:,} messages, less a later one, against "
        "bare reading of the search rows",
        _COLD,
        measured.value,
        ours=format_micros(cold.p50 - warm.p50),
        other=format_micros(bare.p50),
        spread=measured.spread,
    )
    return Part([goal], {f"{searched.engine.lower()}_cold": figures_of(found)})


async def _measure_growth(searched: SearchedStores, model_id: str, sizes: RecallSizes, tick: Tick) -> Part:
    """Compare a question over many messages with one over few, without the time of the embedder."""
    found = await _compare({"many": searched.many, "few": searched.few}, model_id, sizes, tick)
    name = (
        f"{searched.engine}: a question over {sizes.many:,} messages, without embedding, against "
        f"{sizes.few:,}"
    )
    return Part([_make_goal(name, _GROWTH, found)], {f"{searched.engine.lower()}_growth": figures_of(found)})


async def measure_among_others(
    alone: Store, among: Store, model_id: str, sizes: RecallSizes, tick: Tick
) -> Part:
    """Compare a question in a store with many other users with one in a store without."""
    found = await _compare({"among": among, "alone": alone}, model_id, sizes, tick)
    name = (
        f"SQLite: a question over {sizes.usual:,} messages, without embedding, among {sizes.others:,} of "
        "other users, against none"
    )
    return Part([_make_goal(name, _AMONG_OTHERS, found)], {"sqlite_among_others": figures_of(found)})


async def measure_large(folder: Path, many: Store, model_id: str, sizes: RecallSizes, tick: Tick) -> Part:
    """Compare a question of a very large user with one over many messages; read the index once before."""
    owners = make_owners(sizes.large)
    async with sqlite_store(folder, "large", owners, model_id) as large:
        started = time.perf_counter()
        async with IndexCache().open_index(SEARCHED, large) as index:
            seconds, nbytes = time.perf_counter() - started, index.nbytes
        del index  # the race reads its own
        found = await _compare({"large": large, "many": many}, model_id, sizes, tick)
    about = f"SQLite: {{}} over {sizes.large:,} messages"
    goals = [
        _make_goal(f"{about.format('a question')}, without embedding, against {sizes.many:,}", _LARGE, found),
        at_most(
            f"{about.format('the index')}, in bytes a message",
            _BYTES_A_MESSAGE,
            nbytes / sizes.large,
            unit=" bytes",
            ours=f"{nbytes / 1e6:,.0f} MB",
        ),
        report_only(f"{about.format('the first reading')}, in seconds", seconds),
    ]
    return Part(goals, {"sqlite_large": figures_of(found)})


def _make_goal(name: str, limit: float, found: Mapping[str, Timings]) -> Goal:
    """Judge the first of two contestants against the second."""
    ours, other = found.values()
    return ratio_goal(name, limit, compute_ratio(ours, other), ours, other)


async def _compare(
    stores: Mapping[str, Store], model_id: str, sizes: RecallSizes, tick: Tick
) -> dict[str, Timings]:
    embedder = make_instant_embedder(model_id)
    laps = {name: _make_search_lap(Recaller(StoreHandle(store), embedder)) for name, store in stores.items()}
    return await race(laps, rounds=sizes.rounds, tries=sizes.tries, tick=tick)


def _cycle_questions() -> "cycle[str]":
    return cycle(SampleTexts().questions(_QUESTIONS))


def _make_search_lap(recaller: Recaller) -> Lap:
    questions = _cycle_questions()
    return make_lap(lambda: recaller.search(next(questions), _SETTINGS, scope=SEARCHED))


async def measure_indexing(folder: Path, embedder: CheckedEmbedder, sizes: RecallSizes, tick: Tick) -> Part:
    """Race the indexer and the bare embedder, each with the texts of one user after another."""
    samples = SampleTexts()
    texts = [samples.texts(sizes.indexed) for _ in range(_INDEX_WARM_UP + sizes.index_rounds)]
    scopes = [Scope(1, f"indexed-{number}", "conversation") for number in range(len(texts))]
    async with open_store(f"sqlite:///{folder / 'indexing.db'}") as store:
        for scope, said in zip(scopes, texts, strict=True):
            await store.append_turn([Message("user", text) for text in said], scope=scope)
        waiting, batches = iter(scopes), iter(texts)
        indexer = Indexer(embedder)
        laps = {
            "ours": make_lap(lambda: _index(indexer, next(waiting), store)),
            "bare": make_lap(lambda: embedder.embed_documents(next(batches))),
        }
        found = await race(laps, rounds=sizes.index_rounds, tries=1, tick=tick, warm_up=_INDEX_WARM_UP)
        await indexer.close()
    measured = compute_ratio(found["bare"], found["ours"])
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
    indexer.schedule(scope, store)
    await indexer.wait_until_idle()
