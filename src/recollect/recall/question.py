"""What a question asks for: its words, the people and the times it names.

Ranking weighs these; here they are only found. A name counts if a message of the user's memory carries it
as its speaker's, so that nothing here does anything where no names are known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING

from recollect.recall.times.phrases import Interval, times_in
from recollect.text.terms import terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

# Words that say how a sentence is built and not what it is about.
_STOP_WORDS = """
    a an the of to in on at for from with by and or but as if than then so not no nor
    is are was were be been being am do does did done doing has have had having
    will would can could should shall may might must
    i you he she it we they me him her us them my your his its our their mine yours hers ours theirs
    this that these those what which who whom whose when where why how
    there here about into over after before during some any all both each more most other such only own
    same too very just also
"""

_ASKS_WHEN = re.compile(
    r"\s*(?:when|how long|since when|(?:which|what) (?:date|day|week|month|year|time))\b", re.IGNORECASE
)

_MOST_TERMS = 64  # as many as there are bits to mark a row with
_MOST_NAMES = 1_000


@dataclass(frozen=True)
class Question:
    """A question, taken apart."""

    text: str
    times: tuple[Interval, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to look for."""
        return not self.text or not terms_of(self.text)

    @property
    def asks_when(self) -> bool:
        """Whether it asks for a time."""
        return _ASKS_WHEN.match(self.text) is not None

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The terms it is about, each once; if it has none but stop words, those."""
        return self.terms_without(())

    def terms_without(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the terms it is about beside the people it names."""
        text = _named(names).sub(" ", self.text) if names else self.text
        found = terms_of(text) or terms_of(self.text)
        telling = [term for term in found if term not in _stop_terms()]
        return tuple(dict.fromkeys(telling or found))[:_MOST_TERMS]

    def names(self, speakers: Iterable[str]) -> list[str]:
        """Return the speakers that it names."""
        # Most names are not in it at all; a pattern for each, made at every search, would cost much more.
        inside = [name for name in list(speakers)[:_MOST_NAMES] if name in self.text]
        return [name for name in inside if _named([name]).search(self.text)]

    def spoken_by(self, names: list[str]) -> str:
        """Return it as if the people it names asked it themselves.

        A vector of "What does Ann's dog eat?" is near to everything that names Ann. What Ann said of her dog
        is nearer to "What does my dog eat?".
        """
        if not names:
            return self.text
        own = _named(names, "['\u2019]s").sub("my", self.text)
        return _named(names).sub("I", own)


def understand(text: str, now: datetime) -> Question:
    """Take a question apart."""
    text = text.strip()
    return Question(text, tuple(times_in(text, now)))


def _named(names: Iterable[str], ending: str = "(?:['\u2019]s)?") -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))}){ending}(?!\w)")


@cache
def _stop_terms() -> frozenset[str]:
    return frozenset(term for word in _STOP_WORDS.split() for term in terms_of(word))
