"""What is made of a whole text: its findings, also in what is encoded, and one score.

Findings that stand near each other add up as chances do, each rule once; what stands far apart in a long text
does not. A classifier's suspicion is believed the more, the more the rules see themselves: alone it is wrong
too often about ordinary mail. Nothing here asks a model.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from recollect.guards.injection.encodings import decoded
from recollect.guards.injection.leaning import NEUTRAL, chance, leaning
from recollect.guards.injection.reading import Reading, read
from recollect.guards.injection.rules import INJECTION, Finding, find_by_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

_NEAR = 300  # characters within which findings speak of the same attempt
_DEEPEST = 2
_HIDING = 0.25  # what it says about a text that an attack in it was encoded
_LEAST = 0.2  # a finding that weighs less is not worth showing
_CERTAIN = 0.99
_SHORT = 40  # words up to which the choice of words counts by itself
_LEANING_WEIGHT = 0.57  # at nine of ten chances it reaches one half
_WINDOW = 800  # characters: well within the 256 tokens that the classifier reads
_OVERLAP = 100
_SPACE = re.compile(r"\s")
_SIGNS = re.compile(r"[.,:\"()]+")

# How the three are weighed, as log odds: fitted for few false alarms on our own corpus.
_RULES_SLOPE, _LEANING_SLOPE, _EVIDENCE_SLOPE, _DOUBT = 5.7, 0.93, 1.1, 1.8


class Verdict(NamedTuple):
    """What was found in a text, and how likely it is an attack (0 to 1).

    `rules` is the score by rules alone, `leaning` how the words of a short text lean (log odds).
    """

    findings: list[Finding]
    score: float
    rules: float = 0.0
    leaning: float = NEUTRAL

    def with_finding(self, kind: str, end: int, score: float) -> Verdict:
        """Return the verdict with one more finding about the text as a whole."""
        found = [*self.findings, Finding(kind, 0, end, score)]
        return self._replace(findings=found, score=_highest(found))


def find_injections(text: str) -> Verdict:
    """Return what the rules find in a text, in order, with the score of the whole."""
    reading = read(text)
    classes = reading.classes
    found = _joined(_all(text, reading, 0))
    rules = _highest(found)
    if len(_SIGNS.sub("", classes)) > _SHORT:
        return Verdict(found, rules, rules)
    odds = leaning(classes)
    words = round(_LEANING_WEIGHT * chance(odds), 3)
    if words > max(rules, _LEAST):
        found = [Finding(INJECTION, 0, len(text), words)]
    return Verdict(found, max(rules, words), rules, odds)


def windows(text: str) -> list[tuple[int, int]]:
    """Cut a text into stretches that a classifier can read whole, each with the end of the one before."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        end = min(start + _WINDOW, len(text))
        if end < len(text):
            spaces = [match.start() for match in _SPACE.finditer(text, end - _OVERLAP, end)]
            end = spaces[-1] if spaces else end
        found.append((start, end))
        start = end if end == len(text) else max(end - _OVERLAP, start + 1)
    return found


def with_classifier(text: str, verdict: Verdict, scores: Sequence[float]) -> Verdict:
    """Weigh a classifier's scores of the `windows` of a text with what the rules found in each."""
    found = list(verdict.findings)
    for (start, end), score in zip(windows(text), scores, strict=True):
        inner = find_injections(text[start:end])
        weighed = _weighed(inner, score)
        if weighed > inner.score and weighed >= _LEAST:
            kind = max(inner.findings, key=lambda one: one.score).type if inner.findings else INJECTION
            found.append(Finding(kind, start, end, round(weighed, 3)))
    found.sort(key=lambda one: (one.start, one.end))
    return verdict._replace(findings=found, score=_highest(found))


def _weighed(verdict: Verdict, score: float) -> float:
    kept = min(max(score, 1e-4), 1 - 1e-4)
    evidence = _LEANING_SLOPE * verdict.leaning + _RULES_SLOPE * verdict.rules
    return min(chance(math.log(kept / (1 - kept)) + _EVIDENCE_SLOPE * evidence - _DOUBT), _CERTAIN)


def _all(text: str, reading: Reading, depth: int) -> list[Finding]:
    found = [finding for finding in find_by_rules(text, reading) if finding.score >= _LEAST]
    if depth < _DEEPEST:
        for hidden in decoded(text):
            found += [
                Finding(one.type, hidden.start, hidden.end, _sum(one.score, _HIDING))
                for one in _joined(_all(hidden.text, read(hidden.text), depth + 1))
            ]
    return found


def _joined(findings: list[Finding]) -> list[Finding]:
    """Unite findings that stand near each other; the strongest one names the kind."""
    groups: list[list[Finding]] = []
    for finding in sorted(findings, key=lambda one: (one.start, one.end)):
        if groups and finding.start - groups[-1][0].start <= _NEAR:
            groups[-1].append(finding)
        else:
            groups.append([finding])
    return [_united(group) for group in groups]


def _united(group: list[Finding]) -> Finding:
    strongest = max(group, key=lambda one: one.score)
    score = 0.0
    rules: set[str] = set()
    places: set[int] = set()
    for one in sorted(group, key=lambda one: -one.score):
        # The same words seen by two rules, or one rule seen twice, say no more than once.
        if one.rule not in rules and one.start not in places:
            score = _sum(score, one.score)
        rules.add(one.rule)
        places.add(one.start)
    start, end = min(one.start for one in group), max(one.end for one in group)
    return Finding(strongest.type, start, end, round(min(score, _CERTAIN), 3))


def _highest(findings: Sequence[Finding]) -> float:
    return max((finding.score for finding in findings), default=0.0)


def _sum(left: float, right: float) -> float:
    """Return the chance of either."""
    return 1 - (1 - left) * (1 - right)
