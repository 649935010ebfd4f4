"""Ranks the rows of a user's index for a question.

Every row gets a BM25 score and, if the question has a vector, a cosine similarity. The best few hundred rows,
neighbours considered, are scored again by a weighted sum of features: their own match, the match of the
messages around them, the speaker, and the times that the question names. Each feature has a name, which
explains a hit; docs/recall.md has the table.

The weights were fitted as a linear ranker on four conversations of LoCoMo, with leave-one-out validation,
and on copies of the questions that name nobody. The weight of the time was set by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recollect.recall.index.postings import TextScores, score_text
from recollect.recall.index.user_index import NO_ROW
from recollect.recall.results import Why

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from recollect.recall.index.user_index import UserIndex
    from recollect.recall.question import Question
    from recollect.recall.times.phrases import Interval

    Floats = NDArray[np.float32]

HYBRID_WEIGHTS: dict[str, float] = {
    "words": 2.078,
    "words covered nearby": 3.816,
    "words of another speaker": -2.648,
    "meaning": 0.536,
    "meaning before": -0.083,
    "meaning two before": 0.173,
    "meaning after": 0.152,
    "answers this meaning": 0.459,
    "speaker": 0.898,
    "asks": -0.482,
    "time words": 0.406,
    "time words for when": 0.888,
    "time": 2.0,
}
"""The weights for questions with a vector."""
TEXT_WEIGHTS: dict[str, float] = {
    "words": 0.410,
    "words covered": 3.184,
    "words covered nearby": 4.446,
    "words before": -0.203,
    "words after": 0.253,
    "answers these words": 2.971,
    "speaker": 1.490,
    "asks": -0.524,
    "time words": 0.274,
    "time words for when": 0.942,
    "time": 2.0,
}
"""The weights for searches by text alone."""
_MICROSECONDS = 1_000_000
_DAY = 86_400 * _MICROSECONDS
_WEAK = np.float32(0.5)
CANDIDATES = 400
"""How many rows are scored by features; at least twice what a search can return."""
_MIN_SPREAD = 0.05  # otherwise a few messages with nearly equal cosines would get far apart scores


@dataclass(slots=True)
class Ranking:
    """The ranked rows, best first, and the parts of their scores.

    `scores` and `relevance` are indexed by row, and valid for the rows in `order` only.
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
    _mask: NDArray[np.bool_] | None

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
        return 1 + int(np.count_nonzero(better if self._mask is None else better & self._mask))


def rank(
    index: UserIndex,
    question: Question,
    vector: Floats | None = None,
    mask: NDArray[np.bool_] | None = None,
    spare: int = 0,
) -> Ranking:
    """Rank the rows of an index, or those in the mask.

    `spare` is how many rows the caller may leave out, so that as many more are ranked.
    """
    names = question.find_names(index.speakers)
    terms = question.terms_without(names)
    text = score_text(index.postings, terms)
    cosines = None if vector is None else index.compute_similarities(vector)
    speaker = index.speakers[names[0]] if len(names) == 1 else None
    scorer = _Scorer(index, question, text, cosines, speaker, mask)
    chosen = scorer.find_candidates(CANDIDATES + spare)
    parts = _weigh(scorer.compute_features(chosen), HYBRID_WEIGHTS if cosines is not None else TEXT_WEIGHTS)
    final = np.sum(list(parts.values()), axis=0, dtype=np.float32)
    best = np.argsort(-final, kind="stable")
    scores = np.full(len(index), -np.inf, dtype=np.float32)
    scores[chosen] = final
    relevance = np.zeros(len(index), dtype=np.float32)
    relevance[chosen] = scorer.compute_relevance(chosen)
    return Ranking(
        order=chosen[best],
        scores=scores,
        relevance=relevance,
        searched=len(index) if mask is None else int(np.count_nonzero(mask)),
        _text=text,
        _terms=terms,
        _cosines=cosines,
        _parts=parts,
        _chosen=chosen,
        _mask=mask,
    )


def _weigh(features: Mapping[str, Floats], weights: Mapping[str, float]) -> dict[str, Floats]:
    return {name: np.float32(weight) * features[name] for name, weight in weights.items()}


@dataclass
class _Scorer:
    """Computes the features of rows for one question."""

    index: UserIndex
    question: Question
    text: TextScores
    cosines: Floats | None
    speaker: int | None
    mask: NDArray[np.bool_] | None

    def find_candidates(self, count: int) -> NDArray[np.intp]:
        """Return the rows with the best match, their own and their neighbours'."""
        # A coarse score with round weights: it only has to keep good rows among a few hundred.
        base = np.float32(0.3) * _standardise(self.text.scores, self.mask)
        if self.cosines is not None:
            base += np.float32(0.7) * self.meaning
        base = self._smooth(base)
        if self.speaker is not None:
            base += np.float32(0.5) * (self.index.speaker_of == self.speaker)
        if self.mask is not None:
            base[~self.mask] = -np.inf
        if self.cosines is None:
            base[~self._is_near_match()] = -np.inf  # without vectors nothing else could be relevant
        rows = np.arange(len(base)) if len(base) <= count else np.argpartition(-base, count)[:count]
        rows = rows[base[rows] > -np.inf]
        rows.sort()  # `Ranking.why` finds a row by binary search
        return rows

    def compute_features(self, rows: NDArray[np.intp]) -> dict[str, Floats]:
        """Return the features of rows by name; docs/recall.md describes each."""
        found = self._word_features(rows) | self._row_features(rows)
        return found if self.cosines is None else found | self._meaning_features(rows)

    def _word_features(self, rows: NDArray[np.intp]) -> dict[str, Floats]:
        index = self.index
        total = np.float32(max(self.text.total, 1e-6))
        before = index.previous[rows]
        share, share_before = self.text.scores[rows] / total, _take(self.text.scores, before) / total
        # Only if the question names a speaker can a row be somebody else's.
        others = np.float32(0) if self.speaker is None else np.float32(1) - self._match_speaker(rows)
        return {
            "words": share,
            "words covered": self._measure_coverage(self.text.bits[rows]),
            "words covered nearby": self._measure_coverage(self._find_bits_nearby(rows)),
            "words before": share_before,
            "words after": _take(self.text.scores, index.next[rows]) / total,
            "words of another speaker": others * share,
            "answers these words": _take(index.asks, before) * share_before,
        }

    def _meaning_features(self, rows: NDArray[np.intp]) -> dict[str, Floats]:
        index = self.index
        meaning = self.meaning
        before = index.previous[rows]
        meaning_before = _take(meaning, before)
        return {
            "meaning": meaning[rows],
            "meaning before": meaning_before,
            "meaning two before": _take(meaning, _take(index.previous, before, NO_ROW)),
            "meaning after": _take(meaning, index.next[rows]),
            "answers this meaning": _take(index.asks, before) * meaning_before,
        }

    def _row_features(self, rows: NDArray[np.intp]) -> dict[str, Floats]:
        index = self.index
        time_words = index.time_words[rows].astype(np.float32)
        return {
            "speaker": self._match_speaker(rows),
            "asks": index.asks[rows].astype(np.float32),
            "time words": time_words,
            "time words for when": np.float32(self.question.asks_when) * time_words,
            "time": score_times(index.times[rows], self.question.times),
        }

    def _match_speaker(self, rows: NDArray[np.intp]) -> Floats:
        if self.speaker is None:
            return np.zeros(len(rows), dtype=np.float32)
        return (self.index.speaker_of[rows] == self.speaker).astype(np.float32)

    def compute_relevance(self, rows: NDArray[np.intp]) -> Floats:
        """Return the relevance of rows by themselves, from 0 to 1."""
        words = self._measure_coverage(self.text.bits[rows])
        if self.cosines is None:
            return words
        return np.clip(np.fmax(words, self.cosines[rows]), 0, 1)

    @cached_property
    def meaning(self) -> Floats:
        """The cosine of each row, in standard deviations from the mean."""
        if self.cosines is None:
            return np.zeros(len(self.index), dtype=np.float32)
        return _standardise(self.cosines, self.mask)

    def _smooth(self, scores: Floats) -> Floats:
        """Add to each score a part of the scores of the rows before and after."""
        # Links without a row are -1 and so lead to the last value, a zero.
        padded: Floats = np.zeros(len(scores) + 1, dtype=np.float32)
        padded[:-1] = scores
        near: Floats = np.float32(0.4) * padded[self.index.previous]
        near += np.float32(0.15) * padded[self.index.next]
        return np.add(scores, near, out=near)

    def _is_near_match(self) -> NDArray[np.bool_]:
        return self._find_bits_nearby(np.arange(len(self.index))) != 0

    def _find_bits_nearby(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        """Return which terms each row has, together with the two rows before and after it in its thread."""
        bits = self.text.bits[rows]
        for links in (self.index.previous, self.index.next):
            near = links[rows]
            bits = bits | _take(self.text.bits, near) | _take(self.text.bits, _take(links, near, NO_ROW))
        return bits

    def _measure_coverage(self, bits: NDArray[np.uint64]) -> Floats:
        return self.text.measure_coverage(bits) / np.float32(max(self.text.total, 1e-6))


def _standardise(scores: Floats, mask: NDArray[np.bool_] | None) -> Floats:
    """Return scores in standard deviations from their mean; a missing score (NaN) gives 0."""
    known = scores if mask is None else scores[mask]
    mean = known.mean() if len(known) else np.float32(np.nan)
    if np.isnan(mean):  # some are missing, which is rare and so checked only here
        known = known[~np.isnan(known)]
        if not len(known):
            return np.zeros(len(scores), dtype=np.float32)
        mean = known.mean()
    found = scores - mean
    found /= np.float32(max(float(known.std()), _MIN_SPREAD))
    return np.nan_to_num(found, copy=False, nan=0.0)


def _take(values: NDArray[Any], rows: NDArray[np.int32], default: int = 0) -> NDArray[Any]:
    """Return the values of rows, or `default` for `NO_ROW`."""
    if not len(values):
        return np.full(len(rows), default, dtype=values.dtype)
    found = values[rows]
    found[rows == NO_ROW] = default
    return found


def score_times(times: NDArray[np.int64], intervals: Sequence[Interval]) -> Floats:
    """Return 1 for each time (microseconds since 1970) that lies in an interval, otherwise 0.

    An interval of a vague phrase gives 0.5.
    """
    found = np.zeros(len(times), dtype=np.float32)
    for interval in intervals:
        start, end = interval.start, interval.end
        inside = _is_in_any_year(times, start, end) if interval.any_year else _is_between(times, start, end)
        np.maximum(found, inside * (_WEAK if interval.weak else np.float32(1)), out=found)
    return found


def _is_between(times: NDArray[np.int64], start: datetime, end: datetime) -> NDArray[np.bool_]:
    first, last = (int(edge.timestamp()) * _MICROSECONDS for edge in (start, end))
    return (times >= first) & (times < last)


def _is_in_any_year(times: NDArray[np.int64], start: datetime, end: datetime) -> NDArray[np.bool_]:
    """Compare month and day only; an interval may cross the end of a year."""
    if end - start >= timedelta(days=365):
        return np.ones(len(times), dtype=np.bool_)
    days = (times // _DAY).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    codes = (months.astype(np.int64) % 12 + 1) * 100 + (days - months).astype(np.int64) + 1
    first, last = (edge.month * 100 + edge.day for edge in (start, end))
    if first < last:
        return (codes >= first) & (codes < last)
    return (codes >= first) | (codes < last)
