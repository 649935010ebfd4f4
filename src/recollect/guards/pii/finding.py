"""What is found: a kind, a place and a score; and how a text is looked at locally.

Every rule decides by the match itself, by at most `REACH` characters before it and a few behind it. So a text
that is cut anywhere and looked at piece by piece gives the same findings as the whole text.
"""

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
"""Where findings overlap, the kind that stands first here is theirs; others stand before all."""

_PLACE = {name: place for place, name in enumerate(RANK)}


def settled(findings: Iterable[Finding]) -> list[Finding]:
    """Make one finding of those that overlap, of the best kind among them, in the order of the text."""
    kept: list[Finding] = []
    for finding in sorted(findings, key=lambda item: (item.start, -item.end)):
        if kept and finding.start < kept[-1].end:
            kept[-1] = _united(kept[-1], finding)
        else:
            kept.append(finding)
    return kept


def _united(left: Finding, right: Finding) -> Finding:
    best = min(left, right, key=lambda item: (_PLACE.get(item.type, -1), -item.score))
    return Finding(best.type, left.start, max(left.end, right.end), best.score)
