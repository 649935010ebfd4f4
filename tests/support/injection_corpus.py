"""Our own labelled texts: attacks, and benign ones that look like them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

INJECTION = Path(__file__).resolve().parents[1] / "data" / "injection.jsonl"


@dataclass(frozen=True)
class Row:
    """A text, whether it is an attack, of which kind and language, and which part of the corpus it is in.

    Weights are fitted on `tune`. Thresholds were chosen with the figures of all parts in view. `fresh` and
    `blind` were written by somebody who knew neither the guard nor the rest. Nobody has read `fresh`: keep it
    so. What was missed of `blind` was read after it was first measured; `tune` then got texts of those sorts.
    """

    text: str
    label: int
    kind: str
    language: str
    part: Literal["tune", "held_out", "fresh", "blind"]


def injection_rows() -> list[Row]:
    """Read the corpus."""
    lines = INJECTION.read_text("utf-8").splitlines()
    return [Row(**cast("dict[str, str]", json.loads(line))) for line in lines]  # type: ignore[arg-type] - the file is ours


def share(hits: list[bool]) -> float:
    """Return the share of hits."""
    return sum(hits) / len(hits)
