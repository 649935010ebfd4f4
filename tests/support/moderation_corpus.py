"""Our own labelled texts for moderation: harmful ones by category, and benign ones that look like them."""

import json
from dataclasses import dataclass
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
MODERATION = _TESTS / "data" / "moderation.jsonl"
FLOOR = _TESTS / "guards" / "moderation"
BENIGN = "benign"


@dataclass(frozen=True)
class Row:
    """A text, its category (or that it is benign), and the style it was written in.

    Weights are fitted on all of them: measure on whole styles that were held out, and on the texts of
    somebody else (`moderation_unseen.jsonl`, which nobody who fits anything reads). The rules were written
    with those of the style `plain` in view.
    """

    text: str
    category: str
    style: str


def moderation_rows() -> list[Row]:
    """Read the corpus, and the texts of the floor."""
    harmful = (line.split("\t") for line in _read_lines(FLOOR / "harmful.txt"))
    return [
        *(Row(**json.loads(line)) for line in _read_lines(MODERATION)),
        *(Row(text, category, "plain") for category, text in harmful),
        *(Row(text, BENIGN, "plain") for text in _read_lines(FLOOR / "benign.txt")),
    ]


def _read_lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()
