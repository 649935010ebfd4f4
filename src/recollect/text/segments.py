"""Split a text into overlapping segments, each short enough for an embedder and for showing as a hit.

`analyse_segments` gives the search terms of each segment.

Most messages are one segment. A long text is cut about every 800 characters. Scripts that take more bytes
are cut sooner, because their tokens have fewer characters too. A cut falls at the best border near there: a
paragraph, then a sentence, then a word, and otherwise between two graphemes. For example 5,000 letters
without a border give the segments 0-800, 680-1480 and so on. Each cut reads a small window only, so the
time grows with the number of segments, which is bounded.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from recollect.text.terms import Terms, analyse
from recollect.text.unicode import is_grapheme_break

__all__ = ["MAX_SEGMENTS", "Segment", "analyse_segments", "get_segment", "split_into_segments"]

MAX_SEGMENTS = 256
"""The maximum number of segments: some 170,000 characters of English. Later text has no segment."""

_LONGEST = 800
_SHORTEST = 200
_NO_TERM, _NO_COUNT = bytes(4), bytes(1)  # between the terms of two segments
_MAX_MARKS = 32  # stream-safe text has at most 30 marks in a row (UAX 15); a longer run is hostile

# The borders, the best first. Each matches the text before the cut, with its trailing space. Possessive
# runs keep the time linear in a long run of spaces.
_BORDERS = (
    re.compile(r"\n[ \t\r]*+\n\s*+"),
    re.compile(
        r"[.!?\u2026]++[\"'\u201d\u2019)\]]*+\s++"
        r"|[\u3002\uff01\uff1f\uff61]++[\u300d\u300f\u201d\u2019\uff09]*+\s*+"  # Chinese and Japanese
        r"|\n\s*+"
    ),
    re.compile(r"[,;:\uff0c\u3001\uff1b\uff1a]\s*+|\s++"),
)


class Segment(NamedTuple):
    """A segment of a text, from `start` up to but not including `end`."""

    start: int
    end: int


def split_into_segments(text: str, limit: int = MAX_SEGMENTS) -> list[Segment]:
    """Return the segments of a text in order; they cover all of it, up to a limit."""
    found: list[Segment] = []
    start = 0
    while start < len(text) and len(found) < limit:
        size = _choose_size(text, start)
        # A little longer than the others is better than a tiny segment at the end.
        last = len(text) - start <= size * 5 // 4
        end = len(text) if last else _find_cut(text, start, size)
        found.append(Segment(start, end))
        start = end if last else _find_overlap(text, end, size * 3 // 20)
    return found


def analyse_segments(text: str) -> Terms:
    """Return the terms of each segment, one after the other; a term with count 0 stands between two.

    What comes after the last segment is analysed as one more, so that every word of a text is found.
    """
    if len(text) <= _SHORTEST:
        return analyse(text)
    spans = split_into_segments(text)
    if spans and spans[-1].end < len(text):
        spans.append(Segment(spans[-1].end, len(text)))
    found = [analyse(text[start:end]) for start, end in spans]
    if not any(terms.counts for terms in found):
        return Terms(b"", b"")
    return Terms(
        _NO_TERM.join(terms.hashes for terms in found), _NO_COUNT.join(terms.counts for terms in found)
    )


def get_segment(text: str, number: int) -> Segment:
    """Return the place of a segment; of the text after the last one, as much as a segment has."""
    spans = split_into_segments(text, min(number + 1, MAX_SEGMENTS))
    if number < len(spans):
        return spans[number]
    return Segment(spans[-1].end, min(spans[-1].end + _LONGEST, len(text)))


def _choose_size(text: str, start: int) -> int:
    """Return how many characters the segment from `start` should have."""
    window = text[start : start + _LONGEST]
    if window.isascii():
        return _LONGEST
    return max(_SHORTEST, _LONGEST * len(window) // len(window.encode("utf-8", "surrogatepass")))


def _find_cut(text: str, start: int, size: int) -> int:
    """Return where a segment ends: at the last of the best borders in its second half."""
    for border in _BORDERS:
        if place := _find_last(border, text, start + size // 2, start + size):
            return _move_to_grapheme_break(text, place)
    return _move_to_grapheme_break(text, start + size)


def _find_overlap(text: str, end: int, length: int) -> int:
    """Return where the next segment begins: a little before the end of this one, at the start of a word."""
    for border in _BORDERS[1:]:
        match = border.search(text, end - length, end)
        # A border that reaches the end would leave no overlap.
        if match and match.end() < end:
            return _move_to_grapheme_break(text, match.end())
    return _move_to_grapheme_break(text, end - length)


def _find_last(border: re.Pattern[str], text: str, begin: int, end: int) -> int:
    """Return the end of the last border within a window, or 0."""
    place = 0
    for match in border.finditer(text, begin, end):
        place = match.end()
    return place


def _move_to_grapheme_break(text: str, place: int) -> int:
    """Return the nearest grapheme break at or before `place`."""
    for back in range(_MAX_MARKS):
        if is_grapheme_break(text, place - back):
            return place - back
    return place
