"""What a model sees of curated memory: both files, frozen, without texts that could steer it.

Curated memory goes into the system prompt, so no text in it may try to take over the model.
The rules are those of the prompt injection guard, and some for what only a memory can do. Ordinary
sentences, emoji, and the joiners, marks and breaks that Persian, Indic, Hebrew or Khmer need pass.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from recollect.backends.base import NoteBlock
from recollect.backends.curated.entries import DELIMITER, Target, describe_usage
from recollect.guards.injection.rules import find_by_rules, find_standing_order
from recollect.guards.injection.scoring import find_injections
from recollect.guards.injection.word_classes import classify_words
from recollect.text.normalizing import Style, normalize
from recollect.text.unicode import remove_invisible

# Notes are full of rules, names of tools and things to do, which look a little like an attack. So
# a doubtful score needs a rule that says why, the stronger the more doubtful it is; a high one needs none.
_MIN_SCORES = ((0.5, 0.7), (0.7, 0.45), (0.95, 0.0))
_PLAIN = Style(confusables=True)
# One mark of direction at a time in Hebrew and Arabic; one break between words of Thai, Lao, Burmese, Khmer.
_RIGHT_TO_LEFT = re.compile("[\u05d0-\u05ea\u0620-\u06ff]")
_DIRECTION_MARK = re.compile("(?<![\u200e\u200f])[\u200e\u200f](?![\u200e\u200f])")
_WITHOUT_SPACES = "\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u109f\u1780-\u17d3"
_WORD_BREAK = re.compile(f"(?<=[{_WITHOUT_SPACES}])\u200b(?=[{_WITHOUT_SPACES}])")
_CACHE_SIZE = 2048  # texts whose result is cached: every run scans every entry
_TITLES: dict[Target, str] = {"memory": "MEMORY (your own notes)", "user": "USER (who the user is)"}


def make_block(target: Target, entries: Sequence[str], limit: int) -> NoteBlock:
    """Return the notes of one file, as a model may see them, under a heading that says how full it is."""
    return NoteBlock(
        f"{_TITLES[target]} [{describe_usage(entries, limit)}]", tuple(render_entries(entries, limit))
    )


def make_unreadable_block(target: Target) -> NoteBlock:
    """Return the block for a file that cannot be read."""
    return NoteBlock(
        f"{_TITLES[target]} [cannot be read now; changes are refused until a person has repaired it]"
    )


def render_entries(entries: Sequence[str], limit: int) -> list[str]:
    """Return the entries for the model; one that could steer it is replaced by the reason.

    Entries beyond the limit are only counted, not scanned.
    """
    texts: list[str] = []
    left = limit
    for place, entry in enumerate(entries):
        left -= len(entry)
        if left < 0:
            return [*texts, f"[{len(entries) - place} more do not fit and are not shown]"]
        left -= len(DELIMITER)
        threat = find_threat(entry)
        texts.append(entry if threat is None else f"[blocked: {threat}; a person can remove it]")
    return texts


@lru_cache(maxsize=_CACHE_SIZE)
def find_threat(text: str) -> str | None:
    """Return why a text must not reach the model, without quoting it, or None."""
    usual = _remove_usual_invisible(text)
    if remove_invisible(usual) != usual:
        return "it has invisible characters, which can hide words"
    plain = normalize(text, _PLAIN)
    for form in dict.fromkeys((text, plain)):
        if kind := _find_attack(form) or find_standing_order(form):
            return f"it reads like an attempt to steer the model ({kind})"
    return None


def _remove_usual_invisible(text: str) -> str:
    """Remove the invisible characters that some languages need and that can hide no words."""
    marked = _DIRECTION_MARK.sub("", text) if _RIGHT_TO_LEFT.search(text) else text
    return _WORD_BREAK.sub("", marked)


def _find_attack(text: str) -> str | None:
    """Return the kind of attack that the guard's rules see in a text, or None."""
    verdict = find_injections(text)
    if verdict.score < _MIN_SCORES[0][0]:
        return None
    strongest = max((rule.score for rule in find_by_rules(text, classify_words(text))), default=0.0)
    if not any(verdict.score >= score and strongest >= rule for score, rule in _MIN_SCORES):
        return None
    return max(verdict.detections, key=lambda detection: detection.score).type
