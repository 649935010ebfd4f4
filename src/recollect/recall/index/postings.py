"""The inverted index of one user's messages, and BM25 over it.

The unit is a segment: a short message is one, a long one is cut into several, so that length is no advantage.
The index is one sorted array of 64-bit numbers. A posting packs the term's hash (32 bits), the segment (24)
and the count (8) into one number: the term 0xABCD, twice in segment 5, is 0x0000ABCD_000005_02. So one sort
of plain integers builds the index, and the postings of a term are a slice. New segments go into a small
second array, which is sometimes merged into the large one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recollect.recall.index.arrays import append, count_bytes
from recollect.text.terms import term_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_SEGMENTS = 1 << 23
"""How many segments of a user are searched; with those of one more page of rows they fit into 24 bits."""
_HASH_SHIFT = np.uint64(32)
_SEGMENT_SHIFT = np.uint64(8)
_SEGMENT_MASK = np.uint64((1 << 24) - 1)
_COUNT_MASK = np.uint64(0xFF)
_MIN_TAIL = 1 << 14  # postings; the second array is merged once it is larger than this
_TAIL_SHARE = 8  # and larger than an eighth of the first
_K1 = 1.2  # the usual parameters of BM25
_B = 0.75


class NewTerms(NamedTuple):
    """The terms of rows that were added, and the segment of each."""

    hashes: NDArray[np.uint32]
    segments: NDArray[np.int64]


class Postings:
    """The terms of the segments of an index.

    `lengths` is the number of words of each segment, `row_of` its row, and `first` the first segment of each
    row.
    """

    __slots__ = ("_main", "_tail", "first", "lengths", "row_of")

    def __init__(self) -> None:
        self._main = np.empty(0, dtype=np.uint64)
        self._tail = np.empty(0, dtype=np.uint64)
        self.lengths: NDArray[np.float32] = np.empty(0, dtype=np.float32)
        self.row_of: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self.first: NDArray[np.int32] = np.empty(0, dtype=np.int32)

    @property
    def nbytes(self) -> int:
        """The size of its arrays in bytes."""
        return count_bytes((self._main, self._tail, self.lengths, self.row_of, self.first))

    def extend(self, hashes: Sequence[bytes], counts: Sequence[bytes]) -> NewTerms:
        """Append rows, each with its term hashes (uint32) and counts (uint8); a count of 0 parts segments."""
        first = len(self.lengths)
        count = np.frombuffer(b"".join(counts), dtype=np.uint8)
        of_row = np.repeat(np.arange(len(counts)), np.fromiter(map(len, counts), np.int64, len(counts)))
        breaks = np.cumsum(count == 0)
        segment = first + of_row + breaks
        cuts = np.bincount(of_row[count == 0], minlength=len(counts))
        self.first = append(
            self.first, (first + np.arange(len(counts)) + np.cumsum(cuts) - cuts).astype(np.int32)
        )
        rows = np.arange(len(self.first) - len(counts), len(self.first), dtype=np.int32)
        self.row_of = append(self.row_of, np.repeat(rows, cuts + 1))
        lengths = np.bincount(segment - first, weights=count, minlength=len(counts) + int(cuts.sum()))
        self.lengths = append(self.lengths, lengths.astype(np.float32))
        kept = count > 0
        found = NewTerms(np.frombuffer(b"".join(hashes), dtype="<u4")[kept], segment[kept])
        packed = found.hashes.astype(np.uint64) << _HASH_SHIFT
        packed |= found.segments.astype(np.uint64) << _SEGMENT_SHIFT
        packed |= count[kept]
        self._add(packed)
        return found

    def find(self, term: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the segments that contain a term, and how often."""
        slices = [_slice(part, term) for part in (self._main, self._tail) if len(part)]
        found = slices[0] if len(slices) == 1 else np.concatenate([np.empty(0, dtype=np.uint64), *slices])
        segments = (found >> _SEGMENT_SHIFT) & _SEGMENT_MASK
        return segments.view(np.int64).astype(np.intp, copy=False), (found & _COUNT_MASK).astype(np.float32)

    def _add(self, packed: NDArray[np.uint64]) -> None:
        self._tail = np.concatenate((self._tail, packed))
        self._tail.sort(kind="stable")  # which merges parts that are sorted already
        if len(self._main) and len(self._tail) < max(_MIN_TAIL, len(self._main) // _TAIL_SHARE):
            return
        self._main = np.concatenate((self._main, self._tail))
        self._main.sort(kind="stable")
        self._tail = np.empty(0, dtype=np.uint64)


def _slice(part: NDArray[np.uint64], term: int) -> NDArray[np.uint64]:
    bounds = np.array([term << 32, (term << 32) | 0xFFFFFFFF], dtype=np.uint64)
    low, high = part.searchsorted(bounds)
    return part[low : high + (high < len(part) and part[high] == bounds[1])]


@dataclass(slots=True)
class TextScores:
    """How well each row matches the terms of a question.

    `scores` is BM25 of the best segment by row, `bits` which terms that segment has, `best` its number, and
    `weights` how rare each term is.
    """

    scores: NDArray[np.float32]
    bits: NDArray[np.uint64]
    best: NDArray[np.int32]
    weights: NDArray[np.float32]

    @property
    def total(self) -> float:
        """The sum of the weights of all terms."""
        return float(self.weights.sum())

    def measure_coverage(self, bits: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return the weight of the terms in each set of bits."""
        found = np.zeros(len(bits), dtype=np.float32)
        for place, weight in enumerate(self.weights):
            found += weight * ((bits >> np.uint64(place)) & np.uint64(1)).astype(np.float32)
        return found


def score_text(
    postings: Postings, terms: Sequence[str], visible: NDArray[np.bool_] | None = None
) -> TextScores:
    """Score every row by the terms of a question; a row without any of them scores 0.

    Rows that are not visible score 0 too, and do not count for how rare a term is.
    """
    seen = None if visible is None else visible[postings.row_of]
    known = postings.lengths if seen is None else postings.lengths[seen]
    count = len(known)
    scores = np.zeros(len(postings.lengths), dtype=np.float32)
    bits = np.zeros(len(postings.lengths), dtype=np.uint64)
    weights = np.zeros(len(terms), dtype=np.float32)
    average = float(known.mean()) if count else 1.0
    for place, term in enumerate(terms):
        segments, frequencies = postings.find(term_hash(term))
        if seen is not None:
            segments, frequencies = segments[seen[segments]], frequencies[seen[segments]]
        weights[place] = np.log(1 + (count - len(segments) + 0.5) / (len(segments) + 0.5))
        added = weights[place] * frequencies * (_K1 + 1)
        frequencies += _K1 * (1 - _B + _B * postings.lengths[segments] / max(average, 1e-6))
        added /= frequencies
        scores[segments] += added
        bits[segments] |= np.uint64(1 << place)
    return _keep_best_segments(postings, scores, bits, weights)


def _keep_best_segments(
    postings: Postings,
    scores: NDArray[np.float32],
    bits: NDArray[np.uint64],
    weights: NDArray[np.float32],
) -> TextScores:
    if len(postings.first) == len(postings.lengths):  # one segment each, as in most chats between people
        return TextScores(scores, bits, postings.first, weights)
    highest = np.maximum.reduceat(scores, postings.first)
    best = postings.first.copy()
    matching = np.flatnonzero((scores == highest[postings.row_of]) & (scores > 0))[::-1]
    best[postings.row_of[matching]] = matching  # backwards, so that the first of equals is the last written
    return TextScores(highest, bits[best], best, weights)
