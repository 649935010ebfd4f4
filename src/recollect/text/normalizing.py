"""Normalizing text: Unicode NFKC, no invisible characters, optionally plain whitespace and no look-alikes.

Text is cleaned in segments that cannot influence each other. So a stream gives the same result as the whole
text, however it is chunked. A segment is a character with everything that can still change it, at most
`LONGEST` characters. Example: "e" is held back, because the next chunk may begin with U+0301; then "é" is
released once a character follows that cannot join it.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from recollect.text.slices import feed_in_slices
from recollect.text.unicode import is_foldable, is_hidden, remove_invisible, replace_look_alikes

Form: TypeAlias = Literal["NFKC", "NFC"]
"""A Unicode normalization form; NFC keeps ligatures, fractions and circled letters."""

LONGEST = 256
"""The maximum length of a segment, and so of the text that a stream holds back."""

_ROUNDS = 4  # removing a character can make others compose, which can make more removable
_TEXT_START = frozenset(
    ("Lu", "Ll", "Lt", "Lo", "Nd", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Zs", "Sm", "Sc", "So")
)
_JAMO = re.compile("[\u1160-\u11ff\ua960-\ua97c\ud7b0-\ud7fb\uff9e-\uffdc]")
_SPACE_RUN = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Style:
    """Which normalization is applied."""

    form: Form | None = "NFKC"
    collapse_whitespace: bool = False
    trim: bool = True
    confusables: bool = False


def normalize(text: str, style: Style) -> str:
    """Normalize a whole text."""
    stream = NormalizingStream(style)
    return feed_in_slices(stream.feed, text) + stream.finish()


class NormalizingStream:
    """Normalizes a text that comes in chunks; the released chunks, joined, are the normalized text."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._held = ""
        self._joined = 0  # how many of the held characters are known to form one segment
        self._spaces = ""
        self._has_begun = False

    def feed(self, text: str) -> str:
        """Take a chunk and return the text that can no longer change."""
        self._held += text
        out: list[str] = []
        while (size := self._count_ready()) > 0:
            out.append(self._clean(self._held[:size]))
            self._held, self._joined = self._held[size:], 0
        self._joined = len(self._held)
        return self._format_spaces("".join(out))

    def finish(self) -> str:
        """Return the rest; the next chunk begins a new text."""
        held, self._held, self._joined = self._held, "", 0
        out = self._format_spaces(self._clean(held))
        if not self._style.trim:
            out += self._spaces
        self._spaces, self._has_begun = "", False
        return out

    def _count_ready(self) -> int:
        """Return how many held characters form complete segments, or one of the maximum length."""
        held = self._held
        if held.isascii() and not self._style.confusables:
            # Only the last character can still change, by what comes after it.
            return len(held) - 1
        lowest = max(len(held) - LONGEST, self._joined - 1, 0)
        for place in range(len(held) - 1, lowest, -1):
            if self._can_cut(held, place):
                return self._find_first_cut(held, place)
        return self._find_first_cut(held, len(held) if len(held) >= LONGEST else 0)

    def _find_first_cut(self, held: str, end: int) -> int:
        """Return the end, or before it the place where the first segment that is too long must be cut."""
        if end <= LONGEST:
            return min(end, LONGEST)
        start = 0
        for place in range(1, end):
            if self._can_cut(held, place):
                start = place
            elif place - start >= LONGEST:
                return place
        return end

    def _can_cut(self, text: str, place: int) -> bool:
        """Whether the texts before and after a place cannot change each other."""
        before, character = text[place - 1], text[place]
        if not _can_start_segment(character) or is_hidden(before):
            return False
        form = self._style.form
        return not (self._style.confusables and _is_in_word(before, form) and _is_in_word(character, form))

    def _clean(self, text: str) -> str:
        if text.isascii():
            return remove_invisible(text)
        for _ in range(_ROUNDS):
            before = text
            text = remove_invisible(text)
            if self._style.form is not None:
                text = unicodedata.normalize(self._style.form, text)
            if text == before:
                break
        return replace_look_alikes(text) if self._style.confusables else text

    def _format_spaces(self, text: str) -> str:
        """Hold back trailing whitespace, and trim and collapse the rest as the style says."""
        style = self._style
        if not text or not (style.trim or style.collapse_whitespace):
            return text
        body = text.rstrip()
        if not body:
            self._spaces = self._collapse(self._spaces + text)
            return ""
        start = body.lstrip()
        lead = self._spaces + body[: len(body) - len(start)]
        self._spaces = self._collapse(text[len(body) :])
        first = "" if style.trim and not self._has_begun else self._collapse(lead)
        self._has_begun = True
        if style.collapse_whitespace:
            start = _SPACE_RUN.sub(lambda match: self._collapse(match[0]), start)
        return first + start

    def _collapse(self, spaces: str) -> str:
        """Return whitespace as one space, one line break or one empty line, if the style collapses it."""
        if not spaces or not self._style.collapse_whitespace:
            return spaces
        return "\n" * min(spaces.count("\n"), 2) or " "


@lru_cache(maxsize=8192)
def _is_in_word(character: str, form: Form | None) -> bool:
    """Whether a character, as it is or normalized, can be part of a rewritten word; accents can."""
    plain = unicodedata.normalize(form, character) if form else character
    return unicodedata.category(character).startswith("M") or any(map(is_foldable, plain))


@lru_cache(maxsize=8192)
def _can_start_segment(character: str) -> bool:
    """Whether a character never joins with the one before it."""
    if unicodedata.category(character) not in _TEXT_START and character not in "\n\r\t":
        return False
    first = unicodedata.normalize("NFKD", character)[0]
    return (
        not unicodedata.category(first).startswith("M")
        and not _JAMO.match(character)
        and not _JAMO.match(first)
    )
