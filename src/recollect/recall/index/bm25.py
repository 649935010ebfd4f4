"""BM25 over one user's rows: the statistics are the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recollect.text.terms import term_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recollect.recall.index.postings import Postings

_SATURATION = 1.2
_LENGTH_SHARE = 0.75


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
