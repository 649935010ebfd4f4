"""What is looked for, a kind, and what is found: a kind's name, a place and a score.

Every kind decides by the match itself, by at most `REACH` characters before it and a few after it. So a text
that is cut anywhere and looked at chunk by chunk gives the same findings as the whole text.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

REACH = 63
"""How many characters before a match a rule may look at, and how long a word is held back on a stream."""


class Finding(NamedTuple):
    """Something that was found: its kind, where it stands, and how sure the rule is."""

    type: str
    start: int
    end: int
    score: float = 1.0


class Kind(NamedTuple):
    """A kind of data: how it is found in a text, and where at the text's end one may begin.

    `open_from` returns the place from which on later text can complete or change a match, or the length of
    the text if there is none. The last word always waits, so a kind of one word that is not long needs none.
    `best` is the highest score that the kind gives. A match that may be longer than a stream holds back has
    no other score: at the limit it is replaced, before its own score is known.
    """

    name: str
    find: Callable[[str], Iterable[Finding]]
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
"""Where findings overlap, the kind that stands first here is theirs; others stand before all."""

_PLACE = {name: place for place, name in enumerate(RANK)}


def merge_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Make one finding of those that overlap, of the best kind among them, in the order of the text."""
    kept: list[Finding] = []
    for finding in sorted(findings, key=lambda item: (item.start, -item.end)):
        if kept and finding.start < kept[-1].end:
            kept[-1] = _merge(kept[-1], finding)
        else:
            kept.append(finding)
    return kept


def _merge(left: Finding, right: Finding) -> Finding:
    best = min(left, right, key=lambda item: (_PLACE.get(item.type, -1), -item.score))
    return Finding(best.type, left.start, max(left.end, right.end), best.score)
