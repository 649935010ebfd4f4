"""Rules that find prompt injections in a text read as word classes.

A rule in `rules.txt` is a pattern over the letters of `lexicon.txt`, a kind of attack and a weight.
No rule is a sentence: each says what must come together, such as an order to dismiss, something earlier, and
a word for instructions. What is only reported, asked in general or meant for something else weighs less. All
gaps in patterns are bounded, so that a hostile text costs no more than its length.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Callable

    from recollect.guards.injection.reading import Reading

AttackType: TypeAlias = Literal[
    "injection", "jailbreak", "tool-exfiltration", "data-exfiltration", "system-override", "role-manipulation"
]
"""A kind of attack."""

TYPES: tuple[AttackType, ...] = get_args(AttackType)
"""All kinds of attack."""

INJECTION = TYPES[0]
"""The kind of an attack of which no more is known."""

# Where an order may begin: at the start, behind a sign or small words, or as what "you must" or "can you" do.
_ORDER = (
    r"(?:(?<![^.,:;\"(&pjF)])|(?<=[yz]k)|(?<=[yz]kp)|(?<=ky)|(?<=kyp)|(?<=yt)|(?<=yxt)|(?<=y&)|(?<=jk)"
    r"|(?<=&k))"
)
_ORDERED = re.compile(r"@(\[[^\]]+\]|\w)(?![?{])")
# What may stand behind a noun that is not the first half of another, as in "the password policy".
_LAST = r"(?=[.,:)\"&pbvyn]|\Z)"

_REPORTED, _REPORTED_TO_YOU, _EXPLAINED, _PROGRAMMED, _TOLD_BEFORE = 0.35, 0.6, 0.5, 0.6, 0.8
_SENTENCE = 40  # how far around a match its sentence is looked at


class Rule(NamedTuple):
    """A pattern, the kind of attack it speaks for, and how strongly."""

    type: str
    weight: float
    pattern: re.Pattern[str]
    firm: bool
    """Whether it counts in full also where things are explained or asked about."""


class Finding(NamedTuple):
    """What a rule found: the kind of attack, where it stands, how strongly it speaks, and the rule."""

    type: str
    start: int
    end: int
    score: float
    rule: str = ""


def find_by_rules(text: str, reading: Reading) -> list[Finding]:
    """Return what the rules see in a text as it stands, without decoding anything."""
    words, forms = _rules()
    found = [
        Finding(rule.type, *match.span(), rule.weight, rule.pattern.pattern)
        for rule in forms
        for match in rule.pattern.finditer(text)
    ]
    for rule in words:
        found += _found(rule, reading)
    return found


def _found(rule: Rule, reading: Reading) -> list[Finding]:
    findings: list[Finding] = []
    for match in rule.pattern.finditer(reading.classes):
        start, end = match.span()
        weight = rule.weight if rule.firm else rule.weight * _credit(reading.classes, start, end)
        first, last = reading.places[start][0], reading.places[end - 1][1]
        findings.append(Finding(rule.type, first, last, weight, rule.pattern.pattern))
    return findings


def _credit(classes: str, start: int, end: int) -> float:
    """Return how much of a rule's weight counts, from what else its sentence says."""
    earliest = max(start - _SENTENCE, 0)
    before = classes[max(classes.rfind(".", earliest, start) + 1, earliest) : start]
    stop = classes.find(".", end, end + _SENTENCE)
    behind = classes[end : stop if stop >= 0 else end + _SENTENCE]
    match = classes[start:end]
    credit = 1.0
    if any(kind in before for kind in "hlr"):
        credit *= _REPORTED_TO_YOU if "y" in match or "Y" in match else _REPORTED
    if "l" in behind or "l" in match:
        credit *= _EXPLAINED
    if "s" in before:
        credit *= _PROGRAMMED
    if "l" in classes[max(start - 2 * _SENTENCE, 0) : start]:
        credit *= _TOLD_BEFORE
    return credit


@cache
def _rules() -> tuple[list[Rule], list[Rule]]:
    """Read the rules, once: those over word classes, and those over the text itself."""
    text = resources.files(__package__ or "").joinpath("rules.txt").read_text("utf-8")
    _, words, forms = re.split(r"\n\[(?:words|text)\]\n", text)
    return _read(words, _over_classes), _read(forms, _over_text)


def _read(lines: str, compiled: Callable[[str], re.Pattern[str]]) -> list[Rule]:
    """Read the rules of a section; a line that begins with | adds another pattern to the rule before it."""
    found: list[tuple[str, str, list[str]]] = []
    for line in lines.splitlines():
        if line.startswith("|"):
            found[-1][2].append(line[1:].strip())
        elif line and not line.startswith("#"):
            kind, weight, pattern = line.split(maxsplit=2)
            found.append((kind, weight, [pattern]))
    return [
        Rule(kind, float(weight.rstrip("!")), compiled("|".join(patterns)), weight.endswith("!"))
        for kind, weight, patterns in found
    ]


def _over_classes(pattern: str) -> re.Pattern[str]:
    # What is cheap to see, the word itself, is looked at before the place it stands in.
    spelled = _ORDERED.sub(r"(?=\1)@\1", pattern.replace(" ", ""))
    return re.compile(spelled.replace("@", _ORDER).replace("%", _LAST))


def _over_text(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
