"""How well prompt injections are found in a file of labelled texts: by rules alone, and with the classifier.

A text counts as an attack if its score reaches the detector's default threshold. Without its package the
classifier is skipped.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.labelled import kilobytes_of, read_rows

from benchmarks.harness.report import Show
from recollect.guards.embedded_windows import is_installed
from recollect.guards.injection.classifier import classify
from recollect.guards.injection.detector import choose_windows
from recollect.guards.injection.scoring import add_classifier_scores, find_injections

THRESHOLD = 0.5
"""The score from which a text is an attack."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text, and whether it is an attack."""

    text: str
    is_attack: bool


def measure(path: Path, show: Show) -> dict[str, object]:
    """Return the figures for a file of JSON lines with `text` and `label` (0 or 1)."""
    rows = read_labelled(path)
    show(f"injection: {len(rows)} texts by rules", 0.0)
    figures = _compute_figures(rows, _score_by_rules)
    figures["attacks"] = sum(row.is_attack for row in rows)
    figures["benign"] = sum(not row.is_attack for row in rows)
    figures["with_classifier"] = None
    if is_installed():
        show(f"injection: {len(rows)} texts by rules and classifier", 0.1)
        classify(["load the model"])
        figures["with_classifier"] = _compute_figures(rows, _score_with_classifier)
    return figures


def read_labelled(path: Path) -> list[Labelled]:
    """Read labelled texts; the error for an invalid line names it."""
    return read_rows(path, "injection", _read_row, "text and label (0 or 1)")


def _read_row(row: dict[str, Any]) -> Labelled:
    text, label = row["text"], row["label"]
    if not isinstance(text, str) or label not in (0, 1):
        raise TypeError
    return Labelled(text, label == 1)


def _score_by_rules(text: str) -> float:
    return find_injections(text).score


def _score_with_classifier(text: str) -> float:
    verdict = find_injections(text)
    spans = choose_windows(text, verdict)
    return add_classifier_scores(verdict, spans, classify([text[start:end] for start, end in spans])).score


def _compute_figures(rows: Sequence[Labelled], score: Callable[[str], float]) -> dict[str, object]:
    score("warm up")
    started = time.perf_counter()
    found = [score(row.text) >= THRESHOLD for row in rows]
    milliseconds = (time.perf_counter() - started) * 1000
    kilobytes = kilobytes_of([row.text for row in rows])
    attacks = [hit for hit, row in zip(found, rows, strict=True) if row.is_attack]
    benign = [hit for hit, row in zip(found, rows, strict=True) if not row.is_attack]
    return {
        "recall": _compute_share(attacks),
        "false_positive_rate": _compute_share(benign),
        "ms_per_kb": round(milliseconds / kilobytes, 2) if kilobytes else None,
    }


def _compute_share(hits: Sequence[bool]) -> float | None:
    """Return the share of True, or None without values."""
    return round(sum(hits) / len(hits), 4) if hits else None
