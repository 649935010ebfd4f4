"""What may not stand in curated memory, which goes into the system prompt: attempts to take over the model.

The rules are those of the prompt injection guard. Ordinary sentences, emoji, and the joiners that Persian and
Indic scripts need pass.
"""

from functools import lru_cache

from recollect.guards.injection.detect import find_injections
from recollect.guards.text.invisible import without_invisible
from recollect.guards.text.normal import Style, normalised

_THRESHOLD = 0.5
_PLAIN = Style(confusables=True)
_KEPT = 2048  # texts whose verdict is remembered: every run looks at every entry


@lru_cache(maxsize=_KEPT)
def find_threat(text: str) -> str | None:
    """Say what is wrong with a text, without quoting it, or None."""
    if without_invisible(text) != text:
        return "it has invisible characters, which can hide words"
    verdicts = [find_injections(text)]
    plain = normalised(text, _PLAIN)
    if plain != text:
        verdicts.append(find_injections(plain))
    worst = max(verdicts, key=lambda verdict: verdict.score)
    if worst.score < _THRESHOLD:
        return None
    kind = max(worst.findings, key=lambda finding: finding.score).type if worst.findings else "injection"
    return f"it reads like an attempt to steer the model ({kind})"
