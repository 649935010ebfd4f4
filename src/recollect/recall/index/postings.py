"""The inverted index of one user's messages, and BM25 over it.

The index is one sorted array of 64-bit numbers. A posting packs the term's hash (32 bits), the row (24) and
the count (8) into one number: the term 0xABCD, twice in row 5, is 0x0000ABCD_000005_02. So one sort of plain
integers builds the index, and the postings of a term are a slice. New rows go into a small second array,
which is sometimes merged into the large one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recollect.text.terms import term_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_ROWS = 1 << 24
"""The maximum number of rows: 24 bits."""
_HASH_SHIFT = np.uint64(32)
_ROW_SHIFT = np.uint64(8)
_ROW_MASK = np.uint64(MAX_ROWS - 1)
_COUNT_MASK = np.uint64(0xFF)
_MIN_TAIL = 1 << 14  # postings; the second array is merged once it is larger than this
_TAIL_SHARE = 8  # and larger than an eighth of the first
_K1 = 1.2  # the usual parameters of BM25
_B = 0.75


class Postings:
    """The terms of the rows of an index."""

    __slots__ = ("_main", "_tail", "lengths")

    def __init__(self) -> None:
        self._main = np.empty(0, dtype=np.uint64)
        self._tail = np.empty(0, dtype=np.uint64)
        self.lengths: NDArray[np.float32] = np.empty(0, dtype=np.float32)

    @property
    def nbytes(self) -> int:
        """The size of its arrays in bytes."""
        return self._main.nbytes + self._tail.nbytes + self.lengths.nbytes

    def extend(self, hashes: Sequence[bytes], counts: Sequence[bytes]) -> None:
        """Append rows, each with its term hashes (uint32) and counts (uint8)."""
        first = len(self.lengths)
        sizes = np.fromiter(map(len, counts), dtype=np.int64, count=len(counts))
        count = np.frombuffer(b"".join(counts), dtype=np.uint8)
        rows = np.repeat(np.arange(first, first + len(counts), dtype=np.uint64), sizes)
        packed = np.frombuffer(b"".join(hashes), dtype="<u4").astype(np.uint64) << _HASH_SHIFT
        packed |= rows << _ROW_SHIFT
        packed |= count
        ends = np.concatenate(([0], np.cumsum(count, dtype=np.int64)))[
            np.concatenate(([0], np.cumsum(sizes)))
        ]
        self.lengths = np.concatenate((self.lengths, np.diff(ends).astype(np.float32)))
        self._add(packed)

    def find(self, term: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the rows that contain a term, and how often."""
        slices = [_slice(part, term) for part in (self._main, self._tail) if len(part)]
        found = slices[0] if len(slices) == 1 else np.concatenate([np.empty(0, dtype=np.uint64), *slices])
        rows = (found >> _ROW_SHIFT) & _ROW_MASK
        return rows.view(np.int64).astype(np.intp, copy=False), (found & _COUNT_MASK).astype(np.float32)

    def _add(self, packed: NDArray[np.uint64]) -> None:
        if len(self._main) and len(self._tail) + len(packed) < max(_MIN_TAIL, len(self._main) // _TAIL_SHARE):
            self._tail = np.sort(np.concatenate((self._tail, packed)))
            return
        self._main = np.sort(np.concatenate((self._main, self._tail, packed)))
        self._tail = np.empty(0, dtype=np.uint64)


def _slice(part: NDArray[np.uint64], term: int) -> NDArray[np.uint64]:
    bounds = np.array([term << 32, (term << 32) | 0xFFFFFFFF], dtype=np.uint64)
    low, high = part.searchsorted(bounds)
    return part[low : high + (high < len(part) and part[high] == bounds[1])]


@dataclass(slots=True)
class TextScores:
    """How well each row matches the terms of a question.

    `scores` is BM25 by row, `bits` which terms each row has, and `weights` how rare each term is.
    """

    scores: NDArray[np.float32]
    bits: NDArray[np.uint64]
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


def score_text(postings: Postings, terms: Sequence[str]) -> TextScores:
    """Score every row by the terms of a question; a row without any of them scores 0."""
    lengths = postings.lengths
    count = len(lengths)
    scores = np.zeros(count, dtype=np.float32)
    bits = np.zeros(count, dtype=np.uint64)
    weights = np.zeros(len(terms), dtype=np.float32)
    average = float(lengths.mean()) if count else 1.0
    norms = _K1 * (1 - _B + _B * lengths / max(average, 1e-6))
    for place, term in enumerate(terms):
        rows, frequencies = postings.find(term_hash(term))
        weights[place] = np.log(1 + (count - len(rows) + 0.5) / (len(rows) + 0.5))
        added = weights[place] * frequencies * (_K1 + 1)
        frequencies += norms[rows]
        added /= frequencies
        scores[rows] += added
        bits[rows] |= np.uint64(1 << place)
    return TextScores(scores, bits, weights)
