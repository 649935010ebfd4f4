"""How well recall finds the evidence of questions, beside what plainer searches find.

Each set of chats is reported by itself: a ranking that is good for two people may be bad for a user with an
assistant. A question that was asked in the middle of a chat is asked when only the messages before it are
stored. "Vectors alone" is what most memories do: the cosine similarity of the question and each message.
"""

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.report import Goal, Part, Tick, at_least
from benchmarks.harness.timing import compute_percentile
from benchmarks.recall.chats import ADVERSARIAL, Conversation, LabelledQuestion
from benchmarks.recall.remembered import RememberingEmbedder
from recollect.messages import Message, now
from recollect.recall.embedding.embedder import CheckedEmbedder
from recollect.recall.index.postings import Postings, score_text
from recollect.recall.question import parse_question
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle
from recollect.storage.store import Store
from recollect.text.segments import get_segment
from recollect.text.terms import analyse

CUTS = (5, 10, 20, 50)
"""The values of k in recall@k."""

BASELINES = ("vectors", "bm25", "bm25_user")
"""The plainer searches: vectors alone, BM25 over messages, and BM25 over what the user said."""

_SETTINGS = RecallSettings(top_k=CUTS[-1], message_range=0, max_tokens=10_000_000)
_NOTE = "Recall leaves out LoCoMo's adversarial questions (category 5)."
_PEOPLE = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_ASSISTANT = {
    1: "information extraction",
    2: "multi-session",
    3: "temporal",
    4: "knowledge update",
    6: "contradiction",
    7: "event ordering",
    8: "instruction following",
    9: "preference",
    10: "summarisation",
    15: "abstention",
}
_EXTRACTION = {1, 2, 3, 4, 6}  # of the chats with an assistant: one or a few messages hold the answer

Search = Callable[[LabelledQuestion, Scope], Awaitable[list[str]]]
Ranks = tuple[LabelledQuestion, list[int]]


@dataclass(slots=True)
class SystemResults:
    """The ranks of the evidence that one system found for each question, and the seconds it took."""

    ranks: list[Ranks] = field(default_factory=list[Ranks])
    seconds: list[float] = field(default_factory=list[float])

    def figures(self) -> dict[str, object]:
        """Return the figures of all questions, by kind of question, and the time of a query."""
        categories = {asked.category for asked, _ in self.ranks}
        is_people = categories <= _PEOPLE.keys() and len(categories) > 1
        counted = [item for item in self.ranks if not (is_people and item[0].category == ADVERSARIAL)]
        found: dict[str, object] = dict(_compute_measures(counted))
        if is_people:
            found["with_category_5"] = _compute_measures(self.ranks)
        elif len(categories) > 1:
            for name, wanted in (("extraction", True), ("summary", False)):
                chosen = [item for item in counted if (item[0].category in _EXTRACTION) is wanted]
                found[name] = _compute_measures(chosen)
        names = _PEOPLE if is_people else _ASSISTANT
        found["categories"] = {
            names.get(number, str(number)): _compute_measures(
                [item for item in self.ranks if item[0].category == number]
            )
            for number in sorted(categories)
        }
        ordered = sorted(self.seconds)
        found["query_ms"] = {
            "p50": round(statistics.median(ordered) * 1000, 3),
            "p95": round(compute_percentile(ordered, 0.95) * 1000, 3),
        }
        return found


async def measure(
    folder: Path, sets: Mapping[str, Sequence[Conversation]], embedder: CheckedEmbedder, tick: Tick
) -> Part:
    """Ask every system every question of every set, and judge."""
    figures: dict[str, object] = {}
    goals: list[Goal] = []
    for place, (name, conversations) in enumerate(sets.items()):
        handle = StoreHandle(f"sqlite:///{folder / f'quality-{place}.db'}")
        asking = _Asking(handle, embedder)
        try:
            for number, conversation in enumerate(conversations):
                await asking.replay(conversation)
                tick((place + (number + 1) / len(conversations)) / len(sets))
        finally:
            await asking.close()
        figures[name] = asking.figures()
        goals += _make_goals(name, {system: found.figures() for system, found in asking.found.items()})
    return Part(goals, {"sets": figures}, [_NOTE])


def make_unmeasured_part() -> Part:
    """Return what to do in order to measure quality."""
    return Part(
        notes=["The quality of recall was not measured: give chats with --data FILE, more than once."]
    )


class _Asking:
    """Stores a set's chats, asks every system their questions, and collects what was found."""

    def __init__(self, handle: StoreHandle, embedder: CheckedEmbedder) -> None:
        self._handle = handle
        self._embedder = RememberingEmbedder(embedder)
        checked = self._embedder.checked
        self._hybrid, self._words = Recaller(handle, checked), Recaller(handle, None)
        self._plain = _PlainSearches(self._embedder)
        self._systems: dict[str, Search] = {
            "hybrid": self._search_by(self._hybrid),
            "words": self._search_by(self._words),
            "vectors": self._plain.search_by_vectors,
            "bm25": self._plain.search_by_words,
            "bm25_user": self._plain.search_what_users_said,
        }
        self.found = {name: SystemResults() for name in self._systems}
        self._messages = 0
        self._indexing = 0.0
        self._shares: list[float] = []

    async def replay(self, conversation: Conversation) -> None:
        """Store a chat session by session, and ask each question at its time."""
        store = await self._handle.get()
        self._plain.clear()
        for session, questions in conversation.replay():
            for asked in questions:
                await self._ask(asked, Scope(None, conversation.id, "asking"))
            if session is not None:
                await self._store(session.messages, Scope(None, conversation.id, session.thread_id), store)

    def figures(self) -> dict[str, object]:
        """Return the figures of each system, of indexing, and the embedder's share of a query."""
        return {
            "systems": {name: found.figures() for name, found in self.found.items()},
            "messages": self._messages,
            "messages_indexed_per_second": round(self._messages / max(self._indexing, 1e-9), 1),
            "embedder_share_of_query": round(statistics.fmean(self._shares), 3) if self._shares else None,
        }

    async def close(self) -> None:
        """Close what was opened."""
        await self._hybrid.close()
        await self._words.close()
        await self._handle.close()

    async def _store(self, messages: Sequence[Message], scope: Scope, store: Store) -> None:
        await store.append_turn(messages, scope=scope)
        started = time.perf_counter()
        self._hybrid.schedule_indexing(scope, store)
        await self._hybrid.wait_until_idle()
        self._indexing += time.perf_counter() - started
        self._messages += len(messages)
        await self._plain.add(messages)

    async def _ask(self, asked: LabelledQuestion, scope: Scope) -> None:
        for name, search in self._systems.items():
            started = time.perf_counter()
            ids = await search(asked, scope)
            self.found[name].seconds.append(time.perf_counter() - started)
            place = {message_id: rank for rank, message_id in enumerate(ids, 1)}
            self.found[name].ranks.append((asked, [place[one] for one in asked.evidence if one in place]))

    def _search_by(self, recaller: Recaller) -> Search:
        async def search(asked: LabelledQuestion, scope: Scope) -> list[str]:
            started = time.perf_counter()
            found = await recaller.search(asked.text, _SETTINGS, scope=scope)
            if recaller is self._hybrid and "embed_ms" in found.timings:
                self._shares.append(found.timings["embed_ms"] / (time.perf_counter() - started) / 1000)
            return [hit.message.id for hit in found]

        return search


class _PlainSearches:
    """BM25 over whole messages, and vectors alone, over the messages stored so far."""

    def __init__(self, embedder: RememberingEmbedder) -> None:
        self._embedder = embedder
        self._messages: list[Message] = []
        self._vectors: list[NDArray[np.float32]] = []
        self._postings: dict[str, Postings] = {}

    def clear(self) -> None:
        """Forget the messages of the chat before."""
        self._messages = []
        self._vectors = []
        self._postings = {"all": Postings(), "user": Postings()}

    async def add(self, messages: Sequence[Message]) -> None:
        """Index messages; for vectors with their speakers' names, as memories without such a field do."""
        self._messages += messages
        texts = [_introduce(message) for message in messages]
        self._vectors.append(await self._embedder.embed_documents(texts))
        for kind, postings in self._postings.items():
            terms = [
                analyse(message.text if kind == "all" or message.role == "user" else "")
                for message in messages
            ]
            postings.extend([one.hashes for one in terms], [one.counts for one in terms])

    async def search_by_vectors(self, asked: LabelledQuestion, _: Scope) -> list[str]:
        """Return the messages with the highest cosine similarities."""
        return self._take_best(np.concatenate(self._vectors) @ await self._embedder.embed_query(asked.text))

    async def search_by_words(self, asked: LabelledQuestion, _: Scope) -> list[str]:
        """Return the messages with the highest BM25 scores."""
        return self._search_postings("all", asked.text)

    async def search_what_users_said(self, asked: LabelledQuestion, _: Scope) -> list[str]:
        """Do the same for the user's messages alone."""
        return self._search_postings("user", asked.text)

    def _search_postings(self, kind: str, text: str) -> list[str]:
        scores = score_text(self._postings[kind], parse_question(text, now()).terms).scores
        return self._take_best(np.where(scores > 0, scores, -np.inf))

    def _take_best(self, scores: NDArray[np.float32]) -> list[str]:
        best: list[int] = np.argsort(-scores, kind="stable")[: CUTS[-1]].tolist()
        return [self._messages[place].id for place in best if scores[place] > -np.inf]


def _introduce(message: Message) -> str:
    text = message.text[slice(*get_segment(message.text, 0))] if message.text else ""
    name = message.metadata.get("name")
    return f"{name}: {message.text}" if name else text


def _compute_measures(items: Sequence[Ranks]) -> dict[str, float]:
    figures: dict[str, float] = {"questions": len(items)}
    for cut in CUTS:
        shares = [sum(rank <= cut for rank in ranks) / len(asked.evidence) for asked, ranks in items]
        figures[f"recall_at_{cut}"] = _compute_mean(shares)
        figures[f"hit_at_{cut}"] = _compute_mean([float(share > 0) for share in shares])
    figures["mrr"] = _compute_mean([1 / min(ranks) if ranks else 0.0 for _, ranks in items])
    return figures


def _compute_mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 4) if values else 0.0


def _make_goals(name: str, systems: Mapping[str, Mapping[str, object]]) -> list[Goal]:
    """Return that no plainer search finds more: hybrid against all, words against the searches by words."""
    found = {system: float(str(figures["recall_at_10"])) for system, figures in systems.items()}
    return [
        _compare(name, found, "hybrid", ("words", *BASELINES)),
        _compare(name, found, "words", ("bm25", "bm25_user")),
    ]


def _compare(name: str, found: Mapping[str, float], system: str, others: Sequence[str]) -> Goal:
    best = max(others, key=lambda other: found[other])
    title = f"Evidence in the first 10, {name}: {system} against the best plainer search ({best})"
    return at_least(
        title, found[best], found[system], unit="", ours=f"{found[system]:.3f}", other=f"{found[best]:.3f}"
    )
