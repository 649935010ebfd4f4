"""Counting tokens, and cutting text to a number of them, without asking anybody.

The counts are those of the encodings `o200k` and `cl100k`. A text is cut before a blank, a line break or a
full-width mark after a word, where the tokens of what stands before and after add up exactly; so a stream
is cut as the whole text would be. Only what has no such place for 64 characters is cut elsewhere, and never
within a character as people see it.
"""

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, Protocol, TypeAlias, cast, get_args

from recollect.errors import requires_extra
from recollect.text.unicode import is_grapheme_break

Encoding: TypeAlias = Literal["o200k", "cl100k"]
"""How text becomes tokens."""

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
"""All encodings."""

LONGEST_SEGMENT = 64
"""How many characters of an unbroken text are counted, and held back on a stream, at once."""

_CUT = re.compile(r"(?<=\S)(?=[ \t])|(?<=[^\W_])(?=[\r\n\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f])")
_LONG_WORD = 48  # what is longer is no word, and may be cut within
_SEAM = 2  # how many more tokens a text may have than the two parts that it was cut into anywhere
_LOOKED_BACK = 24  # for a place between two characters
_MOST_TOKENS = 5  # of a character: one for each of its bytes, and its share of the seams
_MOST_ASCII_TOKENS = 2
_MOST_UNCOUNTED = 1 << 17
_MANY_BLANKS = " " * (LONGEST_SEGMENT // 2 - 1)
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

    Text that fits however it is counted is released at once, and counted later, much of it together. Near the
    limit a word is held back until it is complete: of "one two thr" and "ee four", with a limit of three
    tokens, "one two" is released, then " three", and then nothing more.
    """

    def __init__(self, limit: int, encoding: Encoding = "o200k") -> None:
        self._count = _tokenizer(encoding).count
        self._left = limit
        self._pending: list[str] = []  # not counted yet
        self._out = 0  # how many characters of it were released
        self._room = 0  # how many more tokens may be released before they are counted
        self._is_seam = False
        self._is_begun = False  # whether this message has text
        self._has_said = False  # whether any has
        self.is_full = False
        self._keep("", 0)

    def feed(self, text: str) -> str:
        """Take a chunk and return what can be released."""
        most = len(text) * (_MOST_ASCII_TOKENS if text.isascii() else _MOST_TOKENS)
        if most <= self._room:
            self._pending.append(text)
            self._out += len(text)
            self._room -= most
            return text
        return self._settle(text, final=False)

    def finish(self) -> str:
        """Return what is left of a message once no more of its text comes."""
        out = self._settle("", final=True)
        if self._is_begun:
            self._left -= _SEAM  # what follows is another message, after a line break
        self._is_begun = self._is_seam = False
        return out

    def _settle(self, text: str, *, final: bool) -> str:
        """Count all segments that are complete, and return what can be released."""
        if self.is_full:
            return ""
        pending, out = "".join((*self._pending, text)), self._out
        start = self._count_words(pending)
        runs, rest = _find_runs(pending, start, final=final)
        for ends, is_hard in runs:
            if not self._take(pending[start : ends[-1]], is_hard=is_hard):
                self.is_full = True
                self._room = 0
                return pending[out : self._cut(pending, start, ends)]
            start = ends[-1]
        self._keep(pending[rest:], max(out - rest, 0))
        return pending[out : rest + self._out]

    def _count_words(self, text: str) -> int:
        """Count ordinary words all at once, if they fit; return how far they go."""
        end = _end_of_words(text)
        return end if end and self._take(text[:end], is_hard=False) else 0

    def _take(self, text: str, *, is_hard: bool) -> bool:
        """Count a text, unless it does not fit."""
        used = self._count(text) + _SEAM * self._is_seam
        if used > self._left:
            return False
        self._left -= used
        self._is_begun = self._has_said = True
        self._is_seam = is_hard
        return True

    def _keep(self, rest: str, out: int) -> None:
        """Go on with the beginning of a segment; it is held back if the segment might not fit."""
        reserved = _MOST_TOKENS * (len(rest) + LONGEST_SEGMENT + 1)
        self._pending = [rest]
        self._room = max(min(self._left, _MOST_UNCOUNTED) - reserved, 0)
        self._out = len(rest) if self._room else out

    def _cut(self, text: str, start: int, ends: Sequence[int]) -> int:
        """Find the last place up to which the text from a start fits: an end of a segment, or within one."""
        left = self._left - _SEAM * self._is_seam
        fitting = bisect_right(ends, left, key=lambda end: self._count(text[start:end]))
        place = ends[fitting - 1] if fitting else start
        segment = text[place : ends[fitting]]
        is_word = len(segment) <= _LONG_WORD and not any(ord(character) >= _WIDE for character in segment)
        if is_word and (fitting or self._has_said):
            return place
        return place + _longest_fitting(segment, left - self._count(text[start:place]), self._count)


def _longest_fitting(segment: str, limit: int, count: Callable[[str], int]) -> int:
    """Return where to cut a segment that does not fit: as far as it does, between two characters."""
    for end in range(len(segment) - 1, 0, -1):
        if is_grapheme_break(segment, end) and count(segment[:end]) <= limit:
            return end
    return 0


def _end_of_words(text: str) -> int:
    """Return the last place to cut a text at that has such places close together, or 0."""
    if _MANY_BLANKS in text or max(map(len, text.split(" "))) > len(_MANY_BLANKS):
        return 0
    tail = max(len(text) - LONGEST_SEGMENT, 0)
    return tail + max((match.start() for match in _CUT.finditer(text[tail:])), default=-tail)


def _find_runs(text: str, start: int, *, final: bool) -> tuple[list[tuple[list[int], bool]], int]:
    """Return the ends of the complete segments from a start in runs, and where the rest begins.

    The tokens of one run add up exactly; a run that ends hard ends within an unbroken text.
    """
    runs: list[tuple[list[int], bool]] = []
    ends: list[int] = []
    for place in [*(match.start() for match in _CUT.finditer(text, start)), len(text)]:
        while place - start > LONGEST_SEGMENT:
            start = _hard_end(text, start)
            runs.append(([*ends, start], True))
            ends = []
        is_end = final or place < len(text)
        if is_end and place > start:
            ends.append(place)
            start = place
    if ends:
        runs.append((ends, False))
    return runs, start


def _hard_end(text: str, start: int) -> int:
    segment = text[start : start + LONGEST_SEGMENT + 1]
    for end in range(LONGEST_SEGMENT, LONGEST_SEGMENT - _LOOKED_BACK, -1):
        if is_grapheme_break(segment, end):
            return start + end
    return start + LONGEST_SEGMENT


@cache
def _tokenizer(encoding: str) -> _Tokenizer:
    with requires_extra("guard"):
        openai = importlib.import_module("rs_bpe.bpe").openai
    return cast("_Tokenizer", getattr(openai, f"{encoding}_base")())
