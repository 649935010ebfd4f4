"""Which stretches of a text a classifier is shown: it is slow, and sees only the most telling of a long text.

A stretch fits into what the classifier reads at once. Up to 24 of them cover a text of 16,000 characters.
Of a longer one it sees the first four, the last four, and the sixteen in which rules and words see most; the
rules read all of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recollect.guards.injection.evidence import Verdict

MOST = 24
"""The most stretches of a text that a classifier is shown."""

_WINDOW = 800  # characters: well within the 256 tokens that the classifier reads
_OVERLAP = 100
_AT_ENDS = 4
_SPACE = re.compile(r"\s")


def windows(text: str) -> list[tuple[int, int]]:
    """Cut a text into stretches that a classifier can read whole, each with the end of the one before."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        end = min(start + _WINDOW, len(text))
        if end < len(text):
            spaces = [match.start() for match in _SPACE.finditer(text, end - _OVERLAP, end)]
            end = spaces[-1] if spaces else end
        found.append((start, end))
        start = end if end == len(text) else max(end - _OVERLAP, start + 1)
    return found


def telling_windows(text: str, verdict: Verdict) -> list[tuple[int, int]]:
    """Return the stretches that a classifier is shown, in order."""
    every = windows(text)
    if len(every) <= MOST:
        return every
    odds: dict[int, float] = {}
    for one in verdict.evidence:
        place = bisect_right(every, (one.start, len(text))) - 1
        odds[place] = max(odds.get(place, one.odds), one.odds)
    ends = {*range(_AT_ENDS), *range(len(every) - _AT_ENDS, len(every))}
    others = sorted(odds.keys() - ends, key=lambda place: -odds[place])
    return [every[place] for place in sorted(ends | set(others[: MOST - len(ends)]))]
