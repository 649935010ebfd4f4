"""A floor for moderation that needs no model: threats, encouragement to self-harm, hate, and the like.

The rules, in `rules.tsv`, look for plain cases in six languages and know no context. They are a floor, not a
judge: what is meant but not said passes, and a quotation of it does not.
"""

import re
from functools import cache
from pathlib import Path

from recollect.guards.detection import Detection

CATEGORIES = (
    "harassment",
    "hate",
    "illicit",
    "self-harm",
    "sexual",
    "sexual/minors",
    "violence",
)
"""What a text can be judged for."""

_RULES = Path(__file__).with_name("rules.tsv")
_GROUP = (
    "(?:jews|muslims|christians|blacks|whites|gays|lesbians|immigrants|refugees|foreigners|women|asians"
    "|juden|muslime|ausl[aä]nder|fl[uü]chtlinge|juifs|musulmans|immigr[eé]s|jud[ií]os|musulmanes|inmigrantes"
    "|ebrei|musulmani|immigrati|judeus|mu[cç]ulmanos|imigrantes)"
)
_GAP = r"[^.!?\n]{0,40}?"
_BLANK = r"\s{1,4}"  # bounded, so that a megabyte of blanks costs no more than of anything else


def find_by_rules(text: str) -> list[Detection]:
    """Return what the rules find in a text, in order."""
    found = [
        Detection(category, *match.span(), score)
        for category, score, rule in _load_rules()
        for match in rule.finditer(text)
    ]
    return sorted(found, key=lambda detection: detection.start)


@cache
def _load_rules() -> list[tuple[str, float, re.Pattern[str]]]:
    lines = _RULES.read_text("utf-8").splitlines()
    fields = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(category, float(score), _compile(rule)) for category, score, rule in fields]


def _compile(rule: str) -> re.Pattern[str]:
    spaced = rule.replace("[ ]?", r"\s{0,4}").replace(" ", _BLANK)
    return re.compile(spaced.replace("{GROUP}", _GROUP).replace("{GAP}", _GAP), re.IGNORECASE)
