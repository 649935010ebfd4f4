"""Ranks the rows of a user's index for a question.

Every row gets a BM25 score and, if the question has a vector, a cosine similarity. The best few hundred rows,
neighbours considered, are scored again by a weighted sum of features. The weights are in `weights.json`,
fitted by `tools/fit_recall.py` on chats between people and on chats with an assistant.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from recollect.recall.features import Features, weigh
from recollect.recall.index.postings import TextScores, score_text
from recollect.recall.results import Why

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recollect.recall.index.user_index import UserIndex
    from recollect.recall.question import Question

    Floats = NDArray[np.float32]

CANDIDATES = 400
"""How many rows are scored by features; at least twice what a search can return."""

HYBRID = "hybrid"
"""The name of the weights for searches by words and by meaning."""


def choose_words_weights(*, with_assistant: bool) -> str:
    """Return the name of the weights for searches by words alone, in one of the two kinds of chat."""
    return "words with an assistant" if with_assistant else "words"


@cache
def read_weights() -> Mapping[str, Mapping[str, float]]:
    """Return the weights of the features for each kind of search."""
    return json.loads(resources.files("recollect.recall").joinpath("weights.json").read_text("utf-8"))


@dataclass(slots=True)
class Ranking:
    """The ranked rows, best first, and the parts of their scores.

    `scores` and `relevance` are indexed by row, and valid for the rows in `order` only. `segments` is the
    number of the best segment of each row by words.
    """

    order: NDArray[np.intp]
    scores: Floats
    relevance: Floats
    searched: int
    segments: NDArray[np.int32]
    _text: TextScores
    _terms: tuple[str, ...]
    _cosines: Floats | None
    _parts: Mapping[str, Floats]
    _chosen: NDArray[np.intp]
    _wanted: NDArray[np.bool_] | None

    def count_searched(self, rows: NDArray[np.bool_]) -> int:
        """Count those of some rows that were searched."""
        return int(np.count_nonzero(rows if self._wanted is None else rows & self._wanted))

    def why(self, row: int) -> Why:
        """Explain the score of a row."""
        bits = int(self._text.bits[row])
        matched = tuple(term for place, term in enumerate(self._terms) if bits >> place & 1)
        cosine = None if self._cosines is None else float(self._cosines[row])
        has_cosine = self._cosines is not None and cosine == cosine  # noqa: PLR0124 - NaN is not itself
        place = int(self._chosen.searchsorted(row))
        return Why(
            text_score=float(self._text.scores[row]),
            text_rank=self._rank(self._text.scores, row) if bits else None,
            vector_score=cosine if has_cosine else None,
            vector_rank=self._rank(self._cosines, row) if has_cosine and self._cosines is not None else None,
            parts={name: round(float(part[place]), 4) for name, part in self._parts.items()},
            matched_terms=matched,
        )

    def _rank(self, scores: Floats, row: int) -> int:
        better = scores > scores[row]
        return 1 + int(np.count_nonzero(better if self._wanted is None else better & self._wanted))


def rank(
    index: UserIndex,
    question: Question,
    vector: Floats | None = None,
    *,
    wanted: NDArray[np.bool_] | None = None,
    visible: NDArray[np.bool_] | None = None,
    spare: int = 0,
) -> Ranking:
    """Rank the rows of an index, or those that are wanted.

    Rows that are not visible count for nothing, as if they were not stored; rows that are not wanted still
    count as neighbours, and for how rare a word is. `spare` is how many rows the caller may leave out, so
    that as many more are ranked.
    """
    features = make_features(index, question, vector, visible)
    chosen = features.find_candidates(CANDIDATES + spare, wanted)
    kind = HYBRID if vector is not None else choose_words_weights(with_assistant=features.is_chat)
    weights = read_weights()[kind]
    parts = weigh(features.compute(chosen), weights)
    final = np.sum(list(parts.values()), axis=0, dtype=np.float32)
    scores = np.full(len(index), -np.inf, dtype=np.float32)
    scores[chosen] = final
    relevance = np.zeros(len(index), dtype=np.float32)
    relevance[chosen] = features.measure_relevance(chosen)
    searchable = _unite(wanted, visible)
    return Ranking(
        order=chosen[np.argsort(-final, kind="stable")],
        scores=scores,
        relevance=relevance,
        searched=len(index) if searchable is None else int(np.count_nonzero(searchable)),
        segments=features.text.best - index.postings.first,
        _text=features.text,
        _terms=question.terms_without(question.find_names(index.list_speakers(visible))),
        _cosines=features.cosines,
        _parts=parts,
        _chosen=chosen,
        _wanted=searchable,
    )


def make_features(
    index: UserIndex,
    question: Question,
    vector: Floats | None = None,
    visible: NDArray[np.bool_] | None = None,
) -> Features:
    """Return what computes the features of a question."""
    names = question.find_names(index.list_speakers(visible))
    text = score_text(index.postings, question.terms_without(names), visible)
    cosines = None if vector is None else index.compute_similarities(vector)
    speakers = {name.speaker for name in names}
    speaker = index.speakers[speakers.pop()] if len(speakers) == 1 else None
    return Features(index, question, text, cosines, speaker, visible)


def _unite(wanted: NDArray[np.bool_] | None, visible: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    if wanted is None or visible is None:
        return visible if wanted is None else wanted
    return wanted & visible
