"""Indexing: messages embedded and stored, against the embedder alone on the same texts."""

from pathlib import Path

from recollect.bench.recall_sizes import RecallSizes
from recollect.bench.report import Goal, Part, Tick, at_least
from recollect.bench.texts import Talk
from recollect.bench.timing import Timings, lap_of, race, ratio
from recollect.messages import Message
from recollect.recall.embedding.embedder import Embedding
from recollect.recall.embedding.indexer import Indexer
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.store import Store

LIMIT = 0.95
"""The goal."""

_WARM_UP = 1


async def measure(folder: Path, embedder: Embedding, sizes: RecallSizes, tick: Tick) -> Part:
    """Let the indexer and the bare embedder take turns, each with the texts of one user after another."""
    talk = Talk()
    texts = [talk.texts(sizes.indexed) for _ in range(_WARM_UP + sizes.index_rounds)]
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
        found = await race(laps, rounds=sizes.index_rounds, tries=1, tick=tick, warm_up=_WARM_UP)
        await indexer.close()
    return _part(found, sizes)


async def _index(indexer: Indexer, scope: Scope, store: Store) -> None:
    indexer.notify(scope, store)
    await indexer.settled()


def _part(found: dict[str, Timings], sizes: RecallSizes) -> Part:
    ours, bare = found["ours"], found["bare"]
    measured = ratio(bare, ours)
    goal = Goal(
        "SQLite: messages embedded and stored per second, against the embedder alone",
        at_least(LIMIT),
        round(measured.value, 3),
        measured.value >= LIMIT,
        ours=_rate(ours, sizes),
        other=_rate(bare, sizes),
        spread=measured.spread,
    )
    return Part([goal], {"indexing": {name: timings.micros() for name, timings in found.items()}})


def _rate(timings: Timings, sizes: RecallSizes) -> str:
    return f"{sizes.indexed / timings.p50:,.0f} messages/s"
