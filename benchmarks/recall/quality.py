"""How well recall finds the evidence of questions: by text alone, by vectors alone, and by both.

"Vectors alone" is what most memories do: the cosine similarity of the question and each message.
"""

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.harness.report import NOTHING, Goal, Part, Tick, at_least
from benchmarks.harness.timing import compute_percentile
from benchmarks.recall.locomo import ADVERSARIAL, Conversation, LabelledQuestion
from recollect.recall.embedding.embedder import CheckedEmbedder
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle
from recollect.storage.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

CUTS = (5, 10, 20, 50)
"""The values of k in recall@k."""

_GOALS = {"hybrid": 0.77, "text": 0.69}
_NAMES = {"text": "text alone", "vectors": "vectors alone", "hybrid": "text and vectors"}
_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_SETTINGS = RecallSettings(top_k=CUTS[-1], message_range=0, max_tokens=1_000_000)

Search = Callable[[str, Scope], Awaitable[list[str]]]


@dataclass(slots=True)
class SystemResults:
    """The ranks of the evidence that one system found for each question, and the seconds it took."""

    ranks: list[tuple[LabelledQuestion, list[int]]] = field(
        default_factory=list[tuple[LabelledQuestion, list[int]]]
    )
    seconds: list[float] = field(default_factory=list[float])

    def figures(self) -> dict[str, object]:
        """Return the figures without the adversarial category, with it, and for each category."""
        counted = [item for item in self.ranks if item[0].category != ADVERSARIAL]
        found: dict[str, object] = dict(_compute_measures(counted))
        found["with_category_5"] = _compute_measures(self.ranks)
        found["categories"] = {
            name: _compute_measures([item for item in self.ranks if item[0].category == number])
            for number, name in _CATEGORIES.items()
        }
        ordered = sorted(self.seconds)
        found["query_ms"] = {
            "p50": round(statistics.median(ordered) * 1000, 3),
            "p95": round(compute_percentile(ordered, 0.95) * 1000, 3),
        }
        return found


async def measure(
    folder: Path, conversations: Sequence[Conversation], embedder: CheckedEmbedder, tick: Tick
) -> Part:
    """Index each conversation as one user, ask every system every question, and judge."""
    handle = StoreHandle(f"sqlite:///{folder / 'quality.db'}")
    store = await handle.get()
    hybrid, text = Recaller(handle, embedder), Recaller(handle, None)
    try:
        started = time.perf_counter()
        await _index(store, hybrid, conversations)
        seconds = time.perf_counter() - started
        systems: dict[str, Search] = {
            "text": _search_by_recaller(text),
            "vectors": await _search_by_vectors(conversations, embedder),
            "hybrid": _search_by_recaller(hybrid),
        }
        found = {name: SystemResults() for name in systems}
        for place, conversation in enumerate(conversations):
            for name, search in systems.items():
                await _ask(search, conversation, found[name])
            tick((place + 1) / len(conversations))
    finally:
        await hybrid.close()
        await handle.close()
    return _make_part(found, conversations, seconds)


def make_unmeasured_part() -> Part:
    """Return the goals as not measured, with a note."""
    goals = [_make_goal(name, "the messages", None) for name in _GOALS]
    return Part(goals, notes=["The quality of recall was not measured: give conversations with --data."])


def _make_goal(system: str, among: str, measured: float | None, other: str = NOTHING) -> Goal:
    name = f"Evidence in the first 10 of {among}: {_NAMES[system]}, against vectors alone"
    ours = NOTHING if measured is None else f"{measured:.3f}"
    return at_least(name, _GOALS[system], measured, unit="", ours=ours, other=other)


async def _index(store: Store, recaller: Recaller, conversations: Sequence[Conversation]) -> None:
    for conversation in conversations:
        for session in conversation.sessions:
            scope = Scope(None, conversation.id, session.thread_id)
            await store.append_turn(session.messages, scope=scope)
        recaller.schedule_indexing(Scope(None, conversation.id), store)
    await recaller.wait_until_idle()


def _search_by_recaller(recaller: Recaller) -> Search:
    async def search(question: str, scope: Scope) -> list[str]:
        found = await recaller.search(question, _SETTINGS, scope=scope)
        return [hit.message.id for hit in found]

    return search


async def _search_by_vectors(conversations: Sequence[Conversation], embedder: CheckedEmbedder) -> Search:
    """Embed messages with the names of their speakers, as memories without such a field do."""
    ids: dict[str, list[str]] = {}
    vectors: dict[str, NDArray[np.float32]] = {}
    for conversation in conversations:
        messages = [message for session in conversation.sessions for message in session.messages]
        ids[conversation.id] = [message.id for message in messages]
        texts = [f"{message.metadata['name']}: {message.text}" for message in messages]
        vectors[conversation.id] = await embedder.embed_documents(texts)

    async def search(question: str, scope: Scope) -> list[str]:
        cosines = vectors[scope.user_id] @ await embedder.embed_query(question)
        best = np.argsort(-cosines, kind="stable")[: CUTS[-1]]
        return [ids[scope.user_id][place] for place in best.tolist()]

    return search


async def _ask(search: Search, conversation: Conversation, found: SystemResults) -> None:
    scope = Scope(None, conversation.id, "asking")
    for asked in conversation.questions:
        started = time.perf_counter()
        ids = await search(asked.text, scope)
        found.seconds.append(time.perf_counter() - started)
        place = {message_id: rank for rank, message_id in enumerate(ids, 1)}
        found.ranks.append((asked, [place[name] for name in asked.evidence if name in place]))


def _compute_measures(items: Sequence[tuple[LabelledQuestion, list[int]]]) -> dict[str, float]:
    figures: dict[str, float] = {"questions": len(items)}
    for cut in CUTS:
        shares = [sum(rank <= cut for rank in ranks) / len(asked.evidence) for asked, ranks in items]
        figures[f"recall_at_{cut}"] = _compute_mean(shares)
        figures[f"hit_at_{cut}"] = _compute_mean([float(share > 0) for share in shares])
    figures["mrr"] = _compute_mean([1 / min(ranks) if ranks else 0.0 for _, ranks in items])
    return figures


def _compute_mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 4) if values else 0.0


def _make_part(
    found: dict[str, SystemResults], conversations: Sequence[Conversation], seconds: float
) -> Part:
    systems = {name: results.figures() for name, results in found.items()}
    messages = sum(conversation.messages for conversation in conversations)
    plain = float(str(systems["vectors"]["recall_at_10"]))
    goals = [
        _make_goal(name, f"{messages:,} messages", float(str(systems[name]["recall_at_10"])), f"{plain:.3f}")
        for name in _GOALS
    ]
    rate = {"messages_per_second": round(messages / seconds, 1), "messages": messages}
    note = f"Recall over {len(found['hybrid'].ranks):,} questions; goals leave out category {ADVERSARIAL}."
    return Part(goals, {"systems": systems, "indexing": rate}, [note])
