"""Counting tokens, and truncating text to a number of them, offline.

The counts are those of the encodings `o200k` and `cl100k`. Text is cut before a space, a line break or
full-width punctuation after a word: there the token counts of both sides add up exactly. So a stream is cut
where the whole text would be. Only text without such a place for 64 characters is cut elsewhere, and never
inside a grapheme.
"""

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Literal, Protocol, TypeAlias, cast, get_args

from recollect.errors import requires_extra
from recollect.text.slices import feed_in_slices
from recollect.text.unicode import is_grapheme_break

Encoding: TypeAlias = Literal["o200k", "cl100k"]
"""The name of a token encoding."""

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
"""All encodings."""

LONGEST_SEGMENT = 64
"""How many characters of unbroken text are counted, and held back in a stream, at once."""

_CUT = re.compile(r"(?<=\S)(?=[ \t])|(?<=[^\W_])(?=[\r\n\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f])")
_LONG_WORD = 48  # anything longer is no word and may be cut inside
_SEAM = 2  # how many more tokens a text may have than its two parts, wherever it is cut
_MAX_BACKTRACK = 24  # characters, to find a grapheme break
_MAX_TOKENS = 5  # of one character: one for each byte, and its share of the seams
_MAX_ASCII_TOKENS = 2
_MAX_UNCOUNTED = 1 << 17
_SLICE = 16_384  # characters that are counted in one go
_MANY_BLANKS = " " * (LONGEST_SEGMENT // 2 - 1)
_WIDE = 0x2E80  # from this code point on words are written without spaces


class _Tokenizer(Protocol):
    def count(self, text: str) -> int: ...


def count_tokens(text: str, encoding: Encoding = "o200k") -> int:
    """Return how many tokens a text has."""
    count = _load_tokenizer(encoding).count
    return sum(count(text[start:end]) for start, end in _split_for_counting(text)) if text else 0


def truncate(text: str, limit: int, encoding: Encoding = "o200k") -> str:
    """Return the longest prefix of a text with at most `limit` tokens that ends between words."""
    cutter = TokenCutter(limit, encoding)
    return feed_in_slices(cutter.feed, text) + cutter.finish()


class TokenCutter:
    """Cuts a stream of text to a number of tokens, where the whole text would be cut.

    `is_full` says that there was more text than fits. The texts of several messages count together.

    Text that certainly fits is released at once and counted later in large blocks. Near the limit a word is
    held back until it is complete. Example with a limit of three tokens: the chunk "one two thr" releases
    "one two", the chunk "ee four" releases " three", and nothing more is released.
    """

    def __init__(self, limit: int, encoding: Encoding = "o200k") -> None:
        self._count = _load_tokenizer(encoding).count
        self._left = limit
        self._pending: list[str] = []  # not counted yet
        self._released = 0  # how many characters of the pending text were released
        self._room = 0  # how many more tokens may be released uncounted
        self._is_seam = False  # whether the last cut was inside unbroken text
        self._has_begun = False  # whether this message has text
        self._has_any_text = False  # whether any message has
        self.is_full = False
        self._keep("", 0)

    def feed(self, text: str) -> str:
        """Take a chunk and return the text that can be released."""
        max_tokens = len(text) * (_MAX_ASCII_TOKENS if text.isascii() else _MAX_TOKENS)
        if max_tokens <= self._room:
            self._pending.append(text)
            self._released += len(text)
            self._room -= max_tokens
            return text
        return self._settle(text, final=False)

    def finish(self) -> str:
        """Return the rest of a message when it has ended."""
        out = self._settle("", final=True)
        if self._has_begun:
            self._left -= _SEAM  # the next message follows after a line break
        self._has_begun = self._is_seam = False
        return out

    def _settle(self, text: str, *, final: bool) -> str:
        """Count all complete segments, and return the text that can be released."""
        if self.is_full:
            return ""
        pending, released = "".join((*self._pending, text)), self._released
        start = self._count_words(pending)
        runs, rest = _find_runs(pending, start, final=final)
        for ends, is_hard in runs:
            if not self._take(pending[start : ends[-1]], is_hard=is_hard):
                self.is_full = True
                self._room = 0
                return pending[released : self._find_cut(pending, start, ends)]
            start = ends[-1]
        self._keep(pending[rest:], max(released - rest, 0))
        return pending[released : rest + self._released]

    def _count_words(self, text: str) -> int:
        """Count ordinary words all at once, if they fit; return where they end."""
        end = _find_end_of_words(text)
        return end if end and self._take(text[:end], is_hard=False) else 0

    def _take(self, text: str, *, is_hard: bool) -> bool:
        """Count a text if it fits; return whether it does."""
        used = self._count(text) + _SEAM * self._is_seam
        if used > self._left:
            return False
        self._left -= used
        self._has_begun = self._has_any_text = True
        self._is_seam = is_hard
        return True

    def _keep(self, rest: str, released: int) -> None:
        """Keep the beginning of a segment; it is held back if the segment might not fit."""
        reserved = _MAX_TOKENS * (len(rest) + LONGEST_SEGMENT + 1)
        self._pending = [rest]
        self._room = max(min(self._left, _MAX_UNCOUNTED) - reserved, 0)
        self._released = len(rest) if self._room else released

    def _find_cut(self, text: str, start: int, ends: Sequence[int]) -> int:
        """Return how far the text from `start` fits: to the end of a segment, or to a place inside one."""
        left = self._left - _SEAM * self._is_seam
        fitting = bisect_right(ends, left, key=lambda end: self._count(text[start:end]))
        place = ends[fitting - 1] if fitting else start
        segment = text[place : ends[fitting]]
        is_word = len(segment) <= _LONG_WORD and not any(ord(character) >= _WIDE for character in segment)
        if is_word and (fitting or self._has_any_text):
            return place
        return place + _find_longest_fit(segment, left - self._count(text[start:place]), self._count)


def _split_for_counting(text: str) -> Iterator[tuple[int, int]]:
    """Yield slices whose token counts add up; a slice of unbroken text may count a token or two more."""
    start = 0
    while len(text) - start > _SLICE:
        cuts = [match.start() for match in _CUT.finditer(text, start + _SLICE // 2, start + _SLICE)]
        end = cuts[-1] if cuts else start + _SLICE
        yield start, end
        start = end
    yield start, len(text)


def _find_longest_fit(segment: str, limit: int, count: Callable[[str], int]) -> int:
    """Return the last grapheme break up to which a segment fits."""
    for end in range(len(segment) - 1, 0, -1):
        if is_grapheme_break(segment, end) and count(segment[:end]) <= limit:
            return end
    return 0


def _find_end_of_words(text: str) -> int:
    """Return the last place to cut, or 0 if the text may have long segments."""
    if _MANY_BLANKS in text or max(map(len, text.split(" "))) > len(_MANY_BLANKS):
        return 0
    tail = max(len(text) - LONGEST_SEGMENT, 0)
    return tail + max((match.start() for match in _CUT.finditer(text[tail:])), default=-tail)


def _find_runs(text: str, start: int, *, final: bool) -> tuple[list[tuple[list[int], bool]], int]:
    """Return the ends of the complete segments from `start`, in runs, and where the rest begins.

    The token counts of one run add up exactly. A run with a hard end was cut inside unbroken text.
    """
    runs: list[tuple[list[int], bool]] = []
    ends: list[int] = []
    for place in [*(match.start() for match in _CUT.finditer(text, start)), len(text)]:
        while place - start > LONGEST_SEGMENT:
            start = _find_hard_end(text, start)
            runs.append(([*ends, start], True))
            ends = []
        is_end = final or place < len(text)
        if is_end and place > start:
            ends.append(place)
            start = place
    if ends:
        runs.append((ends, False))
    return runs, start


def _find_hard_end(text: str, start: int) -> int:
    segment = text[start : start + LONGEST_SEGMENT + 1]
    for end in range(LONGEST_SEGMENT, LONGEST_SEGMENT - _MAX_BACKTRACK, -1):
        if is_grapheme_break(segment, end):
            return start + end
    return start + LONGEST_SEGMENT


@cache
def _load_tokenizer(encoding: str) -> _Tokenizer:
    with requires_extra("guard"):
        openai = importlib.import_module("rs_bpe.bpe").openai
    return cast("_Tokenizer", getattr(openai, f"{encoding}_base")())
