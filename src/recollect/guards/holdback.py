"""How much of a stream may be let out: the text that no later text can change.

A match can be cut anywhere by the chunks of a model. So text is held back from the place where an
unfinished match may begin, and let out once it is clear what it is. What is held back is bounded: a match
that is still open at the limit is replaced, and swallowed to its end, never let out.
"""

import bisect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

REDACTED = "[REDACTED]"
"""What stands in the place of a match where nothing else is said."""

_CONTEXT = 64  # how much of what was let out a match may look back at
_HALF_WORD = re.compile(r"\A[A-Za-z][A-Za-z]?")
_NO_BEGINNING = "_q"
_REMEMBERED = 512  # how much of either end of a swallowed match is remembered
_SWALLOWED_BATCH = 96  # how much of a match that was given up is looked at together: nobody waits for it
_LINE_BREAK = re.compile(r"\n|\\n")  # real, or written out as in JSON


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of text and what to write in its place."""

    start: int
    end: int
    replacement: str = REDACTED


def apply_spans(text: str, spans: list[Span]) -> str:
    """Write the replacements into a text; spans are `ordered`."""
    pieces: list[str] = []
    place = 0
    for span in spans:
        pieces += (text[place : span.start], span.replacement)
        place = span.end
    return "".join((*pieces, text[place:]))


def ordered(spans: Iterable[Span], text: str) -> list[Span]:
    """Put what was found in a text in order, overlapping spans as one with the longest one's replacement.

    What a replacement already holds is not found again, so that cleaning twice is cleaning once.
    """
    result: list[Span] = []
    for span in sorted(spans):
        if _is_replaced(span, text):
            continue
        if result and span.start < result[-1].end:
            result[-1] = _united(result[-1], span)
        else:
            result.append(span)
    return result


def _is_replaced(span: Span, text: str) -> bool:
    """Whether a span lies within its own replacement, which was written there before."""
    size = len(span.replacement)
    place = text.find(span.replacement, max(span.end - size, 0), span.start + size)
    return size > 0 and place >= 0


def _united(left: Span, right: Span) -> Span:
    longest = max(left, right, key=lambda span: span.end - span.start)
    return Span(left.start, max(left.end, right.end), longest.replacement)


class WholeText:
    """Keeps a stream of text back to its end, for a guard that does not say where a match may begin."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        """Take what cleans a whole text."""
        self._clean = clean
        self._held: list[str] = []

    def feed(self, text: str) -> str:
        """Take a chunk; nothing can be let out."""
        self._held.append(text)
        return ""

    def finish(self) -> str:
        """Return the cleaned text once no more comes."""
        text = "".join(self._held)
        self._held.clear()
        return self._clean(text)


class HoldBack:
    """Cleans a stream of text chunk by chunk with the result that the whole text would have had."""

    def __init__(
        self,
        find: Callable[[str], list[Span]],
        open_from: Callable[[str], int],
        *,
        limit: int,
        replacement: Callable[[str], str] = lambda _: REDACTED,
        settle: Callable[[str, int, int], object] = lambda _, __, ___: None,
        find_behind: Callable[[str, int], list[Span]] | None = None,
        quiet_to: Callable[[str, int], int] = lambda _, __: -1,
        batch: int = 1,
    ) -> None:
        """Take what finds finished matches, what finds the start of an unfinished one, and the limit.

        `replacement` says what to write for an open match that is longer than the limit. `settle` is told of
        each stretch of text before it is let out: the text around it, and where in that it begins and ends.
        `find_behind` may leave out what ends before a place. `quiet_to` may say up to where text that is held
        back from a place on holds nothing, so that it need not be looked at; -1 says that it must. Small
        chunks are looked at together, once there are as many characters as a `batch` has.
        """
        self._find = find
        self._open_from = open_from
        self._batch = max(min(batch, limit // 2), 1)
        self._swallowed_batch = max(min(_SWALLOWED_BATCH, limit // 2), self._batch)
        self._limit = limit - self._batch + 1  # with what waits for the others of its batch
        self._replacement = replacement
        self._settle = settle
        self._find_behind = find_behind
        self._quiet_to = quiet_to
        self._waiting: str = ""
        self._context: str = ""
        self._held: str = ""
        self._swallowed = ""
        self._swallowed_from = 0
        self._unsure = 0  # how much at the end of that may not belong to the match
        self._is_behind_match = False  # what was let out last is the end of a match that was swallowed

    def feed(self, text: str) -> str:
        """Take a chunk and return what can be let out."""
        text = self._waiting + text
        if len(text) < (self._swallowed_batch if self._swallowed else self._batch):
            self._waiting = text
            return ""
        self._waiting = ""
        return self._look_at(text)

    def _look_at(self, text: str) -> str:
        if self._swallowed:
            text = self._swallow(text)
        self._held += text
        before = len(self._context)
        whole = self._context + self._held
        quiet = self._quiet_to(whole, before)
        if quiet >= before:
            out, self._held = whole[before:quiet], whole[quiet:]
            self._context = _context_of(whole[:quiet])
            self._is_behind_match = False
        else:
            spans = self._spans(self._held)
            out = self._release(self._boundary(spans), spans)
        if len(self._held) <= self._limit:
            return out
        # The open match is longer than may be held back: it goes, and so does the rest of it.
        whole, self._swallowed_from = self._context + self._held, len(self._context)
        self._settle(whole, self._swallowed_from, len(whole))
        replacement = self._given_up(whole)
        self._held = ""
        self._remember(whole, self._end_of_match(whole))
        return out + replacement

    def finish(self) -> str:
        """Return what is left once no more text comes."""
        text, self._waiting = self._waiting, ""
        out = self._look_at(text) if text else ""
        if self._swallowed:
            self._held = self._rest_of(self._swallowed, 0)
        out += self._release(len(self._held), self._spans(self._held))
        self._context = ""
        return out

    def _boundary(self, spans: list[Span]) -> int:
        """Find the place up to which nothing can change: before the open match and what it touches."""
        before = len(self._context)
        boundary = max(self._open_from(self._context + self._held) - before, 0)
        for span in reversed(spans):
            if span.start < boundary < span.end:
                boundary = span.start
        return boundary

    def _given_up(self, whole: str) -> str:
        """Return what the guard itself would write: as far as it goes, the match may be found already."""
        begun = [span.replacement for span in self._spans(self._held) if span.start == 0]
        return begun[0] if begun else self._replacement(whole)

    def _release(self, boundary: int, spans: list[Span]) -> str:
        """Let out what is before the boundary; `spans` are those of all that is held back.

        They are not looked for again in what is let out: cut off there, it could look like something else.
        """
        if not boundary:
            return ""
        before = len(self._context)
        self._settle(self._context + self._held, before, before + boundary)
        text, self._held = self._held[:boundary], self._held[boundary:]
        self._context = _context_of(self._context + text)
        self._is_behind_match = False
        return apply_spans(text, [span for span in spans if span.end <= boundary])

    def _spans(self, text: str) -> list[Span]:
        """Find spans in text that stands behind what was let out, which a match may look at but not touch."""
        before = len(self._context)
        whole = self._context + text
        found = self._find_behind(whole, before) if self._find_behind else self._find(whole)
        return [
            Span(max(span.start - before, 0), span.end - before, self._written_for(span, before))
            for span in ordered(found, whole)
            if span.end > before
        ]

    def _written_for(self, span: Span, before: int) -> str:
        """Return what to write: nothing for what goes on with a match that was replaced already."""
        return "" if self._is_behind_match and span.start < before else span.replacement

    def _swallow(self, text: str) -> str:
        """Drop what goes on with the match which was given up; return what stands behind its end."""
        whole = self._swallowed + text
        end = self._end_of_match(whole)
        if self._goes_on(whole, end):
            self._remember(whole, end)
            return ""
        if end:
            return self._rest_of(whole, end)
        # A match that has ended stays ended, so where it may have ended can be found by halving.
        known = len(self._swallowed)
        sizes = range(known + 1, len(whole))
        ended = bisect.bisect_left(
            sizes, 1, key=lambda size: not self._goes_on(whole[:size], self._end_of_match(whole[:size]))
        )
        return self._rest_of(whole, known + ended)

    def _remember(self, whole: str, end: int) -> None:
        """Keep what is needed of a match that is swallowed, and that ends at a place so far."""
        self._unsure = len(whole) - end if end else 0
        if len(whole) > 2 * _REMEMBERED:
            whole = _shortened(whole, self._swallowed_from, self._open_from(whole))
        self._swallowed = whole

    def _rest_of(self, whole: str, end: int) -> str:
        """Return what stands behind the end of the match; never what was known to belong to it."""
        end = max(end, len(self._swallowed) - self._unsure)
        self._context, self._is_behind_match = _context_of(whole[:end]), True
        self._swallowed = ""
        return whole[end:]

    def _goes_on(self, whole: str, end: int) -> bool:
        """Whether the match which was given up, or what has begun within it, may go on with later text."""
        return end == len(whole) or self._open_from(whole) < (end or self._swallowed_from + 1)

    def _end_of_match(self, whole: str) -> int:
        """Return where the match which was given up ends so far, or 0 if there is none yet."""
        begin = self._swallowed_from
        return max(
            (span.end for span in ordered(self._find(whole), whole) if span.start <= begin < span.end),
            default=0,
        )


def _context_of(text: str) -> str:
    """Return the end of what was let out.

    Letters with which it begins may stand in the middle of a word, and what is left of that could look like
    another one: so they become something with which nothing begins.
    """
    if len(text) <= _CONTEXT:
        return text
    return _HALF_WORD.sub(_NO_BEGINNING, text[-_CONTEXT:])


def _shortened(text: str, start: int, opened: int) -> str:
    """Forget most of a match: its beginning says what it is, its end how it goes on.

    So does the beginning of what was opened within it. Whole lines are forgotten, if it has lines: two halves
    of them could make one that is not of its kind.
    """
    rest = len(text) - _REMEMBERED
    first, within = _REMEMBERED, ""
    if start < opened < rest:
        first, within = min(opened, _REMEMBERED), text[opened : opened + _CONTEXT]
    lines = [*_LINE_BREAK.finditer(text, start, first)]
    line = _LINE_BREAK.search(text, rest, opened if opened >= rest else len(text))
    return text[: lines[-1].start() if lines else first] + within + text[line.start() if line else rest :]
