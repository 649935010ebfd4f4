"""Which rows have which term, and BM25 over them with the user's own statistics.

The inverted index is one sorted array of 64-bit numbers. A posting is the term's hash (32 bits), the row
(24) and the count (8) in one number, so that one sort of plain integers builds the index, and a term's
postings are a slice. New rows go into a small second array, which is merged into the large one now and
then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recollect.text.terms import term_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_ROWS = 1 << 24
"""How many rows can be told apart."""
_HASH = np.uint64(32)
_ROW = np.uint64(8)
_ROW_MASK = np.uint64(MOST_ROWS - 1)
_COUNT_MASK = np.uint64(0xFF)
_TAIL = 1 << 14
_TAIL_SHARE = 8
_SATURATION = 1.2
_LENGTH_SHARE = 0.75


class Postings:
    """The terms of the rows of an index."""

    __slots__ = ("_main", "_tail", "lengths")

    def __init__(self) -> None:
        """Begin empty."""
        self._main = np.empty(0, dtype=np.uint64)
        self._tail = np.empty(0, dtype=np.uint64)
        self.lengths: NDArray[np.float32] = np.empty(0, dtype=np.float32)

    @property
    def nbytes(self) -> int:
        """How much memory it holds."""
        return self._main.nbytes + self._tail.nbytes + self.lengths.nbytes

    def extend(self, hashes: Sequence[bytes], counts: Sequence[bytes]) -> None:
        """Add rows at the end: for each its hashes (uint32) and counts (uint8)."""
        first = len(self.lengths)
        sizes = np.fromiter(map(len, counts), dtype=np.int64, count=len(counts))
        count = np.frombuffer(b"".join(counts), dtype=np.uint8)
        rows = np.repeat(np.arange(first, first + len(counts), dtype=np.uint64), sizes)
        packed = np.frombuffer(b"".join(hashes), dtype="<u4").astype(np.uint64) << _HASH
        packed |= rows << _ROW
        packed |= count
        ends = np.concatenate(([0], np.cumsum(count, dtype=np.int64)))[
            np.concatenate(([0], np.cumsum(sizes)))
        ]
        self.lengths = np.concatenate((self.lengths, np.diff(ends).astype(np.float32)))
        self._add(packed)

    def find(self, term: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the rows that have a term, and how often each has it."""
        slices = [_slice(part, term) for part in (self._main, self._tail) if len(part)]
        found = slices[0] if len(slices) == 1 else np.concatenate([np.empty(0, dtype=np.uint64), *slices])
        rows = (found >> _ROW) & _ROW_MASK
        return rows.view(np.int64).astype(np.intp, copy=False), (found & _COUNT_MASK).astype(np.float32)

    def _add(self, packed: NDArray[np.uint64]) -> None:
        if len(self._main) and len(self._tail) + len(packed) < max(_TAIL, len(self._main) // _TAIL_SHARE):
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

    `scores` is BM25, `bits` which terms each row has, `weights` how rare each term is, and `rows` where each
    one is. `known` is the weight of the terms that any row has, `total` that of all of them.
    """

    scores: NDArray[np.float32]
    bits: NDArray[np.uint64]
    weights: NDArray[np.float32]
    rows: list[NDArray[np.intp]]

    @property
    def known(self) -> float:
        """The weight of the terms that some row has."""
        return float(sum(weight for weight, rows in zip(self.weights, self.rows, strict=True) if len(rows)))

    @property
    def total(self) -> float:
        """The weight of all terms."""
        return float(self.weights.sum())

    def coverage(self, bits: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return the weight of the terms that each of some sets of bits stands for."""
        found = np.zeros(len(bits), dtype=np.float32)
        for place, weight in enumerate(self.weights):
            found += weight * ((bits >> np.uint64(place)) & np.uint64(1)).astype(np.float32)
        return found


def score_text(postings: Postings, terms: Sequence[str]) -> TextScores:
    """Score every row by the terms of a question; a row that has none of them scores 0."""
    lengths = postings.lengths
    count = len(lengths)
    scores = np.zeros(count, dtype=np.float32)
    bits = np.zeros(count, dtype=np.uint64)
    weights = np.zeros(len(terms), dtype=np.float32)
    found: list[NDArray[np.intp]] = []
    average = float(lengths.mean()) if count else 1.0
    norms = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * lengths / max(average, 1e-6))
    for place, term in enumerate(terms):
        rows, frequencies = postings.find(term_hash(term))
        weights[place] = np.log(1 + (count - len(rows) + 0.5) / (len(rows) + 0.5))
        added = weights[place] * frequencies * (_SATURATION + 1)
        frequencies += norms[rows]
        added /= frequencies
        scores[rows] += added
        bits[rows] |= np.uint64(1 << place)
        found.append(rows)
    return TextScores(scores, bits, weights, found)
