"""Making text plain enough to compare: small letters without accents, no invisible or look-alike letters.

Every character of the plain text knows where it stood before, so that what is found there can be shown in the
text as it was given: "É\u200bté" becomes "ete", from the places 0, 2 and 3.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from functools import lru_cache
from typing import NamedTuple

from recollect.text.unicode import unmix

_ASCII_OR_ONE = re.compile(r"[\x00-\x7f]+|[^\x00-\x7f]")
_MARKS = range(0x300, 0x370)
_BEFORE_ARABIC = 0x590  # Latin, Greek, Cyrillic, Armenian: scripts whose accents may be dropped
_LATIN_EXTRA = range(0x1E00, 0x2000)
_STROKES = str.maketrans("\u00f8\u0142\u0111\u0127\u0131\u00e6\u0153", "oldhiao")


class Folded(NamedTuple):
    """Plain text, and for each of its characters where it came from (None: from the same place)."""

    text: str
    places: array[int] | None
    length: int

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of the plain text stands in the text as it was given."""
        if self.places is None:
            return start, end
        last = self.places[end - 1] if end > start else self.places[start]
        return self.places[start], min(last + 1, self.length)


def fold(text: str) -> Folded:
    """Return a text in small plain letters."""
    if text.isascii():
        return Folded(text.lower(), None, len(text))
    plain: list[str] = []
    places = array("L")
    for match in _ASCII_OR_ONE.finditer(text):
        start, end = match.span()
        if text[start] < "\x80":
            plain.append(match[0].lower())
            places.extend(range(start, end))
        elif letters := fold_character(match[0]):
            plain.append(letters)
            places.extend([start] * len(letters))
    return Folded(unmix("".join(plain)), places, len(text))


@lru_cache(maxsize=8192)
def fold_character(character: str) -> str:
    """Return what is left of one character: nothing of what cannot be seen, and no accent."""
    category = unicodedata.category(character)
    if category in ("Cf", "Mn", "Me") and (category == "Cf" or _is_dropped_mark(character)):
        return ""
    shown = unicodedata.normalize("NFKC", character).casefold()
    return "".join(_without_accent(part) for part in shown)


def _is_dropped_mark(character: str) -> bool:
    code = ord(character)
    return code in _MARKS or code >= 0xE0000 or 0xFE00 <= code <= 0xFE0F or 0x1AB0 <= code <= 0x20FF  # noqa: PLR2004 - blocks of marks and variation selectors


def _without_accent(character: str) -> str:
    code = ord(character)
    if code >= _BEFORE_ARABIC and code not in _LATIN_EXTRA:
        return "" if unicodedata.category(character) == "Cf" else character
    base = unicodedata.normalize("NFD", character)[0]
    return base.translate(_STROKES)
