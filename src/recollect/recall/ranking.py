"""Ranks the rows of a user's index for a question.

Every row is scored by its words (BM25) and, if the question has a vector, by its meaning (cosine). The best
few hundred, neighbours considered, are then scored again by a weighted sum of features: their own match,
that of the messages around them and of their thread, who speaks, and how near they are to the times that
the question names. Each part of a score has a name, which is what explains a hit; docs/recall.md has the
table.

The weights were fitted as a linear ranker on four conversations of LoCoMo, each judged by a fit on the
other three, and on copies of the questions that name nobody. The weight of the time was set by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recollect.recall.index.postings import TextScores, score_text
from recollect.recall.index.user_index import NONE
from recollect.recall.results import Why

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from recollect.recall.times.phrases import Interval

    Floats = NDArray[np.float32]
    from collections.abc import Mapping

    from recollect.recall.index.user_index import UserIndex
    from recollect.recall.question import Question

HYBRID_WEIGHTS: dict[str, float] = {
    "words": 2.078,
    "words covered nearby": 3.816,
    "words of another speaker": -2.648,
    "meaning": 0.536,
    "meaning before": -0.083,
    "meaning two before": 0.173,
    "meaning behind": 0.152,
    "answers this meaning": 0.459,
    "speaker": 0.898,
    "asks": -0.482,
    "time words": 0.406,
    "time words for when": 0.888,
    "time": 2.0,
}
"""For questions with a vector."""
TEXT_WEIGHTS: dict[str, float] = {
    "words": 0.410,
    "words covered": 3.184,
    "words covered nearby": 4.446,
    "words before": -0.203,
    "words behind": 0.253,
    "answers these words": 2.971,
    "speaker": 1.490,
    "asks": -0.524,
    "time words": 0.274,
    "time words for when": 0.942,
    "time": 2.0,
}
"""For searches by words alone."""
_MICROSECONDS = 1_000_000
_DAY = 86_400 * _MICROSECONDS
_WEAK = np.float32(0.5)
CANDIDATES = 400
"""How many rows are looked at closely; at least twice what a search can return."""
_LEAST_SPREAD = 0.05  # else a few messages of about the same meaning would be torn far apart


@dataclass(slots=True)
class Ranking:
    """Rows in order, best first, and what their scores are made of.

    `scores` and `relevance` are by row, and known of the rows in `order` alone.
    """

    order: NDArray[np.intp]
    scores: Floats
    relevance: Floats
    searched: int
    _text: TextScores
    _terms: tuple[str, ...]
    _cosines: Floats | None
    _parts: Mapping[str, Floats]
    _chosen: NDArray[np.intp]
    _inside: NDArray[np.bool_] | None

    def why(self, row: int) -> Why:
        """Say why a row is where it is."""
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
        return 1 + int(np.count_nonzero(better if self._inside is None else better & self._inside))


def rank(
    index: UserIndex,
    question: Question,
    vector: Floats | None = None,
    inside: NDArray[np.bool_] | None = None,
    spare: int = 0,
) -> Ranking:
    """Rank the rows of an index, or those `inside` a part of it.

    `spare` is how many of them the caller may pass over, so that as many more are looked at.
    """
    names = question.names(index.speakers)
    terms = question.terms_without(names)
    text = score_text(index.postings, terms)
    cosines = None if vector is None else index.similarities(vector)
    speaker = index.speakers[names[0]] if len(names) == 1 else None
    view = _View(index, question, text, cosines, speaker, inside)
    chosen = view.candidates(CANDIDATES + spare)
    parts = _weighted(view.features(chosen), HYBRID_WEIGHTS if cosines is not None else TEXT_WEIGHTS)
    final = np.sum(list(parts.values()), axis=0, dtype=np.float32)
    best = np.argsort(-final, kind="stable")
    scores = np.full(len(index), -np.inf, dtype=np.float32)
    scores[chosen] = final
    relevance = np.zeros(len(index), dtype=np.float32)
    relevance[chosen] = view.relevance(chosen)
    return Ranking(
        order=chosen[best],
        scores=scores,
        relevance=relevance,
        searched=len(index) if inside is None else int(np.count_nonzero(inside)),
        _text=text,
        _terms=terms,
        _cosines=cosines,
        _parts=parts,
        _chosen=chosen,
        _inside=inside,
    )


def _weighted(features: Mapping[str, Floats], weights: Mapping[str, float]) -> dict[str, Floats]:
    return {name: np.float32(weight) * features[name] for name, weight in weights.items()}


@dataclass
class _View:
    """All that the features of rows are made of."""

    index: UserIndex
    question: Question
    text: TextScores
    cosines: Floats | None
    speaker: int | None
    inside: NDArray[np.bool_] | None

    def candidates(self, count: int) -> NDArray[np.intp]:
        """Return the rows worth a closer look: by their own match and their neighbours'."""
        base = np.float32(0.3) * _standard(self.text.scores, self.inside)
        if self.cosines is not None:
            base += np.float32(0.7) * self.meaning
        base = self._smoothed(base)
        if self.speaker is not None:
            base += np.float32(0.5) * (self.index.speaker_of == self.speaker)
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
        index = self.index
        total = np.float32(max(self.text.total, 1e-6))
        before = index.previous[rows]
        share, share_before = self.text.scores[rows] / total, _at(self.text.scores, before) / total
        others = np.float32(0) if self.speaker is None else np.float32(1) - self._is_speaker(rows)
        return {
            "words": share,
            "words covered": self._covered(self.text.bits[rows]),
            "words covered nearby": self._covered(self._bits_nearby(rows)),
            "words before": share_before,
            "words behind": _at(self.text.scores, index.next[rows]) / total,
            "words of another speaker": others * share,
            "answers these words": _at(index.asks, before) * share_before,
        }

    def _meaning_features(self, rows: NDArray[np.intp]) -> dict[str, Floats]:
        index = self.index
        meaning = self.meaning
        before = index.previous[rows]
        meaning_before = _at(meaning, before)
        return {
            "meaning": meaning[rows],
            "meaning before": meaning_before,
            "meaning two before": _at(meaning, _at(index.previous, before, NONE)),
            "meaning behind": _at(meaning, index.next[rows]),
            "answers this meaning": _at(index.asks, before) * meaning_before,
        }

    def _row_features(self, rows: NDArray[np.intp]) -> dict[str, Floats]:
        index = self.index
        time_words = index.time_words[rows].astype(np.float32)
        return {
            "speaker": self._is_speaker(rows),
            "asks": index.asks[rows].astype(np.float32),
            "time words": time_words,
            "time words for when": np.float32(self.question.asks_when) * time_words,
            "time": in_time(index.times[rows], self.question.times),
        }

    def _is_speaker(self, rows: NDArray[np.intp]) -> Floats:
        if self.speaker is None:
            return np.zeros(len(rows), dtype=np.float32)
        return (self.index.speaker_of[rows] == self.speaker).astype(np.float32)

    def relevance(self, rows: NDArray[np.intp]) -> Floats:
        """Return how relevant some rows are by themselves, from 0 to 1."""
        words = self._covered(self.text.bits[rows])
        if self.cosines is None:
            return words
        return np.clip(np.fmax(words, self.cosines[rows]), 0, 1)

    @cached_property
    def meaning(self) -> Floats:
        """How near each row's meaning is, in standard deviations from the mean."""
        if self.cosines is None:
            return np.zeros(len(self.index), dtype=np.float32)
        return _standard(self.cosines, self.inside)

    def _smoothed(self, scores: Floats) -> Floats:
        """Return scores with a part of those of the row before and the row behind."""
        # Where there is no row, the links lead to the last value: a zero.
        padded: Floats = np.zeros(len(scores) + 1, dtype=np.float32)
        padded[:-1] = scores
        near: Floats = np.float32(0.4) * padded[self.index.previous]
        near += np.float32(0.15) * padded[self.index.next]
        return np.add(scores, near, out=near)

    def _near_a_match(self) -> NDArray[np.bool_]:
        return self._bits_nearby(np.arange(len(self.index))) != 0

    def _bits_nearby(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        """Return the words of each row and of the two before and behind it in its thread."""
        bits = self.text.bits[rows]
        for links in (self.index.previous, self.index.next):
            near = links[rows]
            bits = bits | _at(self.text.bits, near) | _at(self.text.bits, _at(links, near, NONE))
        return bits

    def _covered(self, bits: NDArray[np.uint64]) -> Floats:
        return self.text.coverage(bits) / np.float32(max(self.text.total, 1e-6))


def _standard(scores: Floats, inside: NDArray[np.bool_] | None) -> Floats:
    """Return scores as distances from their mean, in standard deviations; a missing one is 0."""
    known = scores if inside is None else scores[inside]
    mean = known.mean() if len(known) else np.float32(np.nan)
    if np.isnan(mean):  # some are missing, which is looked for only then
        known = known[~np.isnan(known)]
        if not len(known):
            return np.zeros(len(scores), dtype=np.float32)
        mean = known.mean()
    found = scores - mean
    found /= np.float32(max(float(known.std()), _LEAST_SPREAD))
    return np.nan_to_num(found, copy=False, nan=0.0)


def _at(values: NDArray[Any], rows: NDArray[np.int32], nothing: int = 0) -> NDArray[Any]:
    """Return the values of some rows, and nothing where there is no row."""
    if not len(values):
        return np.full(len(rows), nothing, dtype=values.dtype)
    found = values[rows]
    found[rows == NONE] = nothing
    return found


def in_time(times: NDArray[np.int64], intervals: Sequence[Interval]) -> Floats:
    """Say for each time (microseconds since 1970) whether it lies in an interval, as 0 or 1.

    A vague phrase counts half.
    """
    found = np.zeros(len(times), dtype=np.float32)
    for interval in intervals:
        start, end = interval.start, interval.end
        inside = _in_any_year(times, start, end) if interval.any_year else _between(times, start, end)
        np.maximum(found, inside * (_WEAK if interval.weak else np.float32(1)), out=found)
    return found


def _between(times: NDArray[np.int64], start: datetime, end: datetime) -> NDArray[np.bool_]:
    first, last = (int(edge.timestamp()) * _MICROSECONDS for edge in (start, end))
    return (times >= first) & (times < last)


def _in_any_year(times: NDArray[np.int64], start: datetime, end: datetime) -> NDArray[np.bool_]:
    """Compare by month and day alone; an interval may reach over the end of a year."""
    if end - start >= timedelta(days=365):
        return np.ones(len(times), dtype=np.bool_)
    days = (times // _DAY).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    codes = (months.astype(np.int64) % 12 + 1) * 100 + (days - months).astype(np.int64) + 1
    first, last = (edge.month * 100 + edge.day for edge in (start, end))
    if first < last:
        return (codes >= first) & (codes < last)
    return (codes >= first) | (codes < last)
