"""Parsing a question: its terms, and the people and times that it names.

A name counts only if it is the speaker of some message of the user. Ranking weighs what is found here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING

from recollect.recall.names import Name, find_names
from recollect.recall.stop_words import STOP_WORDS
from recollect.recall.times.phrases import Interval, find_times
from recollect.text.terms import question_terms_of, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

_ASKS_WHEN = re.compile(
    r"\s*(?:when|how long|since when|(?:which|what) (?:date|day|week|month|year|time))\b", re.IGNORECASE
)

_LAST_LATIN = "\u024f"
_MAX_TERMS = 64  # one bit each in the 64-bit mask of a row
_MAX_NAMES = 1_000


@dataclass(frozen=True)
class Question:
    """A question, with the times that it names."""

    text: str
    times: tuple[Interval, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether it has no terms to search for."""
        return not self.text or not terms_of(self.text)

    @property
    def is_beyond_latin(self) -> bool:
        """Whether more than half of its letters are of other scripts than Latin."""
        letters = [character for character in self.text if character.isalpha()]
        return 2 * sum(letter > _LAST_LATIN for letter in letters) > len(letters)

    @property
    def asks_when(self) -> bool:
        """Whether it asks for a time."""
        return _ASKS_WHEN.match(self.text) is not None

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Its distinct terms without stop words; only if it has no others, the stop words."""
        return self.terms_without(())

    def terms_without(self, names: Iterable[Name]) -> tuple[str, ...]:
        """Return its distinct terms without stop words and names."""
        text = _match_words(name.text for name in names).sub(" ", self.text) if names else self.text
        found = question_terms_of(text) or question_terms_of(self.text)
        content = [term for term in found if term not in _stop_terms()]
        return tuple(dict.fromkeys(content or found))[:_MAX_TERMS]

    def find_names(self, speakers: Iterable[str]) -> list[Name]:
        """Return the speakers that it names, in any case, by first name, or with a small misspelling."""
        return find_names(self.text, list(speakers)[:_MAX_NAMES])

    def rephrase_as(self, names: list[Name]) -> str:
        """Return the question as if the people it names asked it themselves.

        The vector of "What does Ann's dog eat?" is close to everything that names Ann. What Ann said about
        her dog is closer to "What does my dog eat?".
        """
        if not names:
            return self.text
        own = _match_words((name.text for name in names), "['\u2019]s").sub("my", self.text)
        return _match_words(name.text for name in names).sub("I", own)


def parse_question(text: str, now: datetime) -> Question:
    """Parse a question; relative times such as "last week" count from `now`."""
    text = text.strip()
    return Question(text, tuple(find_times(text, now)))


def _match_words(words: Iterable[str], ending: str = "(?:['\u2019]s)?") -> re.Pattern[str]:
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))}){ending}(?!\w)")


@cache
def _stop_terms() -> frozenset[str]:
    return frozenset(term for word in STOP_WORDS for term in terms_of(word))
