"""Fits the weights in `embedding_weights.txt`, after a new corpus or embedder: some minutes.

`python -m tools.fit_injection_embedding` writes them.

A logistic regression with a penalty on large weights, over the vectors of the texts of the part `tune` of our
own corpus. It also prints how far its log odds can be trusted, as a slope and an offset for `classifier.py`.
Those come from texts that it was not fitted on, a tenth of the corpus at a time.
"""

import sys
from pathlib import Path

import numpy as np
from tests.support.injection_corpus import injection_rows

import recollect.guards.injection as package
from recollect.recall.embedding.minilm import embed_sync
from tools.fit_injection_features import Numbers, fit_regression

PENALTY = 0.1
READ = 800  # characters: the classifier's window
FOLDS = 10
TARGET = Path(package.__path__[0]) / "embedding_weights.txt"
HEADER = (
    "# The bias and the weights of a linear classifier that tells attacks from benign text by their vectors,"
    " fitted by\n# tools/fit_injection_embedding.py. Not written by hand.\n"
)


def main() -> None:
    """Fit on the part that is meant for that, write the weights, and print what the constants should be."""
    rows = [row for row in injection_rows() if row.part == "tune"]
    vectors = np.array([embed_sync(row.text[:READ]) for row in rows], np.float64)
    labels = np.array([float(row.label) for row in rows])
    weights, bias = fit_regression(vectors, labels, PENALTY)
    numbers = [bias, *(float(number) for number in weights)]
    TARGET.write_text(HEADER + "".join(f"{number:.3f}\n" for number in numbers), "utf-8")
    (slope,), offset = fit_regression(_predict_unseen(vectors, labels)[:, np.newaxis], labels, 1.0)
    sys.stdout.write(f"_SLOPE, _OFFSET = {float(slope):.2f}, {offset:.2f}\n")


def _predict_unseen(vectors: Numbers, labels: Numbers) -> Numbers:
    """Return the log odds of each text by weights that were fitted without it."""
    fold = np.random.default_rng(0).integers(0, FOLDS, len(labels))
    found = np.zeros(len(labels))
    for number in range(FOLDS):
        weights, bias = fit_regression(vectors[fold != number], labels[fold != number], PENALTY)
        found[fold == number] = vectors[fold == number] @ weights + bias
    return found


if __name__ == "__main__":
    main()
