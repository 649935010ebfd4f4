"""Fits the linear classifier in `embedding_weights.txt`, after a new corpus: some minutes.

`python -m tools.fit_injection_embedding`

A logistic regression with a penalty on large weights, over the vectors of the texts of the part `tune` of our
own corpus. It also says how much each model should count in `classifier.py`. Those figures come from texts
that the plane was not fitted on, a tenth of the corpus at a time.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.support.injection_corpus import Row, injection_rows

import recollect.guards.injection as package
from recollect.guards.injection.classifier import suspicions
from recollect.guards.injection.scoring import to_log_odds
from recollect.recall.embedding.minilm import embed_here
from tools.fit_injection_features import Numbers, regression

PENALTY = 0.1
READ = 800  # characters: the classifier's window
FOLDS = 10
TARGET = Path(package.__path__[0]) / "embedding_weights.txt"
HEADER = (
    "# The bias and the weights of a linear classifier that parts attacks from benign text by their meaning,"
    " fitted by\n# tools/fit_injection_embedding.py. Not written by hand.\n"
)


def main() -> None:
    """Fit on the part that is meant for that, write the plane, and print what the constants should be."""
    rows = [row for row in injection_rows() if row.part == "tune"]
    vectors = np.array([embed_here(row.text[:READ]) for row in rows], np.float64)
    labels = np.array([float(row.label) for row in rows])
    direction, bias = regression(vectors, labels, PENALTY)
    numbers = [bias, *(float(number) for number in direction)]
    TARGET.write_text(HEADER + "".join(f"{number:.3f}\n" for number in numbers), "utf-8")
    suspected = np.array([to_log_odds(score) for score in _suspicions(rows)])
    said = np.stack([_unseen(vectors, labels), suspected], axis=1)
    shares, bias = regression(said, labels, 1.0)
    figures = ", ".join(f"{float(one):.2f}" for one in (*shares, bias))
    sys.stdout.write(f"_MEANING, _SUSPICION, _BIAS = {figures}\n")


def _unseen(vectors: Numbers, labels: Numbers) -> Numbers:
    """Return what meaning says of each text when the plane was fitted without it."""
    fold = np.random.default_rng(0).integers(0, FOLDS, len(labels))
    found = np.zeros(len(labels))
    for number in range(FOLDS):
        direction, bias = regression(vectors[fold != number], labels[fold != number], PENALTY)
        found[fold == number] = vectors[fold == number] @ direction + bias
    return found


def _suspicions(rows: Sequence[Row]) -> list[float]:
    texts = [row.text[:READ] for row in rows]
    return [score for start in range(0, len(texts), 32) for score in suspicions(texts[start : start + 32])]


if __name__ == "__main__":
    main()
