"""Fits moderation's `embedding_weights.txt`, after a new corpus or embedder: some minutes.

`python -m tools.fit_moderation_embedding` writes them, and prints what was measured.

Least squares with a penalty on large weights, over the vectors of our own texts and their products, by the
kernel 2(k + k²) where k is the similarity of two vectors. Everyday texts come from the corpus of the
injection guard. What is printed was measured on styles that were held out, one at a time. So was the bias
chosen: at a score of 0.5 the classifier alone has `ALARMS` false alarms on benign texts that look harmful.

A line is a bias and a weight for each dimension: of the score, of each category, and then the directions
whose squares count, each with its sign in the place of the bias.
"""

import sys
from pathlib import Path

import numpy as np
from tests.support.injection_corpus import injection_rows
from tests.support.moderation_corpus import BENIGN, moderation_rows

import recollect.guards.moderation as package
from recollect.guards.moderation.rules import CATEGORIES, find_by_rules
from recollect.recall.embedding.minilm import embed_sync
from tools.fit_injection_features import Numbers, fit_regression

PENALTY = 0.5
SCALE = 2.0
DIRECTIONS = 64
ALARMS = 0.02
EVERYDAY = 4  # one of how many everyday texts is used
TARGET = Path(package.__path__[0]) / "embedding_weights.txt"
HEADER = "# A classifier of harmful text, fitted by tools/fit_moderation_embedding.py. Not written by hand.\n"


def main() -> None:
    """Fit on all texts, write the weights, and print what styles that were held out show."""
    rows = moderation_rows()
    everyday = [row.text for row in injection_rows() if not row.label and row.part == "tune"][::EVERYDAY]
    texts = [row.text for row in rows] + everyday
    vectors = np.array([embed_sync(text) for text in texts], np.float64)
    categories = np.array([row.category for row in rows] + [BENIGN] * len(everyday))
    styles = np.array(
        [row.style for row in rows] + [f"everyday {number % 8}" for number in range(len(everyday))]
    )
    labels = np.where(categories == BENIGN, -1.0, 1.0)

    similar = vectors @ vectors.T
    kernel = SCALE * (similar + similar**2) + 1
    inverse: Numbers = np.linalg.inv(kernel + PENALTY * np.eye(len(texts))).astype(np.float64)
    shares: Numbers = inverse @ labels
    unseen = _predict_held_out(inverse, shares, labels, styles)
    (slope,), _ = fit_regression(unseen[:, np.newaxis], (labels + 1) / 2, 1.0)
    benign = np.sort(unseen[: len(rows)][categories[: len(rows)] == BENIGN])
    border = benign[-1 - int(ALARMS * len(benign))]

    linear = slope * np.array([shares.sum() - border, *(SCALE * shares @ vectors)])
    sizes, axes = np.linalg.eigh(slope * SCALE * (vectors.T * shares) @ vectors)
    chosen = np.argsort(-abs(sizes))[:DIRECTIONS]
    squares = [[np.sign(sizes[k]), *(np.sqrt(abs(sizes[k])) * axes[:, k])] for k in chosen]
    lines = [linear, *_fit_categories(vectors, categories), *squares]
    TARGET.write_text(HEADER + "".join(" ".join(f"{x:.3f}" for x in line) + "\n" for line in lines), "utf-8")
    # The rules were written with the plain texts in view.
    fair = (styles != "plain")[: len(rows)]
    _report(
        [row.text for row in rows if row.style != "plain"],
        categories[: len(rows)][fair],
        unseen[: len(rows)][fair],
    )


def _predict_held_out(inverse: Numbers, shares: Numbers, labels: Numbers, styles: np.ndarray) -> Numbers:
    """Return what would be said of each text by a fit without the texts of its style."""
    found = np.zeros(len(labels))
    for style in np.unique(styles):
        own = np.flatnonzero(styles == style)
        found[own] = labels[own] - np.linalg.solve(inverse[np.ix_(own, own)], shares[own])
    return found


def _fit_categories(vectors: Numbers, categories: np.ndarray) -> list[Numbers]:
    """Return a bias and weights for each category, that tell it from the other harmful texts."""
    harmful = categories != BENIGN
    fitted = (
        fit_regression(vectors[harmful], (categories[harmful] == name) * 1.0, 0.1) for name in CATEGORIES
    )
    return [np.array([bias, *weights]) for weights, bias in fitted]


def _report(texts: list[str], categories: np.ndarray, unseen: Numbers) -> None:
    """Print the shares that rules, classifier and both find; the classifier at several false alarm rates."""
    ruled = np.array([bool(find_by_rules(text)) for text in texts])
    benign = categories == BENIGN
    sys.stdout.write(f"rules: {ruled[~benign].mean():.3f} found, {ruled[benign].mean():.3f} false alarms\n")
    ordered = np.sort(unseen[benign])
    for alarms in (0.01, ALARMS, 0.05, 0.1):
        found = unseen > ordered[-1 - int(alarms * len(ordered))]
        both = found | ruled
        sys.stdout.write(
            f"classifier at {alarms}: {found[~benign].mean():.3f} found; "
            f"with the rules {both[~benign].mean():.3f}, {both[benign].mean():.3f} false alarms; "
            + ", ".join(f"{name} {both[categories == name].mean():.2f}" for name in CATEGORIES)
            + "\n"
        )


if __name__ == "__main__":
    main()
