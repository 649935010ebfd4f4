"""Fits the weights in `small_talk_weights.txt`: `python -m tools.fit_small_talk` writes them.

A logistic regression over the vectors of prompts that ask for nothing and of prompts that have content, all
written by hand for this (`tests/data/small_talk.json`), and of the questions of the languages' benchmark.
"""

import json
from pathlib import Path

import numpy as np

import recollect.recall as package
from benchmarks.recall.languages import LANGUAGES, read_facts
from recollect.recall.embedding.minilm import embed_sync
from tools.fit_injection_features import fit_regression

PENALTY = 0.3
TEXTS = Path("tests/data/small_talk.json")
TARGET = Path(package.__path__[0]) / "small_talk_weights.txt"
HEADER = (
    "# The bias and the weights of a linear classifier that tells small talk by its vector, fitted by\n"
    "# tools/fit_small_talk.py. Not written by hand.\n"
)


def main() -> None:
    """Fit and write."""
    texts = json.loads(TEXTS.read_text("utf-8"))
    content = texts["content"] + [fact.asked for language in LANGUAGES for fact in read_facts(language)]
    vectors = np.array([embed_sync(text) for text in texts["small_talk"] + content], np.float64)
    labels = np.array([1.0] * len(texts["small_talk"]) + [0.0] * len(content))
    weights, bias = fit_regression(vectors, labels, PENALTY)
    numbers = [bias, *(float(number) for number in weights)]
    TARGET.write_text(HEADER + "".join(f"{number:.3f}\n" for number in numbers), "utf-8")


if __name__ == "__main__":
    main()
