"""Which speakers a question names: in any case, by the first name alone, or with a small misspelling.

Of the speakers "Fahim Khan" and "Will", "what did fahim say?" names the first, "Faheem's sister" too, and
"will it rain?" nobody.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_MIN_MISSPELT = 4  # letters; shorter words are too often other words
_MAX_MISSPELT = 16  # comparing two words takes the product of their lengths
_LONG = 6  # letters; a word of so many may have two mistakes
_MAX_COMPARED = 4_000  # pairs of a word and a name; more take too long, and a text of so many asks for nobody

# Names that are common words too count only with a capital letter.
_COMMON_NAMES = """
    april art assistant august autumn bill chase daisy dawn dean drew earl eve faith frank grace
    hope hunter iris ivy jack joy june lance lily mark mason may miles pat penny ray rich rob rose
    skip stone sue summer user victor will
"""
_COMMON_WORDS = frozenset(_COMMON_NAMES.split())


class Name(NamedTuple):
    """A name as a question has it, and the speaker whom it means."""

    text: str
    speaker: str


def find_names(text: str, speakers: Sequence[str]) -> list[Name]:
    """Return the speakers that a text names; a misspelling counts only where no name fits exactly."""
    if not speakers:
        return []
    found = [name for speaker in speakers for name in _find_exact(text, speaker)]
    firsts = _map_first_names(speakers)
    is_lower = text == text.lower()
    for match in _WORD.finditer(text):
        word = match[0]
        speaker = firsts.get(word.casefold())
        if speaker is not None and _counts(word) and not any(word in name.text for name in found):
            found.append(Name(word, speaker))
    if not found:
        words = {match[0]: None for match in _WORD.finditer(text) if is_lower or match[0][0].isupper()}
        if len(words) * len(firsts) <= _MAX_COMPARED:
            found = [Name(word, speaker) for word in words if (speaker := _find_similar(word, firsts))]
    return list(dict.fromkeys(found))


def _find_exact(text: str, speaker: str) -> Iterator[Name]:
    if speaker.casefold() not in text.casefold():
        return
    for match in re.finditer(rf"\b{re.escape(speaker)}(?!\w)", text, re.IGNORECASE):
        if _counts(match[0]):
            yield Name(match[0], speaker)


def _counts(word: str) -> bool:
    return word[:1].isupper() or word.casefold() not in _COMMON_WORDS


def _map_first_names(speakers: Sequence[str]) -> dict[str, str]:
    """Return the speakers by their first names; those of two speakers mean neither."""
    found: dict[str, str] = {}
    for speaker in speakers:
        first = speaker.split()[0].casefold() if speaker.split() else ""
        found[first] = "" if first in found else speaker
    return {first: speaker for first, speaker in found.items() if first and speaker}


def _find_similar(word: str, firsts: dict[str, str]) -> str | None:
    folded = word.casefold()
    if not _MIN_MISSPELT <= len(folded) <= _MAX_MISSPELT or folded in _COMMON_WORDS:
        return None
    allowed = 2 if len(folded) >= _LONG else 1
    close = {
        speaker
        for first, speaker in firsts.items()
        if first[0] == folded[0]
        and len(first) >= _MIN_MISSPELT
        and abs(len(first) - len(folded)) <= allowed
        and _measure_distance(folded, first) <= allowed
    }
    return close.pop() if len(close) == 1 else None


def _measure_distance(one: str, other: str) -> int:
    """Return how many letters must be inserted, removed or replaced to turn one word into another."""
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        above, row = row, [place]
        for column, wanted in enumerate(other, 1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (letter != wanted)))
    return row[-1]
