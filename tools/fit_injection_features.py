"""Fits the weights in `feature_weights.txt`, after a new corpus or lexicon.

`python -m tools.fit_injection_features` writes them.

A logistic regression with a penalty on large weights, over what is true of the passages of the part `tune` of
our own corpus. Of attacks only those count that are one passage, since nobody says which one it is otherwise.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.support.injection_corpus import Row, injection_rows

import recollect.guards.injection as package
from recollect.guards.injection.scoring import find_features, split_passages
from recollect.guards.injection.word_classes import classify_words

PENALTY = 4.0
RAREST = 4  # a feature of fewer passages says nothing
SMALLEST = 0.04  # a smaller weight is left out
TARGET = Path(package.__path__[0]) / "feature_weights.txt"
HEADER = (
    "# Weights of the features of a passage, fitted by tools/fit_injection_features.py."
    " Not written by hand.\n"
)

Numbers = NDArray[np.float64]


def collect_examples(rows: Sequence[Row]) -> list[tuple[set[str], int]]:
    """Return what is true of each passage that teaches something, and whether it is an attack."""
    found: list[tuple[set[str], int]] = []
    for row in rows:
        parts = list(split_passages(row.text, classify_words(row.text)))
        if not row.label or len(parts) == 1:
            found += [(find_features(part), row.label) for part in parts]
    return found


def fit(known: Sequence[tuple[set[str], int]]) -> dict[str, float]:
    """Return the weight of each feature, and the bias."""
    counts = Counter(name for names, _ in known for name in names)
    names = sorted(name for name, count in counts.items() if count >= RAREST)
    table = np.array([[float(name in own) for name in names] for own, _ in known])
    weights, bias = fit_regression(table, np.array([float(label) for _, label in known]), PENALTY)
    kept = {
        name: float(weight) for name, weight in zip(names, weights, strict=True) if abs(weight) >= SMALLEST
    }
    return {"bias": bias, **kept}


def fit_regression(table: Numbers, labels: Numbers, penalty: float) -> tuple[Numbers, float]:
    """Fit a logistic regression by Newton's method; the bias is not penalised."""
    design = np.hstack([table, np.ones((len(table), 1))])
    penalties = np.array([penalty] * table.shape[1] + [0.0])
    weights = np.zeros(design.shape[1])
    for _ in range(12):
        probabilities = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        certainty = np.maximum(probabilities * (1 - probabilities), 1e-6)
        slope = design.T @ (labels - probabilities) - penalties * weights
        curve = (design.T * certainty) @ design + np.diag(penalties)
        weights += np.linalg.solve(curve, slope)
    return weights[:-1], float(weights[-1])


def main() -> None:
    """Fit on the part that is meant for that, and write the table."""
    weights = fit(collect_examples([row for row in injection_rows() if row.part == "tune"]))
    lines = [f"{name} {weight:.2f}\n" for name, weight in weights.items()]
    TARGET.write_text(HEADER + "".join(lines), "utf-8")


if __name__ == "__main__":
    main()
