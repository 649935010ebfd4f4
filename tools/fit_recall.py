"""Fits the weights of recall in `weights.json`: `make fit-recall DATA="people.json assistant.json.gz"`.

The files are chats with labelled questions, in the format that the benchmark of recall reads. Give chats of
both kinds, between people and with an assistant: weights that were fitted on one kind are bad for the other.
Each kind counts half, each chat of a kind alike. Searches by words alone have weights for each kind, because
fitted together they find less in chats with an assistant than BM25 over what the user said.

A linear ranker: of each question, every message of the evidence is compared with messages that are none, the
hardest and some at random, by a softmax. Questions that name a speaker are there a second time without the
name. Features are standardised, and large weights cost something. First it prints what weights find that were
fitted without the chat in question (a quarter of the chats is left out at a time). `--vectors` keeps the
messages' vectors in a file, because embedding takes most of the time.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import recollect.recall as package
from benchmarks.recall.chats import ADVERSARIAL, Conversation, LabelledQuestion, read_sets
from benchmarks.recall.remembered import RememberingEmbedder
from recollect import Scope, open_store
from recollect.messages import Message, now
from recollect.recall.embedding.embedder import default_embedder
from recollect.recall.index.cache import IndexCache
from recollect.recall.index.user_index import UserIndex
from recollect.recall.question import parse_question
from recollect.recall.ranking import HYBRID, choose_words_weights, make_features, read_weights
from recollect.recall.recaller import Recaller
from recollect.storage.opening import StoreHandle
from recollect.storage.store import Store

Numbers = NDArray[np.float64]

TARGET = Path(package.__path__[0]) / "weights.json"
FOLDS = 4
PENALTY = 10.0
HARDEST, RANDOM = 120, 60
CUT = 10
_QUESTIONS = 600.0  # what all questions of a kind of chat weigh together, against the penalty
_ROUNDS = 12
_SMALL, _NOTHING = 1e-3, 1e-6  # steps, in standardised weights


@dataclass(slots=True)
class Asked:
    """The features of the messages for one question: of the evidence, and of the messages that are none."""

    set_name: str
    chat: int
    category: int
    is_copy: bool
    with_assistant: bool
    evidence: NDArray[np.intp]
    features: Numbers
    others: NDArray[np.intp]


def main() -> None:
    """Read the chats, print what is found in chats left out of the fit, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--vectors", type=Path, help="a file (.npz) for the vectors of the messages")
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    collected = asyncio.run(_collect(arguments.files, arguments.vectors))
    for system, names in _choose_features().items():
        asked = collected[system]
        _say(f"{system}: {_cross_validate(asked)}")
        weights = _fit(asked)
        found[system] = {name: round(float(weight), 3) for name, weight in zip(names, weights, strict=True)}
    if not arguments.dry_run:
        TARGET.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


def _choose_features() -> dict[str, list[str]]:
    return {system: list(weights) for system, weights in read_weights().items()}


async def _collect(paths: Sequence[Path], vectors: Path | None) -> dict[str, list[Asked]]:
    embedder = RememberingEmbedder(default_embedder(), vectors)
    found: dict[str, list[Asked]] = {system: [] for system in _choose_features()}
    for name, conversations in read_sets(paths).items():
        for chat, conversation in enumerate(conversations):
            _say(f"reading {name} {chat + 1} of {len(conversations)}")
            async for system, asked in _ask_all(name, chat, conversation, embedder):
                found[system].append(asked)
            embedder.save()
    return found


async def _ask_all(
    name: str, chat: int, conversation: Conversation, embedder: RememberingEmbedder
) -> AsyncIterator[tuple[str, Asked]]:
    """Replay a chat, and yield the features of each question at the time when it was asked."""
    async with open_store("sqlite://") as store:
        recaller = Recaller(StoreHandle(store), embedder.checked)
        cache, ids, user = IndexCache(), dict[int, str](), Scope(None, conversation.id)
        for session, questions in conversation.replay():
            if questions:
                async with cache.open_index(user, store) as index:
                    for asked in questions:
                        for item in await _compute(asked, index, ids, embedder):
                            yield item[0], replace(item[1], set_name=name, chat=chat)
            if session is not None:
                await _store(session.messages, user.with_thread(session.thread_id), store, recaller, ids)
        await recaller.close()


async def _store(
    messages: Sequence[Message], scope: Scope, store: Store, recaller: Recaller, ids: dict[int, str]
) -> None:
    placed = await store.append_turn(messages, scope=scope)
    ids |= {place.number: message.id for place, message in zip(placed, messages, strict=True)}
    recaller.schedule_indexing(scope, store)
    await recaller.wait_until_idle()


async def _compute(
    asked: LabelledQuestion, index: UserIndex, ids: dict[int, str], embedder: RememberingEmbedder
) -> list[tuple[str, Asked]]:
    """Return the features of a question, and of its copy without names, for each way to search."""
    parsed = parse_question(asked.text[:4000], now())
    names = parsed.find_names(index.speakers)
    rephrased = parsed.rephrase_as(names)
    vector = await embedder.embed_query(rephrased)
    rows = np.arange(len(index))
    evidence = np.flatnonzero([ids[int(number)] in asked.evidence for number in index.numbers])
    found: list[tuple[str, Asked]] = []
    for question in [parsed] if not names else [parsed, replace(parsed, text=rephrased)]:
        for system, wanted in _choose_features().items():
            if system not in (HYBRID, choose_words_weights(with_assistant=index.is_chat_with_assistant)):
                continue
            features = make_features(index, question, vector if system == HYBRID else None).compute(rows)
            matrix = np.stack([features[name] for name in wanted], axis=1).astype(np.float64)
            weights = np.array([read_weights()[system][name] for name in wanted])
            found.append(
                (
                    system,
                    Asked(
                        "", 0, asked.category, question is not parsed, index.is_chat_with_assistant,
                        evidence, matrix, _choose_others(matrix @ weights, evidence),
                    ),
                )
            )  # fmt: skip
    return found


def _choose_others(scores: Numbers, evidence: NDArray[np.intp]) -> NDArray[np.intp]:
    others = np.setdiff1d(np.argsort(-scores, kind="stable"), evidence)
    others = others[np.argsort(-scores[others], kind="stable")]
    rest = others[HARDEST:]
    chosen = np.random.default_rng(0).choice(rest, min(RANDOM, len(rest)), replace=False)
    return np.concatenate((others[:HARDEST], chosen))


def _cross_validate(asked: Sequence[Asked]) -> str:
    shares: dict[str, list[float]] = {}
    for fold in range(FOLDS):
        weights = _fit([one for one in asked if one.chat % FOLDS != fold])
        for one in asked:
            if one.chat % FOLDS == fold and not one.is_copy and one.category != ADVERSARIAL:
                best = np.argsort(-(one.features @ weights), kind="stable")[:CUT]
                shares.setdefault(one.set_name, []).append(float(np.isin(one.evidence, best).mean()))
    return ", ".join(f"{name} R@{CUT} {np.mean(found):.4f} ({len(found)})" for name, found in shares.items())


def _fit(asked: Sequence[Asked]) -> Numbers:
    spread = np.concatenate([one.features[::7] for one in asked]).std(axis=0) + 1e-6
    importance = _weigh_questions(asked)
    groups = [
        (weight, one.features[one.evidence] / spread, one.features[one.others] / spread)
        for one, weight in zip(asked, importance, strict=True)
    ]
    weights = np.zeros(len(spread))
    for _ in range(_ROUNDS):
        value, gradient, curvature = _differentiate(groups, weights)
        step = np.linalg.solve(curvature, -gradient)
        while _differentiate(groups, weights + step)[0] < value and np.abs(step).max() > _NOTHING:
            step /= 2
        weights = weights + step
        if np.abs(step).max() < _SMALL:
            break
    return weights / spread


def _weigh_questions(asked: Sequence[Asked]) -> list[float]:
    """Weigh kinds of chat alike, chats of a kind, questions of a chat; and copies half as much."""
    chats = Counter((one.set_name, one.chat) for one in asked)
    kinds = {(one.set_name, one.chat): one.with_assistant for one in asked}
    sizes = Counter(kinds.values())
    found: list[float] = []
    for one in asked:
        chat = (one.set_name, one.chat)
        share = (0.5 if one.is_copy else 1.0) / chats[chat] / sizes[kinds[chat]]
        found.append(_QUESTIONS * share / len(one.evidence))
    return found


def _differentiate(
    groups: Sequence[tuple[float, Numbers, Numbers]], weights: Numbers
) -> tuple[float, Numbers, Numbers]:
    """Return the log likelihood of the evidence less the penalty, its gradient and its curvature."""
    size = len(weights)
    value, gradient = -PENALTY * float(weights @ weights) / 2, -PENALTY * weights
    curvature = -PENALTY * np.eye(size)
    for importance, good, others in groups:
        low, high = others @ weights, good @ weights
        top = max(float(low.max(initial=-np.inf)), float(high.max()))
        shares, own = np.exp(low - top), np.exp(high - top)
        total = shares.sum() + own
        means = ((shares @ others)[None, :] + own[:, None] * good) / total[:, None]
        value += importance * float((high - top - np.log(total)).sum())
        gradient = gradient + importance * (good - means).sum(axis=0)
        spread = (others * shares[:, None]).T @ others * (1 / total).sum()
        spread += (good * (own / total)[:, None]).T @ good - means.T @ means
        curvature -= importance * spread
    return value, gradient, curvature


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    main()
