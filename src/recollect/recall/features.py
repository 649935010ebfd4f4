"""The features that a ranking weighs: how a message matches a question, and where it stands.

Each feature is a number for each row, with a name that explains a hit; docs/recall.md has the table. Some
hold only for chats with an assistant, whose messages are much longer than those of its user and hold little
of what a user asks for later; between people they are 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recollect.recall.index.user_index import NO_ROW, has_long_answers
from recollect.recall.times.scoring import score_times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recollect.recall.index.postings import TextScores
    from recollect.recall.index.user_index import UserIndex
    from recollect.recall.question import Question

    Floats = NDArray[np.float32]
    Rows = NDArray[np.intp]

_MIN_SPREAD = 0.05  # otherwise a few messages with nearly equal cosines would get far apart scores
_SHORT_QUESTION = 60  # words; a longer message before is not a question that this one answers
_SHORT_THREAD = 8  # messages; in longer threads the first one says less about the rest
_RECENT_THREADS = 10
_ENOUGH_WORDS = 8  # a message with so many of a question's words is as relevant as can be
_MOST_WORDS = np.float32(0.35)  # what only the assistant said must still be found by its words
_WORDS, _MEANING = np.float32(0.3), np.float32(0.7)  # a coarse mixture that only has to find candidates


@dataclass
class Features:
    """Computes the features of rows for one question.

    Rows that are not `visible` count neither by themselves nor as neighbours. `speaker` is the code of the
    one speaker whom the question names.
    """

    index: UserIndex
    question: Question
    text: TextScores
    cosines: Floats | None
    speaker: int | None
    visible: NDArray[np.bool_] | None = None

    def find_candidates(self, count: int, wanted: NDArray[np.bool_] | None) -> Rows:
        """Return the wanted rows with the best match, their own and their neighbours', in order."""
        base = self._smooth(self.coarse)
        if self.speaker is not None:
            base += np.float32(0.5) * (self.index.speaker_of == self.speaker)
        for mask in (self.visible, wanted):
            if mask is not None:
                base[~mask] = -np.inf
        if self.cosines is None:
            base[~self._find_near_words()] = -np.inf  # nothing else is relevant
        rows = np.arange(len(base)) if len(base) <= count else np.argpartition(-base, count)[:count]
        rows = rows[base[rows] > -np.inf]
        rows.sort()
        return rows

    def compute(self, rows: Rows) -> dict[str, Floats]:
        """Return the features of rows by name."""
        found = self._compute_word_features(rows) | self._compute_row_features(rows)
        found |= self._compute_thread_features(rows)
        return found if self.cosines is None else found | self._compute_meaning_features(rows)

    def measure_relevance(self, rows: Rows) -> Floats:
        """Return the relevance of rows, from 0 to 1: that of their meaning, or of their words.

        Words of the messages around count half: an answer often leaves out what was asked.
        """
        nearby = self.text.measure_coverage(self._find_bits_nearby(rows)) / np.float32(2)
        words = np.fmax(self.text.measure_coverage(self.text.bits[rows]), nearby)
        # No message has all words of a long question.
        rarest = np.sort(self.text.weights)[-_ENOUGH_WORDS:].sum()
        words /= np.float32(max(float(rarest), 1e-6))
        return np.clip(words if self.cosines is None else np.fmax(words, self.cosines[rows]), 0, 1)

    def _compute_word_features(self, rows: Rows) -> dict[str, Floats]:
        index = self.index
        before = index.previous[rows]
        words, covered = self.words[rows], self._measure_coverage(self.text.bits[rows])
        nearby = self._measure_coverage(self._find_bits_nearby(rows))
        covered_before = self._measure_coverage(_take(self.text.bits, before))
        return {
            "words": words,
            "words covered": covered,
            "words covered nearby": nearby,
            "best words nearby": _score_rank(np.add(nearby, covered / 10, dtype=np.float32)) * (nearby > 0),
            "words before": _take(self.words, before),
            "words after": _take(self.words, index.next[rows]),
            "answers these words": self._follows_question(before) * covered_before,
            "words of the assistant": self._by_assistant(rows) * np.minimum(words, _MOST_WORDS),
        }

    def _compute_meaning_features(self, rows: Rows) -> dict[str, Floats]:
        index, meaning = self.index, self.meaning
        before = index.previous[rows]
        meaning_before = _take(meaning, before)
        return {
            "meaning": meaning[rows],
            "meaning before": meaning_before,
            "meaning two before": _take(meaning, _take(index.previous, before, NO_ROW)),
            "meaning after": _take(meaning, index.next[rows]),
            "answers this meaning": self._follows_question(before) * meaning_before,
            "meaning in the thread": self._find_best_in_thread(meaning)[index.thread_of[rows]],
        }

    def _compute_row_features(self, rows: Rows) -> dict[str, Floats]:
        index = self.index
        time_words = index.time_words[self.text.best[rows]].astype(np.float32)
        by_user = np.float32(self.is_chat) - self._by_assistant(rows)
        return {
            "speaker": self._match_speaker(rows),
            "asks": index.asks[rows].astype(np.float32),
            "time words": time_words,
            "time words for when": np.float32(self.question.asks_when) * time_words,
            "time": score_times(index.times[rows], self.question.times),
            "by the assistant": self._by_assistant(rows),
            "user says I": by_user * index.first_person[rows],
            "length of the user's message": by_user * np.log1p(index.words[rows]) / np.float32(5),
        }

    def _compute_thread_features(self, rows: Rows) -> dict[str, Floats]:
        index = self.index
        threads = index.thread_of[rows]
        sizes = np.maximum(self._count_threads(), 1)
        is_chat = np.float32(self.is_chat)
        opens = (index.previous[rows] == NO_ROW) * is_chat
        ranks = _count_better(self._find_best_in_thread(self.coarse))[threads]
        age = _count_better(self._find_last_in_thread())[threads]
        return {
            "words in the thread": self._find_best_in_thread(self.words)[threads],
            "words over the thread": (np.bincount(index.thread_of, self.words, len(sizes)) / sizes)[
                threads
            ].astype(np.float32),
            "rank of the thread": -np.log(np.float32(1.5) + ranks),
            "opens a short thread": opens * np.minimum(np.float32(1), _SHORT_THREAD / sizes[threads]),
            "recent thread": -is_chat * np.log1p(age / np.float32(_RECENT_THREADS)),
        }

    @cached_property
    def is_chat(self) -> bool:
        """Whether it is a chat with an assistant."""
        index = self.index
        if self.visible is None:
            return index.is_chat_with_assistant
        return has_long_answers(index.words[self.visible], index.by_assistant[self.visible])

    @cached_property
    def words(self) -> Floats:
        """The BM25 score of each row, as a share of what all words of the question weigh."""
        return self.text.scores / np.float32(max(self.text.total, 1e-6))

    @cached_property
    def meaning(self) -> Floats:
        """The cosine of each row, in standard deviations from the mean.

        In a chat with an assistant from the mean of its role: long answers are near to many questions.
        """
        if self.cosines is None:
            return np.zeros(len(self.index), dtype=np.float32)
        if not self.is_chat:
            return _standardise(self.cosines, self.visible)
        found = np.zeros(len(self.index), dtype=np.float32)
        for side in (self.index.by_assistant, ~self.index.by_assistant):
            mask = side if self.visible is None else side & self.visible
            found[mask] = _standardise(self.cosines[mask])
        return found

    @cached_property
    def coarse(self) -> Floats:
        """The words and the meaning of each row in one number."""
        words = _WORDS * _standardise(self.words, self.visible)
        return np.add(words, _MEANING * self.meaning, dtype=np.float32)

    def _by_assistant(self, rows: Rows) -> Floats:
        return np.float32(self.is_chat) * self.index.by_assistant[rows]

    def _match_speaker(self, rows: Rows) -> Floats:
        if self.speaker is None:
            return np.zeros(len(rows), dtype=np.float32)
        return (self.index.speaker_of[rows] == self.speaker).astype(np.float32)

    def _follows_question(self, before: NDArray[np.int32]) -> Floats:
        is_short = _take(self.index.words, before) < _SHORT_QUESTION
        return (_take(self.index.asks, before) & is_short).astype(np.float32)

    def _find_best_in_thread(self, scores: Floats) -> Floats:
        found = np.full(max(len(self.index.threads), 1), -9, dtype=np.float32)
        if self.visible is None:
            np.maximum.at(found, self.index.thread_of, scores)
        else:
            np.maximum.at(found, self.index.thread_of[self.visible], scores[self.visible])
        return found

    def _find_last_in_thread(self) -> NDArray[np.intp]:
        if self.visible is None:
            return self.index.last_in_thread
        found = np.full(max(len(self.index.threads), 1), -1)
        rows = np.flatnonzero(self.visible)
        found[self.index.thread_of[rows]] = rows  # in order, so that the last one stays
        return found

    def _count_threads(self) -> NDArray[np.intp]:
        """Return how many messages each thread has."""
        if self.visible is None:
            return self.index.thread_sizes
        return np.bincount(self.index.thread_of[self.visible], minlength=max(len(self.index.threads), 1))

    def _smooth(self, scores: Floats) -> Floats:
        """Add to each score a part of the scores of the rows before and after."""
        # Links without a row are -1 and so lead to the last value, a zero.
        padded: Floats = np.zeros(len(scores) + 1, dtype=np.float32)
        padded[:-1] = scores
        near: Floats = np.float32(0.4) * padded[self.index.previous]
        near += np.float32(0.15) * padded[self.index.next]
        return np.add(scores, near, out=near)

    def _find_bits_nearby(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        """Return which terms each row has, together with the two short rows before and after it."""
        bits = self.text.bits[rows]
        for links in (self.index.previous, self.index.next):
            near = links[rows]
            bits = bits | self._get_short_bits(near) | self._get_short_bits(_take(links, near, NO_ROW))
        return bits

    def _find_near_words(self) -> NDArray[np.bool_]:
        """Return which rows have bits nearby, from the rows with terms outwards: they are few."""
        found = self.text.bits != 0
        rows = np.flatnonzero(found & self._is_short)
        for links in (self.index.previous, self.index.next):
            near = rows
            for _ in range(2):
                near = links[near]
                near = near[near != NO_ROW]
                found[near] = True
        return found

    def _get_short_bits(self, rows: NDArray[np.int32]) -> NDArray[np.uint64]:
        """Return the terms of messages of one segment: a long one has nearly every word."""
        return np.where(_take(self._is_short, rows), _take(self.text.bits, rows), np.uint64(0))

    @cached_property
    def _is_short(self) -> NDArray[np.bool_]:
        first = self.index.postings.first
        return np.diff(first, append=len(self.index.postings.lengths)) == 1

    def _measure_coverage(self, bits: NDArray[np.uint64]) -> Floats:
        return self.text.measure_coverage(bits) / np.float32(max(self.text.total, 1e-6))


def weigh(features: Mapping[str, Floats], weights: Mapping[str, float]) -> dict[str, Floats]:
    """Return the parts of the score of each row by name."""
    return {name: np.float32(weight) * features[name] for name, weight in weights.items()}


def _score_rank(values: Floats) -> Floats:
    """Return 1/4 for the highest value, 1/5 for the next, and so on."""
    ranks = np.empty(len(values), dtype=np.float32)
    ranks[np.argsort(-values, kind="stable")] = np.arange(4, len(values) + 4)
    return np.float32(1) / ranks


def _count_better(values: NDArray[Any]) -> NDArray[np.intp]:
    """Return for each value how many are higher."""
    ranks = np.empty(len(values), dtype=np.intp)
    ranks[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return ranks


def _standardise(scores: Floats, mask: NDArray[np.bool_] | None = None) -> Floats:
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
    np.nan_to_num(found, copy=False, nan=0.0)
    return found if mask is None else found * mask


def _take(values: NDArray[Any], rows: NDArray[np.int32], default: int = 0) -> NDArray[Any]:
    """Return the values of rows, or `default` for `NO_ROW`."""
    if not len(values):
        return np.full(len(rows), default, dtype=values.dtype)
    found = values[rows]
    found[rows == NO_ROW] = default
    return found
