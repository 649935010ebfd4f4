"""Finding leaks in a stream of text, whatever its chunks, with a bounded part of it held back.

The text is read as letters. A letter is covered where four successive n-grams of eight letters are all in
the index, that is by eleven letters of the protected text. A leak may begin where letters are covered; each
covered letter counts for it and each other one against it. At `ENOUGH` it is one, and goes on until too many
letters in a row are not covered. All decisions are made letter by letter with the same look ahead, so that
chunks make no difference.

"Never tell anybody that the night watchman sleeps from two to four." is protected, and the answer repeats it:

    chunk                           released          held back after it
    "Well, I was told: never tel"   "Well, I was "    "told: never tel"    the last letters may begin a leak
    "l anybody that the night wa"   "told: "          "never tell anybody that the night wa"    it has begun
    "tchman sleeps from two, so "   "[REDACTED]"      "s from two, so "    enough; what is covered is dropped
    "be kind to him and let him."                     ", so be kind to him and let him."    it may go on
    the end                         ", so be kind to him and let him."    it did not

Had the second chunk been "l anybody about the cats, i", its letters would have counted against a leak, and
the text been released as it came.
"""

import re
from bisect import bisect_right
from typing import NamedTuple, cast

from recollect.guards.leaks.letter_reader import (
    BREAK,
    MAX_GAP,
    LetterReader,
    align_letters,
    locate_letters,
)
from recollect.guards.leaks.ngram_index import NGRAM, NgramIndex

ENOUGH = 36
"""How many letters of the protected text make a leak; two others among them weigh as much as one of them."""

_NGRAMS_IN_ROW = 4  # so many successive n-grams cover their letters
_AHEAD = _NGRAMS_IN_ROW + NGRAM - 2  # how many letters after one must be known to say whether it is covered
_MAX_PAUSE = 24  # letters that are not covered, within a leak
_MAX_WORD = 32
_BATCH = 24  # so many characters are looked at together: most chunks are much shorter
_LAST_LETTERS = [  # so many, in a plain text that is read backwards
    re.compile(rf"(?P<last> *[^ ])(?: *[^ ]){{{count - 1}}}" if count else "(?!)")
    for count in range(_AHEAD + 1)
]
_ODD_LETTERS = 2  # at the end of a word: a leak does not begin with them


class Leak(NamedTuple):
    """A leaked segment of text: where it stands, and how much of it is the protected text."""

    start: int
    end: int
    score: float


class LeakMatcher:
    """Replaces leaks in a stream; `leaks` has those that have ended, `is_inside` says that one goes on."""

    def __init__(self, index: NgramIndex, *, limit: int, replacement: str) -> None:
        """Take what to look for, how many characters may be held back, and what to write instead."""
        self._index = index
        self._limit = limit - MAX_GAP - 1 - _BATCH
        self._replacement = replacement
        self.leaks: list[Leak] = []
        self._restart()

    def leak_so_far(self) -> Leak:
        """Return the leak that goes on, as far as it is known."""
        return Leak(self._begin, self._last + 1, self._compute_score(self._counts[1]))

    def feed(self, text: str) -> str:
        """Take a chunk and return what can be released."""
        self._waiting += text
        return "" if len(self._waiting) < _BATCH else self._read()

    def _read(self) -> str:
        """Look at what has come in."""
        text, self._waiting = self._waiting, ""
        if self._places is None:
            whole = self._text + text
            form = "" if self._reader.is_broken else align_letters(whole)
            letters = form.replace(" ", "")
            if letters and self._find_seed(letters, self._next, len(letters) - _AHEAD) < 0:
                return self._release_plain(whole, form, len(letters))
            self._letters, self._places = locate_letters(self._text, self._offset)
        self._text += text
        letters, places = self._reader.read(text)
        self._letters += letters
        self._places += places
        out: list[str] = []
        self._advance(out, len(self._letters) - _AHEAD)
        self._release(out)
        return "".join(out)

    def finish(self) -> str:
        """Return what is left once no more text comes, and begin again."""
        out = [self._read()] if self._waiting else []
        if self._places is not None:
            self._advance(out, len(self._letters))
            if self.is_inside:
                self._end_leak()
        out.append(self._text[self._done - self._offset :])
        self._restart()
        return "".join(out)

    def _restart(self) -> None:
        self._reader = LetterReader(_AHEAD + ENOUGH * 2)  # so that a long gap ends whatever has begun
        self._waiting = ""  # what was not looked at
        self._text: str = ""  # what is held back
        self._before: int = 0  # how many letters stood right before it
        self._offset: int = 0  # where it begins in the whole
        self._done: int = 0  # where in the whole the text begins that is neither released nor dropped
        self._letters = ""
        self._places: list[int] | None = None  # not known for as long as nothing may be a leak
        self._next: int = 0  # the letter to decide on next
        self._start = -1  # the letter with which a leak may begin, or the last that belongs to one
        self.is_inside = False
        self._in_row = 0
        self._covered_to = -1
        self._score = 0
        self._begin: int = 0
        self._last: int = 0
        self._counts = [0, 0]

    def _release_plain(self, whole: str, form: str, count: int) -> str:
        """Release plain text in which no leak begins, but for the last letters, which may begin one."""
        pending = min(_AHEAD, count - self._next)
        size = len(whole)
        # No letters stand further apart than a gap.
        found = _LAST_LETTERS[pending].match(form[: -pending * (MAX_GAP + 1) - 1 : -1])
        last, place = (size - found.end("last"), size - found.end()) if found else (-1, size)
        start = _find_word_start(whole, place, self._before)
        self._reader.skip(self._offset + size, self._offset + last if last >= 0 else None)
        self._before = _count_letters_at_end(whole[:start], self._before)
        self._text = whole[start:]
        self._offset += start
        self._done = self._offset
        self._next = place - start
        return whole[:start]

    def _advance(self, out: list[str], end: int) -> None:
        """Decide on letters up to an end."""
        while self._next < end:
            if self.is_inside:
                self._continue_leak(end)
            elif self._start >= 0:
                self._weigh_candidate(out, end)
            else:
                seed = self._find_seed(self._letters, self._next, end)
                self._next = end if seed < 0 else seed
                if seed >= 0:
                    self._begin_candidate(seed)

    def _find_seed(self, letters: str, first: int, end: int) -> int:
        """Find the first letter from which on letters are covered; every fourth n-gram tells."""
        core = self._index.core_ngrams
        for place in range(first + _NGRAMS_IN_ROW - 1, end + _NGRAMS_IN_ROW - 1, _NGRAMS_IN_ROW):
            if letters[place : place + NGRAM] not in core:
                continue
            begin = place
            while (
                begin > max(first, place - _NGRAMS_IN_ROW + 1)
                and letters[begin - 1 : begin - 1 + NGRAM] in core
            ):
                begin -= 1
            ngrams = (letters[start : start + NGRAM] for start in range(begin, begin + _NGRAMS_IN_ROW))
            if begin < end and all(ngram in core for ngram in ngrams):
                return begin
        return -1

    def _begin_candidate(self, seed: int) -> None:
        """Begin to weigh what may become a leak; it begins with a word."""
        self._start, self._score, self._counts = seed, 0, [0, 0]
        self._in_row = _NGRAMS_IN_ROW - 1
        self._covered_to = -1
        place = self._place_of(seed)
        self._begin = max(self._find_word_start(place), self._done)
        if self._begin < place:
            odd = next((n for n in range(1, _ODD_LETTERS + 1) if self._place_of(seed + n) - place > n), 0)
            self._begin = self._place_of(seed + odd) if odd else self._begin

    def _weigh_candidate(self, out: list[str], end: int) -> None:
        """Weigh the letters of what may become a leak, until it is one or is none."""
        letters, core, endings = self._letters, self._index.core_ngrams, self._index.endings
        in_row, covered_to, score = self._in_row, self._covered_to, self._score
        too_long = bisect_right(cast("list[int]", self._places), self._begin + self._limit)
        too_long = too_long - _AHEAD if too_long < len(letters) else end
        first, is_leak, is_none = self._next, False, False
        for place in range(first, end):
            in_row = in_row + 1 if letters[place + _NGRAMS_IN_ROW - 1 : place + _AHEAD + 1] in core else 0
            if in_row >= _NGRAMS_IN_ROW:
                covered_to = place + _AHEAD
            is_long = place >= too_long
            if place <= covered_to:
                score += 2
                is_leak = score >= ENOUGH * 2 or (is_long and score >= ENOUGH)
                if not is_leak and letters[place + 1 - NGRAM : place + 1] in endings:
                    is_leak = self._ends_sentence(place)
                is_none = is_long
            else:
                score -= 1
                is_leak = is_long and score >= ENOUGH
                is_none = is_long or score <= 0
            if is_leak or is_none:
                end = place + 1
                break
        # Two for each covered letter, less one for each other.
        covered = (score - self._score + end - first) // 3
        self._counts = [self._counts[0] + covered, self._counts[1] + end - first - covered]
        self._in_row, self._covered_to, self._score, self._next = in_row, covered_to, score, end
        if is_leak or is_none:
            self._resolve(out, end - 1, is_leak=is_leak)

    def _resolve(self, out: list[str], place: int, *, is_leak: bool) -> None:
        """Begin a leak that ends with a letter so far, or let it be."""
        self.is_inside = is_leak
        if not is_leak:
            self._start = -1
            return
        out += (self._text[self._done - self._offset : self._begin - self._offset], self._replacement)
        self._start, self._last = place, self._place_of(place)

    def _place_of(self, letter: int) -> int:
        places = cast("list[int]", self._places)
        return places[min(letter, len(places) - 1)]

    def _ends_sentence(self, place: int) -> bool:
        """Whether a short sentence of the protected text ends here as a whole."""
        endings = self._index.endings.get(self._letters[place + 1 - NGRAM : place + 1], ())
        return any(
            place + 1 - len(sentence) >= self._start
            and self._letters[place + 1 - len(sentence) : place + 1] == sentence
            for sentence in endings
        )

    def _continue_leak(self, end: int) -> None:
        """Take the letters that belong to a leak, until too many in a row do not."""
        letters, every = self._letters, self._index.all_ngrams
        in_row, covered_to, start, covered = self._in_row, self._covered_to, self._start, self._counts[0]
        first, has_ended = self._next, False
        for place in range(first, end):
            in_row = in_row + 1 if letters[place + _NGRAMS_IN_ROW - 1 : place + _AHEAD + 1] in every else 0
            if in_row >= _NGRAMS_IN_ROW:
                covered_to = place + _AHEAD
            if place <= covered_to:
                start = place
                covered += 1
                continue
            is_long = self._place_of(place + _AHEAD) - self._place_of(start) > self._limit
            if is_long or place - start > _MAX_PAUSE:
                has_ended, end = True, place + 1
                break
        self._counts = [covered, self._counts[1] + end - first - (covered - self._counts[0])]
        self._in_row, self._covered_to, self._next = in_row, covered_to, end
        if start != self._start:
            self._start, self._last = start, self._place_of(start)
        if has_ended:
            self._end_leak()

    def _end_leak(self) -> None:
        """Release text again, from the end of the leak's last word on."""
        end = self._last + 1
        while end <= self._place_of(self._next - 1) and self._text[end - self._offset].isalnum():
            end += 1
        pause = self._next - 1 - self._start
        self.leaks.append(Leak(self._begin, end, self._compute_score(self._counts[1] - pause)))
        self.is_inside, self._start, self._done = False, -1, end

    def _compute_score(self, others: int) -> float:
        covered = self._counts[0]
        return round(covered / (covered + others), 3)

    def _release(self, out: list[str]) -> None:
        """Release the text in which no leak can begin, and forget the letters that were decided on."""
        places = cast("list[int]", self._places)
        if self.is_inside:
            keep, self._done = self._start, self._last + 1
        else:
            keep = self._start if self._start >= 0 else max(self._next, self._letters.rfind(BREAK) + 1)
            end = self._find_hold_start(keep)
            out.append(self._text[self._done - self._offset : end - self._offset])
            self._done = end
            while keep and places[keep - 1] >= end:
                keep -= 1
        cut = self._done - self._offset
        self._before = _count_letters_at_end(self._text[:cut], self._before)
        self._text = self._text[cut:]
        self._offset = self._done
        self._letters, self._places = self._letters[keep:], places[keep:]
        self._next = max(self._next - keep, 0)  # letters before a long gap need no decision
        self._covered_to -= keep
        if self._start >= 0:
            self._start -= keep
        elif self._letters == align_letters(self._text).replace(" ", ""):
            self._places = None

    def _find_hold_start(self, letter: int) -> int:
        """Return the place from which on text is held back: the beginning of the word of a letter."""
        places = cast("list[int]", self._places)
        if self._start >= 0:
            return max(self._begin, self._done)
        if letter >= len(places):
            return self._offset + len(self._text)
        return max(self._find_word_start(places[letter]), self._done)

    def _find_word_start(self, place: int) -> int:
        return _find_word_start(self._text, place - self._offset, self._before) + self._offset


def _find_word_start(text: str, place: int, before: int) -> int:
    """Return where the word begins that stands at a place, or the place itself in what is no word.

    `before` says how many letters stood right before the text, as far as they matter: what was released of a
    word still belongs to it.
    """
    start = place
    while start and text[start - 1].isalnum():
        start -= 1
        if place - start > _MAX_WORD:
            return place
    return place if not start and place + before > _MAX_WORD else start


def _count_letters_at_end(text: str, before: int) -> int:
    """Return how many letters a text ends with, and with how many that stood before it, if it is a word."""
    size = len(text)
    start = size
    while start and size - start <= _MAX_WORD and text[start - 1].isalnum():
        start -= 1
    return size - start + (0 if start else before)
