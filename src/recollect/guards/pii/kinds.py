"""A kind of personal data: how rules find it in a whole text, and where one may begin at the end of a stream.

Every kind decides by the match itself, by at most `REACH` characters before it and a few after it. So a text
that is cut anywhere and read chunk by chunk gives the same detections as the whole text.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from recollect.guards.detection import Detection

REACH = 63
"""How many characters before a match a rule may look at, and how long a word is held back on a stream."""


class DataKind(NamedTuple):
    """A kind of data: how it is found in a text, and where at the text's end one may begin.

    `open_from` returns the place from which on later text can complete or change a match, or the length of
    the text if there is none. The last word always waits, so a kind of one word that is not long needs none.
    `best` is the highest score that the kind gives. A match that may be longer than a stream holds back has
    no other score: at the limit it is replaced, before its own score is known.
    """

    name: str
    find: Callable[[str], Iterable[Detection]]
    open_from: Callable[[str], int] = len
    best: float = 1.0


RANK: Sequence[str] = (
    "url",
    "secret",
    "email",
    "iban",
    "card",
    "ssn",
    "national_id",
    "ip",
    "mac",
    "dob",
    "phone",
)
"""Where detections overlap, the kind that stands first here wins; kinds that are not listed win over all."""

_RANK_OF = {name: rank for rank, name in enumerate(RANK)}


def merge_detections(detections: Iterable[Detection]) -> list[Detection]:
    """Merge detections that overlap into one of the kind that ranks first; return them in text order."""
    merged: list[Detection] = []
    for detection in sorted(detections, key=lambda item: (item.start, -item.end)):
        if merged and detection.start < merged[-1].end:
            merged[-1] = _merge(merged[-1], detection)
        else:
            merged.append(detection)
    return merged


def _merge(left: Detection, right: Detection) -> Detection:
    best = min(left, right, key=lambda item: (_RANK_OF.get(item.type, -1), -item.score))
    return Detection(best.type, left.start, max(left.end, right.end), best.score)
