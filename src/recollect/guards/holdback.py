"""How much of a stream may be released: the text that no later text can change.

A match can be cut anywhere by the chunks of a model. So text is held back from the place where an
unfinished match may begin, and released once it is clear what it is. A guard for social security numbers:

    chunk          released                   held back after it
    "My SSN: 12"   "My SSN: "                 "12"
    "3-45-"                                   "123-45-"
    "6789, ok"     "[REDACTED], ok"                              or, had it been "67, ok": "123-45-67, ok"

The last 64 characters that were released stay known, so that a guard may look at the words before a
match. What is held back is bounded: a match that is still open at the limit is given up, and swallowed to its
end, never released. Its replacement is written then, because a hash is one of all of it. A guard for keys of
any length, with a limit of 8:

    chunk          released                   held back after it
    "it is sk-4"   "it is "                   "sk-4"
    "711147111"                                                  the match is open, and longer than the limit
    "471114711"                                                  swallowed: it goes on with the match
    "1, isn't"     "[REDACTED], isn't"                           the match has ended
"""

import bisect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recollect.guards.span_guard import SpanGuard
    from recollect.pipeline.context import RunContext

REDACTED = "[REDACTED]"
"""The default replacement of a match."""

_CONTEXT = 64  # how much of what was released a guard may look back at
_HALF_WORD = re.compile(r"\A[A-Za-z][A-Za-z]?")
_NO_BEGINNING = "_q"
_SWALLOWED_BATCH = 96  # how much of a match that was given up is looked at together: nobody waits for it
_GROWTH = 8  # and it has grown by an eighth before all of it is looked at again


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A segment of text and what to write in its place."""

    start: int
    end: int
    replacement: str = REDACTED


def apply_spans(text: str, spans: list[Span]) -> str:
    """Write the replacements into a text; spans are those of `merge_spans`."""
    segments: list[str] = []
    place = 0
    for span in spans:
        segments += (text[place : span.start], span.replacement)
        place = span.end
    return "".join((*segments, text[place:]))


def merge_spans(spans: Iterable[Span], text: str) -> list[Span]:
    """Put what was found in a text in order, overlapping spans as one with the longest one's replacement.

    What a replacement already holds is not found again, so that cleaning twice is cleaning once.
    """
    result: list[Span] = []
    for span in sorted(spans):
        if _is_replaced(span, text):
            continue
        if result and span.start < result[-1].end:
            result[-1] = _merge(result[-1], span)
        else:
            result.append(span)
    return result


def _is_replaced(span: Span, text: str) -> bool:
    """Whether a span lies within its own replacement, which was written there before."""
    size = len(span.replacement)
    place = text.find(span.replacement, max(span.end - size, 0), span.start + size)
    return size > 0 and place >= 0


def _merge(left: Span, right: Span) -> Span:
    longest = max(left, right, key=lambda span: span.end - span.start)
    return Span(left.start, max(left.end, right.end), longest.replacement)


def shift_spans(spans: Iterable[Span], start: int) -> list[Span]:
    """Return merged spans as places in the text after a start; what stands before it stays as it is."""
    return [
        Span(max(span.start - start, 0), span.end - start, span.replacement)
        for span in spans
        if span.end > start
    ]


class HoldBack:
    """Cleans a stream of text chunk by chunk with the result that the whole text would have had."""

    def __init__(
        self, guard: "SpanGuard", ctx: "RunContext", *, skip_to: Callable[[str, int], int] | None = None
    ) -> None:
        """Take the guard that says what to replace and where an unfinished match may begin.

        `skip_to(text, start)` may say up to where the text after a start obviously holds nothing, so that the
        guard need not be asked; -1 where it must be.
        """
        self._guard = guard
        self._ctx = ctx
        self._skip_to = skip_to
        limit = guard.holdback_limit
        self._batch = max(min(guard.batch, limit // 2), 1)
        self._swallowed_batch = max(min(_SWALLOWED_BATCH, limit // 2), self._batch)
        self._limit = limit - self._batch + 1  # with what waits for the others of its batch
        self._waiting = ""  # what comes before a batch is full
        self._context: str = ""  # the end of what was released
        self._held: str = ""
        self._given_up: list[str] = []  # a match that is longer than the limit, with what stood before it
        self._begin = 0  # where in that it begins
        self._sure = 0  # up to where it is known to go
        self._unread = 0  # how much was not looked at
        self._is_reported = False  # as far as it was found
        self._is_after_match = False  # what was released last is the end of a match that was given up

    @property
    def is_swallowing(self) -> bool:
        """Whether a match that was given up goes on: nothing of it comes out, and nothing waits."""
        return bool(self._given_up)

    def feed(self, text: str) -> str:
        """Take a chunk and return what can be released."""
        if self._given_up:
            return self._swallow(text)
        text = self._waiting + text
        if len(text) < self._batch:
            self._waiting = text
            return ""
        self._waiting = ""
        return self._look(text)

    def _look(self, text: str) -> str:
        """Add a text to what is held back, and return what can be released."""
        self._held += text
        before = len(self._context)
        whole = self._context + self._held
        end = self._skip_to(whole, before) if self._skip_to else -1
        if end >= before:
            out, self._held = whole[before:end], whole[end:]
            self._context = _cut_context(whole[:end])
            self._is_after_match = False
        else:
            spans = self._find_spans()
            out = self._release(self._find_boundary(spans), spans)
        if len(self._held) > self._limit:
            self._give_up()
        return out

    def _give_up(self) -> None:
        """Begin to swallow an open match that is longer than may be held back."""
        whole, self._begin = self._context + self._held, len(self._context)
        end = self._find_match_end(whole)
        self._is_reported = end > 0
        if self._is_reported:
            self._guard.report(whole, self._begin, len(whole), self._ctx)
        self._held = ""
        self._remember(whole, end)

    def _remember(self, whole: str, end: int) -> None:
        """Keep a match that was given up, and that ends at a place so far, or is only open."""
        self._given_up, self._sure, self._unread = [whole], end or len(whole), 0

    def _swallow(self, text: str) -> str:
        """Take what may go on with the match that was given up; return what is released after its end."""
        self._given_up.append(text)
        self._unread += len(text)
        if self._unread < max(self._swallowed_batch, self._sure // _GROWTH):
            return ""
        whole = "".join(self._given_up)
        end = self._find_match_end(whole)
        if self._can_continue(whole, end):
            self._remember(whole, end)
            return ""
        return self._replace_given_up(whole, end or self._find_open_end(whole))

    def _replace_given_up(self, whole: str, end: int) -> str:
        """Write the replacement of the match that was given up, and look at what stands after its end.

        The guard says what to write where it finds a match now. What it never finds was open to its end.
        """
        end = max(end, self._sure)
        self._given_up = []
        if not self._is_reported:
            self._guard.report(whole, self._begin, end, self._ctx)
        spans = self._guard.find_merged(whole, 0, self._ctx)
        found = [span.replacement for span in spans if span.start <= self._begin < span.end]
        self._context, self._is_after_match = _cut_context(whole[:end]), True
        written = found[0] if found else self._guard.replacement_of_open(whole[:end])
        return written + self._look(whole[end:])

    def finish(self) -> str:
        """Return what is left once no more text comes."""
        out = ""
        if self._given_up:
            whole = "".join(self._given_up)
            out = self._replace_given_up(whole, self._find_match_end(whole) or len(whole))
        text, self._waiting = self._waiting, ""
        out += self._look(text) if text else ""
        if self._given_up:
            return out + self.finish()
        out += self._release(len(self._held), self._find_spans())
        self._context = ""
        return out

    def _find_boundary(self, spans: list[Span]) -> int:
        """Find the place up to which nothing can change: before the open match and what it touches."""
        before = len(self._context)
        boundary = max(self._guard.open_from(self._context + self._held) - before, 0)
        for span in reversed(spans):
            if span.start < boundary < span.end:
                boundary = span.start
        return boundary

    def _release(self, boundary: int, spans: list[Span]) -> str:
        """Release what is before the boundary; `spans` are those of all that is held back.

        They are not looked for again in what is released: cut off there, it could look like something else.
        """
        if not boundary:
            return ""
        before = len(self._context)
        self._guard.report(self._context + self._held, before, before + boundary, self._ctx)
        text, self._held = self._held[:boundary], self._held[boundary:]
        self._context = _cut_context(self._context + text)
        self._is_after_match = False
        return apply_spans(text, [span for span in spans if span.end <= boundary])

    def _find_spans(self) -> list[Span]:
        """Find spans in what is held back; a match may look at what was released before, not touch it."""
        before = len(self._context)
        found = self._guard.find_merged(self._context + self._held, before, self._ctx)
        if self._is_after_match:
            # What goes on with a match that was replaced already is not replaced again.
            found = [Span(span.start, span.end, "") if span.start < before else span for span in found]
        return shift_spans(found, before)

    def _find_open_end(self, whole: str) -> int:
        """Return where the match that was given up and is never found ends: where it is no longer open.

        A match that has ended stays ended, so the place can be found by halving.
        """
        sizes = range(self._sure + 1, len(whole))
        ended = bisect.bisect_left(
            sizes,
            1,
            key=lambda size: not self._can_continue(whole[:size], self._find_match_end(whole[:size])),
        )
        return self._sure + ended

    def _can_continue(self, whole: str, end: int) -> bool:
        """Whether the match that was given up, or what has begun within it, may go on with later text."""
        return end == len(whole) or self._guard.open_from(whole) < (end or self._begin + 1)

    def _find_match_end(self, whole: str) -> int:
        """Return where the match that was given up ends so far, or 0 if there is none yet."""
        begin = self._begin
        return max(
            (
                span.end
                for span in self._guard.find_merged(whole, 0, self._ctx)
                if span.start <= begin < span.end
            ),
            default=0,
        )


def _cut_context(text: str) -> str:
    """Return the end of what was released."""
    return text if len(text) <= _CONTEXT else hide_half_word(text[-_CONTEXT:])


def hide_half_word(text: str) -> str:
    """Return a text that was cut off before.

    The cut may fall within a word, and the rest of the word could look like another one. So its first letters
    become `_q`, with which no match begins.
    """
    return _HALF_WORD.sub(_NO_BEGINNING, text)
