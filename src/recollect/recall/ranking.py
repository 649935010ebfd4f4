"""Ranking the rows of an image for a question.

Every row is scored by its words (BM25) and, if the question has a vector, by its meaning (cosine). The best
few hundred, neighbours considered, are then scored again by a weighted sum of features: their own match, that
of the messages around them and of their thread, who speaks, and the time. The weights were fitted on
conversations; each part of a score can be named, which is what explains a hit. docs/recall.md has the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recollect.recall.bm25 import TextScores, score_text
from recollect.recall.image import NONE
from recollect.recall.results import Why
from recollect.recall.timing import in_time
from recollect.recall.weights import HYBRID_WEIGHTS, TEXT_WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recollect.recall.image import Image
    from recollect.recall.question import Question

    Floats = NDArray[np.float32]

CANDIDATES = 400
"""How many rows are looked at closely; at least twice what a search can return."""

_LEAST_SPREAD = 0.05  # else a few messages of about the same meaning would be torn far apart


@dataclass(slots=True)
class Ranking:
    """Rows in order, best first, and what their scores are made of.

    `scores` and `relevance` are by row; only the rows in `order` have a final score.
    """

    order: NDArray[np.intp]
    scores: Floats
    relevance: Floats
    searched: int
    _text: TextScores
    _terms: tuple[str, ...]
    _cosines: Floats | None
    _parts: Mapping[str, Floats]
    _places: dict[int, int]
    _inside: NDArray[np.bool_] | None

    def why(self, row: int) -> Why:
        """Say why a row is where it is."""
        bits = int(self._text.bits[row])
        matched = tuple(term for place, term in enumerate(self._terms) if bits >> place & 1)
        cosine = None if self._cosines is None else float(self._cosines[row])
        has_cosine = self._cosines is not None and cosine == cosine  # noqa: PLR0124 - NaN is not itself
        return Why(
            text_score=float(self._text.scores[row]),
            text_rank=self._rank(self._text.scores, row) if bits else None,
            vector_score=cosine if has_cosine else None,
            vector_rank=self._rank(self._cosines, row) if has_cosine and self._cosines is not None else None,
            parts={name: round(float(part[self._places[row]]), 4) for name, part in self._parts.items()},
            matched_terms=matched,
        )

    def _rank(self, scores: Floats, row: int) -> int:
        better = scores > scores[row]
        return 1 + int(np.count_nonzero(better if self._inside is None else better & self._inside))


def rank(
    image: Image,
    question: Question,
    vector: Floats | None = None,
    inside: NDArray[np.bool_] | None = None,
    spare: int = 0,
) -> Ranking:
    """Rank the rows of an image, or those `inside` a part of it.

    `spare` is how many of them the caller may pass over, so that as many more are looked at.
    """
    names = question.names(image.speakers)
    terms = question.terms_without(names)
    text = score_text(image.postings, terms)
    cosines = None if vector is None else image.similarities(vector)
    speaker = image.speakers[names[0]] if len(names) == 1 else None
    view = _View(image, question, text, cosines, speaker, inside)
    chosen = view.candidates(CANDIDATES + spare)
    parts = _weighted(view.features(chosen), HYBRID_WEIGHTS if cosines is not None else TEXT_WEIGHTS)
    final = np.sum(list(parts.values()), axis=0, dtype=np.float32)
    best = np.argsort(-final, kind="stable")
    scores = np.full(len(image), -np.inf, dtype=np.float32)
    scores[chosen] = final
    return Ranking(
        order=chosen[best],
        scores=scores,
        relevance=view.relevance(),
        searched=len(image) if inside is None else int(np.count_nonzero(inside)),
        _text=text,
        _terms=terms,
        _cosines=cosines,
        _parts=parts,
        _places={row: place for place, row in enumerate(chosen.tolist())},
        _inside=inside,
    )


def _weighted(features: Mapping[str, Floats], weights: Mapping[str, float]) -> dict[str, Floats]:
    return {name: np.float32(weight) * features[name] for name, weight in weights.items()}


@dataclass(slots=True)
class _View:
    """All that the features of rows are made of."""

    image: Image
    question: Question
    text: TextScores
    cosines: Floats | None
    speaker: int | None
    inside: NDArray[np.bool_] | None

    def candidates(self, count: int) -> NDArray[np.intp]:
        """Return the rows worth a closer look: by their own match and their neighbours'."""
        base = self._smoothed(_standard(self.text.scores, self.inside), 0.3)
        if self.cosines is not None:
            base += self._smoothed(self._meaning(), 0.7)
        if self.speaker is not None:
            base += np.float32(0.5) * (self.image.speaker_of == self.speaker)
        if self.inside is not None:
            base[~self.inside] = -np.inf
        if self.cosines is None:
            base[~self._near_a_match()] = -np.inf
        rows = np.arange(len(base)) if len(base) <= count else np.argpartition(-base, count)[:count]
        rows = rows[base[rows] > -np.inf]
        rows.sort()
        return rows

    def features(self, rows: NDArray[np.intp]) -> dict[str, Floats]:
        """Return the features of some rows by name; docs/recall.md says what each one is."""
        found = self._word_features(rows) | self._row_features(rows)
        return found if self.cosines is None else found | self._meaning_features(rows)

    def _word_features(self, rows: NDArray[np.intp]) -> dict[str, Floats]:
        image = self.image
        share = self.text.scores / np.float32(max(self.text.total, 1e-6))
        before = image.previous[rows]
        others = np.float32(0) if self.speaker is None else np.float32(1) - self._is_speaker(rows)
        return {
            "words": share[rows],
            "words covered": self._covered(self.text.bits[rows]),
            "words covered nearby": self._covered(self._bits_nearby(rows)),
            "words before": _at(share, before),
            "words behind": _at(share, image.next[rows]),
            "words of another speaker": others * share[rows],
            "answers these words": _at(image.asks, before) * _at(share, before),
        }

    def _meaning_features(self, rows: NDArray[np.intp]) -> dict[str, Floats]:
        image = self.image
        meaning = self._meaning()
        before = image.previous[rows]
        return {
            "meaning": meaning[rows],
            "meaning before": _at(meaning, before),
            "meaning two before": _at(meaning, _at(image.previous, before, NONE)),
            "meaning behind": _at(meaning, image.next[rows]),
            "answers this meaning": _at(image.asks, before) * _at(meaning, before),
        }

    def _row_features(self, rows: NDArray[np.intp]) -> dict[str, Floats]:
        image = self.image
        time_words = image.time_words[rows].astype(np.float32)
        return {
            "speaker": self._is_speaker(rows),
            "asks": image.asks[rows].astype(np.float32),
            "time words": time_words,
            "time words for when": np.float32(self.question.asks_when) * time_words,
            "time": in_time(image.times[rows], self.question.times),
        }

    def _is_speaker(self, rows: NDArray[np.intp]) -> Floats:
        if self.speaker is None:
            return np.zeros(len(rows), dtype=np.float32)
        return (self.image.speaker_of[rows] == self.speaker).astype(np.float32)

    def relevance(self) -> Floats:
        """Return how relevant each row is by itself, from 0 to 1."""
        words = self.text.coverage(self.text.bits) / np.float32(max(self.text.total, 1e-6))
        if self.cosines is None:
            return words
        return np.clip(np.fmax(words, self.cosines), 0, 1)

    def _meaning(self) -> Floats:
        if self.cosines is None:
            return np.zeros(len(self.image), dtype=np.float32)
        return _standard(self.cosines, self.inside)

    def _smoothed(self, scores: Floats, weight: float) -> Floats:
        image = self.image
        before, behind = _at(scores, image.previous), _at(scores, image.next)
        return np.float32(weight) * (scores + np.float32(0.4) * before + np.float32(0.15) * behind)

    def _near_a_match(self) -> NDArray[np.bool_]:
        return self._bits_nearby(np.arange(len(self.image))) != 0

    def _bits_nearby(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        """Return the words of each row and of the two before and behind it in its thread."""
        bits = self.text.bits[rows]
        for links in (self.image.previous, self.image.next):
            near = links[rows]
            bits = bits | _at(self.text.bits, near) | _at(self.text.bits, _at(links, near, NONE))
        return bits

    def _covered(self, bits: NDArray[np.uint64]) -> Floats:
        return self.text.coverage(bits) / np.float32(max(self.text.total, 1e-6))


def _standard(scores: Floats, inside: NDArray[np.bool_] | None) -> Floats:
    """Return scores as distances from their mean, in standard deviations; a missing one is 0."""
    known = scores if inside is None else scores[inside]
    known = known[~np.isnan(known)]
    if not len(known):
        return np.zeros(len(scores), dtype=np.float32)
    spread = max(float(known.std()), _LEAST_SPREAD)
    return np.nan_to_num((scores - known.mean()) / np.float32(spread), nan=0.0)


def _at(values: NDArray[Any], rows: NDArray[np.int32], nothing: int = 0) -> NDArray[Any]:
    """Return the values of some rows, and nothing where there is no row."""
    if not len(values):
        return np.full(len(rows), nothing, dtype=values.dtype)
    found = values[rows]
    found[rows == NONE] = nothing
    return found
