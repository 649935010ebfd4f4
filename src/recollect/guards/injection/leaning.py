"""How much the choice and the order of words lean towards an attack, beside what single rules say.

A passage of at most some 50 words is described by which word classes occur in it, which stand near each other
in a sentence (in pairs, and three in a row), how long it is, how much of it is unknown, and whether it asks.
The weights of these features in `leaning.txt` are those of a logistic regression, fitted on the part of our
own corpus that is meant for that (`python -m tests.guards.fit_leaning`). No feature is a word or a sentence.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recollect.guards.injection.reading import Reading

_PASSAGE = 50  # words
_NEAR = 3  # how many known words apart two of them still count as a pair
_LONGEST = 400  # classes of a passage that are looked at, signs included
_SIGNS = frozenset('.,:"()')
_SKIPPED = frozenset("x,)")
_QUESTION = frozenset("?\uff1f")
_MANY = 5
_LONG_WORD = 25
_LONGEST_TEXT = 2000  # characters


class Passage(NamedTuple):
    """A stretch of a reading: its classes, where it begins and ends in the text, and its words as written."""

    classes: str
    start: int
    end: int
    words: list[str]


def passages(text: str, reading: Reading) -> Iterator[Passage]:
    """Cut a reading into stretches of whole sentences, as many as 50 words hold, at least one each."""
    first = words = 0
    classes = reading.classes
    for start, end in _sentences(classes):
        size = sum(kind not in _SIGNS for kind in classes[start:end])
        if words and words + size > _PASSAGE:
            yield _passage(text, reading, first, start)
            first, words = start, 0
        words += size
    if first < len(classes):
        yield _passage(text, reading, first, len(classes))


def features(passage: Passage) -> set[str]:
    """Return the names of what is true of a passage."""
    classes = passage.classes[:_LONGEST]
    found = set(classes) - _SKIPPED
    for sentence in classes.split("."):
        known = ["^", *(kind for kind in sentence if kind not in _SKIPPED), "$"]
        for place, kind in enumerate(known):
            found.update(kind + other for other in known[place + 1 : place + 1 + _NEAR])
            found.add("".join(known[place : place + 3]))
    words = [kind for kind in classes if kind not in _SIGNS]
    found.add(f"words={len(words).bit_length()}")
    found.add(f"unknown={_fifths(words.count('x'), len(words))}")
    found.add(f"signs={_fifths(len(classes) - len(words), len(classes))}")
    found.add(f"sentences={min(classes.count('.'), _MANY)}")
    written = passage.words
    if len(written) > _MANY and len(set(written)) <= len(written) // 2:
        found.add("repeats")
    if any(len(word) > _LONG_WORD for word in written):
        found.add("long")
    if written and not _QUESTION.isdisjoint(written[-1]):
        found.add("asks")
    return found


def leaning(passage: Passage) -> float:
    """Return which way a passage leans, as log odds."""
    weights = _weights()
    return weights["bias"] + sum(weights.get(name, 0.0) for name in features(passage))


def chance(odds: float) -> float:
    """Return log odds as a chance from 0 to 1."""
    return 1 / (1 + math.exp(-max(min(odds, 30.0), -30.0)))


def log_odds(score: float) -> float:
    """Return a chance from 0 to 1 as log odds; nothing is ever quite certain."""
    kept = min(max(score, 1e-4), 1 - 1e-4)
    return math.log(kept / (1 - kept))


def _sentences(classes: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(classes):
        stop = classes.find(".", start, start + _PASSAGE)
        end = stop + 1 if stop >= 0 else min(start + _PASSAGE, len(classes))
        yield start, end
        start = end


def _passage(text: str, reading: Reading, first: int, last: int) -> Passage:
    start, end = reading.places[first][0], reading.places[last - 1][1]
    return Passage(
        reading.classes[first:last], start, end, text[start : min(end, start + _LONGEST_TEXT)].split()
    )


def _fifths(part: int, whole: int) -> int:
    """Return a share in fifths, rounded up."""
    return math.ceil(_MANY * part / whole) if whole else 0


@cache
def _weights() -> dict[str, float]:
    """Read the weights, once."""
    text = resources.files(__package__ or "").joinpath("leaning.txt").read_text("utf-8")
    pairs = (line.rsplit(maxsplit=1) for line in text.splitlines() if not line.startswith("# "))
    return {name: float(weight) for name, weight in pairs}
