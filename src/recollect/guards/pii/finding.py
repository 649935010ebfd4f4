"""What is found: a kind, a place and a score; and how a text is looked at locally.

Every rule decides by the match itself, by at most `REACH` characters before it and a few behind it. So a text
that is cut anywhere and looked at piece by piece gives the same findings as the whole text.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

REACH = 63
"""How many characters before a match a rule may look at, and how long a word is held back on a stream."""


class Finding(NamedTuple):
    """Something that was found: its kind, where it stands, and how sure the rule is."""

    type: str
    start: int
    end: int
    score: float = 1.0


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
"""Where findings overlap, the kind that stands first here stays; a kind that is not here stands before all."""

_PLACE = {name: place for place, name in enumerate(RANK)}


def settled(findings: Iterable[Finding]) -> list[Finding]:
    """Drop what overlaps with a finding of a better rank, and put the rest in the order of the text."""
    kept: list[Finding] = []
    ordered = sorted(findings, key=lambda item: (_PLACE.get(item.type, -1), -item.score, item.start))
    taken: list[tuple[int, int]] = []
    for finding in ordered:
        if not _is_taken(finding, taken):
            kept.append(finding)
            insort(taken, (finding.start, finding.end))
    return sorted(kept, key=lambda item: (item.start, item.end))


def _is_taken(finding: Finding, taken: list[tuple[int, int]]) -> bool:
    place = bisect_left(taken, (finding.end, -1))
    return place > 0 and taken[place - 1][1] > finding.start
