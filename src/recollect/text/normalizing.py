"""One form for text: Unicode's NFKC, nothing invisible, and where wanted plain whitespace and plain letters.

A text is cleaned in segments that cannot influence each other, so a stream gives what the whole text would
have given, however it is cut. A segment is a character with all that can still change it; it is never longer
than `LONGEST` characters.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from recollect.text.unicode import is_foldable, is_hidden, remove_invisible, unmix

Form: TypeAlias = Literal["NFKC", "NFC"]
"""How characters are written; NFC keeps ligatures, fractions and letters in circles."""

LONGEST = 256
"""How many characters are looked at together, and so held back in a stream, at most."""

_ROUNDS = 4
_TEXT_START = frozenset(
    ("Lu", "Ll", "Lt", "Lo", "Nd", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Zs", "Sm", "Sc", "So")
)
_JAMO = re.compile("[\u1160-\u11ff\ua960-\ua97c\ud7b0-\ud7fb\uff9e-\uffdc]")
_SPACE_RUN = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Style:
    """What is done to a text."""

    form: Form | None = "NFKC"
    collapse_whitespace: bool = False
    trim: bool = True
    confusables: bool = False


def normalise(text: str, style: Style) -> str:
    """Return a whole text in one form."""
    stream = NormalStream(style)
    return stream.feed(text) + stream.finish()


class NormalStream:
    """Cleans a text that comes in chunks; what it releases, joined, is the cleaned text."""

    def __init__(self, style: Style) -> None:
        """Begin with nothing."""
        self._style = style
        self._held = ""
        self._joined = 0  # how many of the characters that are held are known to belong together
        self._spaces = ""
        self._begun = False

    def feed(self, text: str) -> str:
        """Take a chunk and return what can no longer change."""
        self._held += text
        out: list[str] = []
        while (size := self._ready()) > 0:
            out.append(self._cleaned(self._held[:size]))
            self._held, self._joined = self._held[size:], 0
        self._joined = len(self._held)
        return self._spaced("".join(out))

    def finish(self) -> str:
        """Return the rest; the next chunk begins a new text."""
        held, self._held, self._joined = self._held, "", 0
        out = self._spaced(self._cleaned(held))
        if not self._style.trim:
            out += self._spaces
        self._spaces, self._begun = "", False
        return out

    def _ready(self) -> int:
        """Find how much of what is held forms whole segments, or is as long as a segment may be."""
        held = self._held
        if held.isascii() and not self._style.confusables:
            # Only the last character can still be changed, by what stands behind it.
            return len(held) - 1
        lowest = max(len(held) - LONGEST, self._joined - 1, 0)
        for place in range(len(held) - 1, lowest, -1):
            if self._may_cut(held, place):
                return self._first_forced(held, place)
        return self._first_forced(held, len(held) if len(held) >= LONGEST else 0)

    def _first_forced(self, held: str, end: int) -> int:
        """Return the end, or the place of the first segment before it that is too long."""
        if end <= LONGEST:
            return min(end, LONGEST)
        start = 0
        for place in range(1, end):
            if self._may_cut(held, place):
                start = place
            elif place - start >= LONGEST:
                return place
        return end

    def _may_cut(self, text: str, place: int) -> bool:
        """Whether nothing before a place can change what stands behind it, or be changed by it."""
        before, character = text[place - 1], text[place]
        if not _starts(character) or is_hidden(before):
            return False
        form = self._style.form
        return not (self._style.confusables and _is_in_word(before, form) and _is_in_word(character, form))

    def _cleaned(self, text: str) -> str:
        if text.isascii():
            return remove_invisible(text)
        for _ in range(_ROUNDS):
            before = text
            text = remove_invisible(text)
            if self._style.form is not None:
                text = unicodedata.normalize(self._style.form, text)
            if text == before:
                break
        return unmix(text) if self._style.confusables else text

    def _spaced(self, text: str) -> str:
        """Keep whitespace at the end back, and write the rest as wanted."""
        style = self._style
        if not text or not (style.trim or style.collapse_whitespace):
            return text
        body = text.rstrip()
        if not body:
            self._spaces = self._plain(self._spaces + text)
            return ""
        start = body.lstrip()
        lead = self._spaces + body[: len(body) - len(start)]
        self._spaces = self._plain(text[len(body) :])
        first = "" if style.trim and not self._begun else self._plain(lead)
        self._begun = True
        if style.collapse_whitespace:
            start = _SPACE_RUN.sub(lambda match: self._plain(match[0]), start)
        return first + start

    def _plain(self, spaces: str) -> str:
        """Return whitespace as one space, one line break or one empty line, if it is to be collapsed."""
        if not spaces or not self._style.collapse_whitespace:
            return spaces
        return "\n" * min(spaces.count("\n"), 2) or " "


@lru_cache(maxsize=8192)
def _is_in_word(character: str, form: Form | None) -> bool:
    """Whether a character, as it is or in its form, can be part of a word that is rewritten; accents can."""
    plain = unicodedata.normalize(form, character) if form else character
    return unicodedata.category(character).startswith("M") or any(map(is_foldable, plain))


@lru_cache(maxsize=8192)
def _starts(character: str) -> bool:
    """Whether a character never joins with the one before it."""
    if unicodedata.category(character) not in _TEXT_START and character not in "\n\r\t":
        return False
    first = unicodedata.normalize("NFKD", character)[0]
    return (
        not unicodedata.category(first).startswith("M")
        and not _JAMO.match(character)
        and not _JAMO.match(first)
    )
