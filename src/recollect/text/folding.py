"""Folding text for comparison: lower case, no accents, no invisible characters, no look-alikes.

Every character of the folded text keeps its position in the original, so that a match can be shown there:
"É\u200bté" becomes "ete", from the positions 0, 2 and 3.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from functools import lru_cache
from typing import NamedTuple

from recollect.text.unicode import replace_look_alikes

_ASCII_OR_ONE = re.compile(r"[\x00-\x7f]+|[^\x00-\x7f]")
_MARKS = range(0x300, 0x370)
_BEFORE_ARABIC = 0x590  # Latin, Greek, Cyrillic, Armenian: scripts whose accents may be dropped
_MAX_LETTERS = 8  # of one character: one Arabic ligature stands for a whole sentence, which is slow to read
_LATIN_EXTRA = range(0x1E00, 0x2000)
_STROKES = str.maketrans("\u00f8\u0142\u0111\u0127\u0131\u00e6\u0153", "oldhiao")


class FoldedText(NamedTuple):
    """Folded text, and the original position of each of its characters (None: the same position)."""

    text: str
    places: array[int] | None
    length: int

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of the folded text is in the original text."""
        if self.places is None:
            return start, end
        last = self.places[end - 1] if end > start else self.places[start]
        return self.places[start], min(last + 1, self.length)


def fold(text: str) -> FoldedText:
    """Return a text in lower case, without accents, invisible characters and look-alikes."""
    if text.isascii():
        return FoldedText(text.lower(), None, len(text))
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
    return FoldedText(replace_look_alikes("".join(plain)), places, len(text))


@lru_cache(maxsize=8192)
def fold_character(character: str) -> str:
    """Fold one character; an invisible one gives an empty text."""
    category = unicodedata.category(character)
    if category in ("Cf", "Mn", "Me") and (category == "Cf" or _is_dropped_mark(character)):
        return ""
    shown = unicodedata.normalize("NFKC", character).casefold()[:_MAX_LETTERS]
    return "".join(_remove_accent(part) for part in shown)


def _is_dropped_mark(character: str) -> bool:
    code = ord(character)
    return code in _MARKS or code >= 0xE0000 or 0xFE00 <= code <= 0xFE0F or 0x1AB0 <= code <= 0x20FF  # noqa: PLR2004 - blocks of marks and variation selectors


def _remove_accent(character: str) -> str:
    code = ord(character)
    if code >= _BEFORE_ARABIC and code not in _LATIN_EXTRA:
        return "" if unicodedata.category(character) == "Cf" else character
    base = unicodedata.normalize("NFD", character)[0]
    return base.translate(_STROKES)
