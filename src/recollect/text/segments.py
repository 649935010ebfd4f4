"""Cut a text into overlapping pieces, each short enough for an embedder and for showing as a hit.

Most messages are one piece. A long text is cut about every 800 characters (fewer in scripts that take more
bytes, because there a token is fewer characters too), at the best border near there: a paragraph, then a
sentence, then a word; without any, as in a run of Chinese, between two characters that belong apart. Places
are positions in the text, so a piece can be found again and shown with its place. Each cut looks at a small
window only, so the time grows with the number of pieces, and that is bounded.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from recollect.text.unicode import is_grapheme_break

__all__ = ["MAX_PIECES", "Piece", "pieces"]

MAX_PIECES = 256
"""The most pieces of a text: some 170,000 characters of English. What comes later has no piece of its own."""

_LONGEST = 800
_SHORTEST = 200
_MAX_MARKS = 32  # Unicode's stream-safe text has at most 30 marks in a row; a longer run is hostile

# The borders, the best first. Each matches what stands before the cut, with the space that ends it. The
# possessive runs keep a long stretch of spaces linear.
_BORDERS = (
    re.compile(r"\n[ \t\r]*+\n\s*+"),
    re.compile(
        r"[.!?\u2026]++[\"'\u201d\u2019)\]]*+\s++"
        r"|[\u3002\uff01\uff1f\uff61]++[\u300d\u300f\u201d\u2019\uff09]*+\s*+"  # Chinese and Japanese
        r"|\n\s*+"
    ),
    re.compile(r"[,;:\uff0c\u3001\uff1b\uff1a]\s*+|\s++"),
)


class Piece(NamedTuple):
    """A piece of a text, from `start` up to but not including `end`."""

    start: int
    end: int


def pieces(text: str) -> list[Piece]:
    """Return the pieces of a text in order; together they cover it, up to the bound on their number."""
    found: list[Piece] = []
    start = 0
    while start < len(text) and len(found) < MAX_PIECES:
        size = _size(text, start)
        # A little longer than the others is better than a tiny piece at the end.
        last = len(text) - start <= size * 5 // 4
        end = len(text) if last else _cut(text, start, size)
        found.append(Piece(start, end))
        start = end if last else _overlap(text, end, size * 3 // 20)
    return found


def _size(text: str, start: int) -> int:
    """Return how many characters the piece that begins at `start` should have."""
    window = text[start : start + _LONGEST]
    if window.isascii():
        return _LONGEST
    return max(_SHORTEST, _LONGEST * len(window) // len(window.encode("utf-8", "surrogatepass")))


def _cut(text: str, start: int, size: int) -> int:
    """Return where a piece ends: at the last of the best borders in its second half."""
    for border in _BORDERS:
        if place := _last(border, text, start + size // 2, start + size):
            return _between_characters(text, place)
    return _between_characters(text, start + size)


def _overlap(text: str, end: int, length: int) -> int:
    """Return where the next piece begins: a little before the end of this one, at the start of a word."""
    for border in _BORDERS[1:]:
        match = border.search(text, end - length, end)
        # A border that reaches to the end would leave no overlap.
        if match and match.end() < end:
            return _between_characters(text, match.end())
    return _between_characters(text, end - length)


def _last(border: re.Pattern[str], text: str, begin: int, end: int) -> int:
    """Return the end of the last border within a window, or 0."""
    place = 0
    for match in border.finditer(text, begin, end):
        place = match.end()
    return place


def _between_characters(text: str, place: int) -> int:
    """Return the nearest place at or before `place` where what a reader sees as one character is not torn."""
    for back in range(_MAX_MARKS):
        if is_grapheme_break(text, place - back):
            return place - back
    return place
