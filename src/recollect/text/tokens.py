"""Counting tokens, and cutting text to a number of them, without asking anybody.

The counts are those of the encodings `o200k` and `cl100k`. A text is cut before a blank, a line break or a
full-width mark behind a word, where the tokens of what stands before and behind add up exactly; so a stream
is cut as the whole text would be. Only what has no such place for 64 characters is cut elsewhere, and never
within a character as people see it.
"""

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, Protocol, TypeAlias, cast, get_args

from recollect.errors import RecollectError
from recollect.text.unicode import is_grapheme_break

Encoding: TypeAlias = Literal["o200k", "cl100k"]
"""How text becomes tokens."""

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
"""All encodings."""

LONGEST_PIECE = 64
"""How many characters of an unbroken text are counted, and held back on a stream, at once."""

_CUT = re.compile(r"(?<=\S)(?=[ \t])|(?<=[^\W_])(?=[\r\n\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f])")
_MANY_BLANKS = " " * (LONGEST_PIECE // 2 - 1)
_LONG_WORD = 48  # what is longer is no word, and may be cut within
_SEAM = 2  # how many more tokens a text may have than the two parts that it was cut into anywhere
_MOST_BYTES = 4  # of a character, and so its most tokens
_SURE = _MOST_BYTES * LONGEST_PIECE + 2 * _SEAM
_MOST_PENDING = 1 << 16
_LOOKED_BACK = 24  # for a place between two characters
_SHORTEST_CUT = LONGEST_PIECE - _LOOKED_BACK
_WIDE = 0x2E80  # from here on words are written without blanks


class _Tokenizer(Protocol):
    def count(self, text: str) -> int: ...


def count_tokens(text: str, encoding: Encoding = "o200k") -> int:
    """Return how many tokens a text has."""
    return _tokenizer(encoding).count(text) if text else 0


def truncate(text: str, limit: int, encoding: Encoding = "o200k") -> str:
    """Return the longest beginning of a text that has at most `limit` tokens and ends at a clean place."""
    cutter = TokenCutter(limit, encoding)
    return cutter.feed(text) + cutter.finish()


class TokenCutter:
    """Cuts a stream of text to a number of tokens, as the whole text would be cut.

    `is_full` says that there was more text than fits. The texts of several messages count together.
    """

    def __init__(self, limit: int, encoding: Encoding = "o200k") -> None:
        """Take the most tokens that are let through."""
        self._count = _tokenizer(encoding).count
        self._left: int = limit
        self._pending: list[str] = []  # not counted yet
        self._size: int = 0  # of what is pending
        self._cost: int = 0  # the most tokens that it can have
        self._out: int = 0  # how much of it was let out already, since it fits however it is counted
        self._is_seam: bool = False
        self._is_begun: bool = False  # whether this message has text
        self._has_said = False  # whether any has
        self._owed: list[tuple[str, bool, bool]] = []  # ends of earlier messages that are not counted yet
        self._reserved: int = 0  # the most tokens that they can have
        self.is_full = False

    def feed(self, text: str) -> str:
        """Take a chunk and return what can be let out."""
        size = self._size + len(text)
        cost = self._cost + (len(text) if text.isascii() else _MOST_BYTES * len(text))
        if self._out == self._size <= _MOST_PENDING and self._is_sure(size, cost):
            self._pending.append(text)
            self._size = self._out = size
            self._cost = cost
            return text
        if self._owed:
            self._count_owed()
            return self.feed(text)
        return "" if self.is_full else self._settle(text, final=False)

    def finish(self) -> str:
        """Return what is left of a message once no more of its text comes."""
        if 0 < self._size == self._out and self._is_sure(self._size, self._cost):
            self._owe()
            return ""
        self._count_owed()
        return self._end_message()

    def _is_sure(self, size: int, cost: int) -> bool:
        """Whether text of a size fits, with the most tokens that it can have, wherever it is cut."""
        return self._reserved + cost + _SEAM * size // _SHORTEST_CUT + _SURE <= self._left

    def _end_message(self) -> str:
        out = "" if self.is_full else self._settle("", final=True)
        if self._is_begun:
            self._left -= _SEAM  # what follows is another message, behind a line break
        self._is_begun = self._is_seam = False
        return out

    def _owe(self) -> None:
        """End a message that fits however it is counted: most answers end here, and are never counted."""
        self._owed.append(("".join(self._pending), self._is_seam, self._is_begun))
        self._reserved += self._cost + _SEAM * (self._size // _SHORTEST_CUT + 3)
        self._pending = []
        self._size = self._cost = self._out = 0
        self._is_begun = self._is_seam = False
        self._has_said = True
        if sum(len(text) for text, _, _ in self._owed) > _MOST_PENDING:
            self._count_owed()

    def _count_owed(self) -> None:
        """Count what earlier messages ended with, as they would have been then."""
        present = (self._pending, self._size, self._cost, self._out, self._is_seam, self._is_begun)
        for text, is_seam, is_begun in self._owed:
            self._pending, self._out = [text], len(text)
            self._is_seam, self._is_begun = is_seam, is_begun
            self._end_message()
        self._owed, self._reserved = [], 0
        self._pending, self._size, self._cost, self._out, self._is_seam, self._is_begun = present

    def _settle(self, text: str, *, final: bool) -> str:
        """Count all pieces that are complete, and return what can be let out."""
        pending = "".join((*self._pending, text))
        start = self._counted(pending)
        stretches, rest = _stretches(pending, start, final=final)
        for ends, is_hard in stretches:
            used = self._count(pending[start : ends[-1]]) + _SEAM * self._is_seam
            if used > self._left:
                self.is_full = True
                return pending[self._out : self._cut(pending, start, ends)]
            self._left -= used
            self._is_begun = self._has_said = True
            self._is_seam = is_hard
            start = ends[-1]
        out = self._out
        self._keep(pending[rest:], max(out - rest, 0))
        return pending[out : rest + self._out]

    def _counted(self, text: str) -> int:
        """Count ordinary words all at once, if they fit; return how far they go."""
        end = _end_of_words(text)
        used = self._count(text[:end]) + _SEAM * self._is_seam if end else 0
        if not end or used > self._left:
            return 0
        self._left -= used
        self._is_begun = self._has_said = True
        self._is_seam = False
        return end

    def _keep(self, text: str, out: int) -> None:
        """Go on with the beginning of a piece; it is held back if the piece might not fit."""
        self._pending = [text]
        self._size = len(text)
        self._cost = _MOST_BYTES * len(text)
        self._out = len(text) if self._cost + _SURE <= self._left else out

    def _cut(self, text: str, start: int, ends: Sequence[int]) -> int:
        """Find the last place up to which the text behind a start fits: an end of a piece, or within one."""
        left = self._left - _SEAM * self._is_seam
        fitting = bisect_right(ends, left, key=lambda end: self._count(text[start:end]))
        place = ends[fitting - 1] if fitting else start
        piece = text[place : ends[fitting]]
        is_word = len(piece) <= _LONG_WORD and not any(ord(character) >= _WIDE for character in piece)
        if is_word and (fitting or self._has_said):
            return place
        return place + _longest_fitting(piece, left - self._count(text[start:place]), self._count)


def _longest_fitting(piece: str, limit: int, count: Callable[[str], int]) -> int:
    """Return where to cut a piece that does not fit: as far as it does, between two characters."""
    for end in range(len(piece) - 1, 0, -1):
        if is_grapheme_break(piece, end) and count(piece[:end]) <= limit:
            return end
    return 0


def _end_of_words(text: str) -> int:
    """Return the last place to cut a text at that has such places close together, or 0."""
    if _MANY_BLANKS in text or max(map(len, text.split(" "))) > len(_MANY_BLANKS):
        return 0
    tail = max(len(text) - LONGEST_PIECE, 0)
    return tail + max((match.start() for match in _CUT.finditer(text[tail:])), default=-tail)


def _stretches(text: str, start: int, *, final: bool) -> tuple[list[tuple[list[int], bool]], int]:
    """Return the ends of the complete pieces behind a start in stretches, and where the rest begins.

    The tokens of one stretch add up exactly; a stretch that ends hard ends within an unbroken text.
    """
    stretches: list[tuple[list[int], bool]] = []
    ends: list[int] = []
    places = [match.start() for match in _CUT.finditer(text, start)]
    for place in [*places, len(text)]:
        while place - start > LONGEST_PIECE:
            start = _hard_end(text, start)
            stretches.append(([*ends, start], True))
            ends = []
        is_end = final or place < len(text)
        if is_end and place > start:
            ends.append(place)
            start = place
    if ends:
        stretches.append((ends, False))
    return stretches, start


def _hard_end(text: str, start: int) -> int:
    piece = text[start : start + LONGEST_PIECE + 1]
    for end in range(LONGEST_PIECE, LONGEST_PIECE - _LOOKED_BACK, -1):
        if is_grapheme_break(piece, end):
            return start + end
    return start + LONGEST_PIECE


@cache
def _tokenizer(encoding: str) -> _Tokenizer:
    try:
        openai = importlib.import_module("rs_bpe.bpe").openai
    except ImportError as error:
        raise RecollectError("counting tokens needs an extra: pip install 'recollect[guard]'") from error
    return cast("_Tokenizer", getattr(openai, f"{encoding}_base")())
