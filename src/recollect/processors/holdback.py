"""How much of a stream may be let out: the text that no later text can change.

A match can be cut anywhere by the chunks of a model. So text is held back from the place where an
unfinished match may begin, and let out once it is clear what it is. What is held back is bounded: a match
that is still open at the limit is replaced, and swallowed to its end, never let out.
"""

import bisect
from collections.abc import Callable
from dataclasses import dataclass

_CONTEXT = 64  # how much of what was let out a match may look back at
_REMEMBERED = 4096  # how much of either end of a swallowed match is remembered


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of text and what to write in its place."""

    start: int
    end: int
    replacement: str = "[REDACTED]"


def apply_spans(text: str, spans: list[Span]) -> str:
    """Write the replacements into a text; spans are in order and do not overlap."""
    pieces: list[str] = []
    place = 0
    for span in spans:
        pieces += (text[place : span.start], span.replacement)
        place = span.end
    return "".join((*pieces, text[place:]))


class HoldBack:
    """Cleans a stream of text chunk by chunk with the result that the whole text would have had."""

    def __init__(
        self, find: Callable[[str], list[Span]], open_from: Callable[[str], int], *, limit: int
    ) -> None:
        """Take what finds finished matches, what finds the start of an unfinished one, and the limit."""
        self._find = find
        self._open_from = open_from
        self._limit = limit
        self._context = ""
        self._held = ""
        self._swallowed = ""

    def feed(self, text: str) -> str:
        """Take a chunk and return what can be let out."""
        if self._swallowed:
            text = self._swallow(text)
        self._held += text
        out = self._release(self._boundary())
        if len(self._held) <= self._limit:
            return out
        # The open match is longer than may be held back: it goes, and so does the rest of it.
        self._swallowed, self._held = self._held, ""
        return out + Span(0, 0).replacement

    def finish(self) -> str:
        """Return what is left once no more text comes."""
        self._swallowed = ""
        out = self._release(len(self._held))
        self._context = ""
        return out

    def _boundary(self) -> int:
        """Find the place up to which nothing can change: before the open match and what it touches."""
        before = len(self._context)
        boundary = max(self._open_from(self._context + self._held) - before, 0)
        for span in reversed(self._spans(self._held)):
            if span.start < boundary < span.end:
                boundary = span.start
        return boundary

    def _release(self, boundary: int) -> str:
        text, self._held = self._held[:boundary], self._held[boundary:]
        out = apply_spans(text, self._spans(text)) if text else ""
        self._context = (self._context + text)[-_CONTEXT:]
        return out

    def _spans(self, text: str) -> list[Span]:
        """Find spans in text that stands behind what was let out, which a match may look at but not touch."""
        before = len(self._context)
        found = self._find(self._context + text)
        return [
            Span(max(span.start - before, 0), span.end - before, span.replacement)
            for span in found
            if span.end > before
        ]

    def _swallow(self, text: str) -> str:
        """Drop the characters that go on with the match which was given up."""
        if self._goes_on(text):
            whole = self._swallowed + text
            # The beginning says what it is, the end how it goes on; what is between may be forgotten.
            fits = len(whole) <= 2 * _REMEMBERED
            self._swallowed = whole if fits else whole[:_REMEMBERED] + whole[-_REMEMBERED:]
            return ""
        # A match that has ended stays ended, so its end can be found by halving.
        end = bisect.bisect_left(range(1, len(text)), 1, key=lambda size: not self._goes_on(text[:size]))
        self._swallowed = ""
        return text[end:]

    def _goes_on(self, text: str) -> bool:
        whole = self._swallowed + text
        return self._open_from(whole) == 0 or any(
            span.start == 0 and span.end == len(whole) for span in self._find(whole)
        )
