"""What may not stand in curated memory, which goes into the system prompt: attempts to take over the model.

The rules are those of the prompt injection guard, and some for what only a memory can do. Ordinary sentences,
emoji, and the joiners, marks and breaks that Persian, Indic, Hebrew or Khmer need pass.
"""

import re
from functools import lru_cache

from recollect.backends.curated.standing_orders import find_standing_order
from recollect.guards.injection.evidence import find_injections
from recollect.guards.injection.reading import read
from recollect.guards.injection.rules import find_by_rules
from recollect.text.normalizing import Style, normalised
from recollect.text.unicode import without_invisible

# Notes are full of rules, names of tools and things to do, which lean towards an attack without being one. So
# a doubtful score needs a rule that says why, the stronger the more doubtful it is; a high one needs none.
_NEEDED = ((0.5, 0.7), (0.7, 0.45), (0.95, 0.0))
_PLAIN = Style(confusables=True)
# One mark of direction at a time in Hebrew and Arabic; one break between words of Thai, Lao, Burmese, Khmer.
_RIGHT_TO_LEFT = re.compile("[\u05d0-\u05ea\u0620-\u06ff]")
_DIRECTION_MARK = re.compile("(?<![\u200e\u200f])[\u200e\u200f](?![\u200e\u200f])")
_WITHOUT_SPACES = "\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u109f\u1780-\u17d3"
_WORD_BREAK = re.compile(f"(?<=[{_WITHOUT_SPACES}])\u200b(?=[{_WITHOUT_SPACES}])")
_KEPT = 2048  # texts whose verdict is remembered: every run looks at every entry


@lru_cache(maxsize=_KEPT)
def find_threat(text: str) -> str | None:
    """Say what is wrong with a text, without quoting it, or None."""
    usual = _usual_signs_taken_out(text)
    if without_invisible(usual) != usual:
        return "it has invisible characters, which can hide words"
    plain = normalised(text, _PLAIN)
    for form in dict.fromkeys((text, plain)):
        if kind := _steering(form) or find_standing_order(form):
            return f"it reads like an attempt to steer the model ({kind})"
    return None


def _usual_signs_taken_out(text: str) -> str:
    """Take out what is typed, unseen, in languages that need it: it can hide no words here."""
    marked = _DIRECTION_MARK.sub("", text) if _RIGHT_TO_LEFT.search(text) else text
    return _WORD_BREAK.sub("", marked)


def _steering(text: str) -> str | None:
    """Return the kind of attack that the guard's rules see in a text, or None."""
    verdict = find_injections(text)
    if verdict.score < _NEEDED[0][0]:
        return None
    strongest = max((rule.score for rule in find_by_rules(text, read(text))), default=0.0)
    if not any(verdict.score >= score and strongest >= rule for score, rule in _NEEDED):
        return None
    return max(verdict.findings, key=lambda finding: finding.score).type
