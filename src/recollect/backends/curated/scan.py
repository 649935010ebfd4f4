"""What may not stand in curated memory, which goes into the system prompt: attempts to take over the model.

The rules are those of the prompt injection guard, and some for what only a memory can do. Ordinary sentences,
emoji, and the joiners that Persian and Indic scripts need pass.
"""

from functools import lru_cache

from recollect.backends.curated.standing_orders import find_standing_order
from recollect.guards.injection.detect import find_injections
from recollect.guards.injection.reading import read
from recollect.guards.injection.rules import find_by_rules
from recollect.guards.text.invisible import without_invisible
from recollect.guards.text.normal import Style, normalised

# Notes are full of rules, names of tools and things to do, which lean towards an attack without being one. So
# a doubtful score needs a rule that says why; a high one does not.
_THRESHOLD, _CERTAIN = 0.5, 0.9
_LEAST_RULE = 0.45
_PLAIN = Style(confusables=True)
_KEPT = 2048  # texts whose verdict is remembered: every run looks at every entry


@lru_cache(maxsize=_KEPT)
def find_threat(text: str) -> str | None:
    """Say what is wrong with a text, without quoting it, or None."""
    if without_invisible(text) != text:
        return "it has invisible characters, which can hide words"
    plain = normalised(text, _PLAIN)
    for form in dict.fromkeys((text, plain)):
        if kind := _steering(form) or find_standing_order(form):
            return f"it reads like an attempt to steer the model ({kind})"
    return None


def _steering(text: str) -> str | None:
    """Return the kind of attack that the guard's rules see in a text, or None."""
    verdict = find_injections(text)
    if verdict.score < _THRESHOLD:
        return None
    if verdict.score < _CERTAIN and not any(
        rule.score >= _LEAST_RULE for rule in find_by_rules(text, read(text))
    ):
        return None
    return max(verdict.findings, key=lambda finding: finding.score).type
