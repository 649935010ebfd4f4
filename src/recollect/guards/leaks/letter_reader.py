"""Text as bare letters and digits, so that case, accents, punctuation and spacing make no difference.

Each letter keeps its place in the text. A character of a script without spaces carries as much as several
letters, and counts as three. A long gap becomes a break, which nothing matches across.
"""

import unicodedata
from functools import lru_cache
from itertools import islice
from operator import sub
from string import ascii_letters, digits, punctuation, whitespace

from recollect.text.folding import fold_character
from recollect.text.slices import feed_in_slices

BREAK = "\0"
"""Stands for a long gap; it is part of no text that is looked for."""

MAX_GAP = 8
"""How many other characters may stand between two letters of one match."""

_FIRST_WIDE = 0x2E80
_REPEATED = 3
_MAX_LETTERS = 4  # of one character: a few stand for whole sentences, which would be slow to look at
_NOT_LETTERS = punctuation + whitespace + "".join(map(chr, range(32))) + "\x7f"
_LOWER = {ord(letter): letter.lower() for letter in ascii_letters + digits}
_LETTERS = {**_LOWER, **dict.fromkeys(map(ord, _NOT_LETTERS))}
# Bytes are looked up much faster than text.
_ASCII_ALIGNED = bytes(ord(_LOWER.get(code, " ")) for code in range(256))
_LONG_GAP = " " * (MAX_GAP + 1)
_MAX_CACHED = 8192


def extract_letters(text: str) -> str:
    """Return only the letters and digits of a text: "I'm in 2B!" becomes "imin2b"."""
    return feed_in_slices(_extract_letters, text)


def _extract_letters(text: str) -> str:
    return text.translate(_LETTERS) if text.isascii() else "".join(map(_fold, text))


def align_letters(text: str) -> str:
    """Return a plain text with its letters in place and blanks for all else, or "" if it is not plain.

    It is plain if no character stands for several letters, and there is no long gap.
    """
    form = text.encode().translate(_ASCII_ALIGNED).decode() if text.isascii() else text.translate(_ALIGNED)
    return "" if _LONG_GAP in form or BREAK in form else form


def locate_letters(text: str, start: int) -> tuple[str, list[int]]:
    """Return the letters of a text and where each of them stands, counted from a start."""
    if text.isascii():
        places = [place for place, character in enumerate(text, start) if character.isalnum()]
        return text.translate(_LETTERS), places
    folded = [_fold(character) for character in text]
    return "".join(folded), [place for place, part in enumerate(folded, start) for _ in part]


class LetterReader:
    """Reads a stream of text as letters and their places, counted from its beginning."""

    def __init__(self, breaks: int) -> None:
        """Take how many breaks stand for one long gap."""
        self._breaks = breaks
        self._end = 0
        self._last = -1  # the place of the last letter
        self.is_broken = False
        """Whether nothing but a long gap was read since the last letter."""

    def skip(self, end: int, last: int | None) -> None:
        """Go on after text that was read elsewhere, with its end and the place of its last letter if any."""
        self._end = end
        self._last = self._last if last is None else last

    def read(self, text: str) -> tuple[str, list[int]]:
        """Take a chunk; return its letters, with breaks, and where each of them stands.

        A break stands where the last character of a long gap is, and comes as soon as that has.
        """
        letters, places = locate_letters(text, self._end)
        self._end += len(text)
        if places and self._is_gapless(places):
            self._last = places[-1]
            self.is_broken = False
            return letters, places
        out: list[str] = []
        where: list[int] = []
        for letter, place in zip(letters, places, strict=True):
            if place - self._last > MAX_GAP:
                self._break_before(place, out, where)
            out.append(letter)
            where.append(place)
            self._last = place
            self.is_broken = False
        self._break_before(self._end, out, where)
        return "".join(out), where

    def _is_gapless(self, places: list[int]) -> bool:
        widest = max(map(sub, islice(places, 1, None), places), default=0)
        first = 0 if self.is_broken else places[0] - self._last
        return max(widest, first, self._end - places[-1]) <= MAX_GAP + 1

    def _break_before(self, place: int, out: list[str], where: list[int]) -> None:
        end = self._last + 1 + MAX_GAP
        if not self.is_broken and place > end:
            out += BREAK * self._breaks
            where += [end] * self._breaks
            self.is_broken = True


class _AlignedCharacters(dict[int, str]):
    """What stands in a plain text for each character, found out when it is first seen."""

    def __missing__(self, code: int) -> str:
        """Return a letter, a blank for what is none, or a break for what no plain text has."""
        character = chr(code)
        letters = _fold(character)
        is_simple = len(letters) == character.isalnum()
        form = (letters or " ") if is_simple else BREAK
        if len(self) < _MAX_CACHED:
            self[code] = form
        return form


_ALIGNED = _AlignedCharacters()


@lru_cache(maxsize=8192)
def _fold(character: str) -> str:
    """Return the letters of one character: none for punctuation or a blank, several for a ligature."""
    plain = unicodedata.normalize("NFKD", fold_character(character))
    letters = "".join(filter(str.isalnum, plain))[:_MAX_LETTERS]
    return letters * _REPEATED if len(letters) == 1 and ord(letters) >= _FIRST_WIDE else letters
