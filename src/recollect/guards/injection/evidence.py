"""What is made of a whole text: its findings, also in what is encoded, and one score.

A text is judged passage by passage. What rules find in a passage adds up as chances do, each rule once, and
is weighed with how its words lean. What a classifier says of a window is added to that, for or against. The
more passages a text has, the more a single one has to say. Nothing here asks a model.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from recollect.guards.injection.encodings import decoded
from recollect.guards.injection.leaning import chance, leaning, log_odds, passages
from recollect.guards.injection.reading import read
from recollect.guards.injection.rules import INJECTION, Finding, find_by_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recollect.guards.injection.leaning import Passage
    from recollect.guards.injection.reading import Reading

_DEEPEST = 2
_HIDING = 0.5  # what it says about an attack that it was encoded, as log odds
_LEAST = 0.2  # a finding that weighs less is not worth showing
_CERTAIN = 0.99
_TELLING = 0.4  # the strength from which rules say where in its passage an attack stands

# How things are weighed, as log odds: fitted on the part of our own corpus that is meant for that.
_LEANING_SLOPE, _RULES_SLOPE = 1.2, 2.8
_DOUBT, _DOUBT_OF_LENGTH, _MOST_DOUBT = 2.4, 0.9, 5.6
_CLASSIFIER_SLOPE, _CLASSIFIER_GAIN = 1.3, 1.4


class Evidence(NamedTuple):
    """What rules and words say about a stretch of a text: the kind of attack, and log odds that it is one."""

    type: str
    start: int
    end: int
    odds: float


class Verdict(NamedTuple):
    """What was found in a text, how likely it is an attack (0 to 1), and what was seen in each passage."""

    findings: list[Finding]
    score: float
    evidence: Sequence[Evidence] = ()

    def with_finding(self, kind: str, end: int, score: float) -> Verdict:
        """Return the verdict with one more finding about the text as a whole."""
        found = [*self.findings, Finding(kind, 0, end, score)]
        return self._replace(findings=found, score=_highest(found))


def find_injections(text: str) -> Verdict:
    """Return what rules and words say about a text, in order, with the score of the whole."""
    evidence = _evidence(text, read(text), 0)
    return _judged(Verdict([], 0.0, evidence), [_finding(one, one.odds) for one in evidence])


def with_classifier(verdict: Verdict, spans: Sequence[tuple[int, int]], scores: Sequence[float]) -> Verdict:
    """Weigh a classifier's scores of stretches of a text with what else is known about each."""
    said = list(zip(spans, (log_odds(score) for score in scores), strict=True))
    findings: list[Finding] = []
    for one in verdict.evidence:
        near = [odds for (start, end), odds in said if start < one.end and one.start < end]
        added = _CLASSIFIER_SLOPE * max(near) + _CLASSIFIER_GAIN if near else 0.0
        findings.append(_finding(one, one.odds + added))
    return _judged(verdict, findings)


def _judged(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """Return a verdict with those findings that are worth showing, in order."""
    shown = (one for one in findings if one.score >= _LEAST)
    found = sorted(shown, key=lambda one: (one.start, one.end))
    return verdict._replace(findings=found, score=_highest(found))


def _finding(one: Evidence, odds: float) -> Finding:
    return Finding(one.type, one.start, one.end, round(min(chance(odds), _CERTAIN), 3))


def _evidence(text: str, reading: Reading, depth: int) -> list[Evidence]:
    """Return what is seen in each passage of a text, and in what is encoded in it."""
    found = sorted(find_by_rules(text, reading), key=lambda one: one.start)
    parts = list(passages(text, reading))
    doubt = min(_DOUBT + _DOUBT_OF_LENGTH * math.log(max(len(parts) / 2, 1)), _MOST_DOUBT)
    seen: list[Evidence] = []
    place = 0
    for part in parts:
        first = place
        while place < len(found) and found[place].start < part.end:
            place += 1
        seen.append(_weighed(part, _united(found[first:place]), doubt))
    if depth < _DEEPEST:
        for hidden in decoded(text):
            inner = _evidence(hidden.text, read(hidden.text), depth + 1)
            seen += [
                Evidence(one.type, hidden.start, hidden.end, one.odds + _HIDING)
                for one in sorted(inner, key=lambda one: one.odds)[-1:]
            ]
    return seen


def _weighed(part: Passage, rules: Finding, doubt: float) -> Evidence:
    odds = _LEANING_SLOPE * leaning(part) + _RULES_SLOPE * rules.score - doubt
    where = rules if rules.score >= _TELLING else part
    return Evidence(rules.type, where.start, where.end, odds)


def _united(found: Sequence[Finding]) -> Finding:
    """Unite what rules found in a passage; the strongest one names the kind."""
    group = [one for one in found if one.score >= _LEAST]
    if not group:
        return Finding(INJECTION, 0, 0, 0.0)
    strongest = max(group, key=lambda one: one.score)
    score = 0.0
    rules: set[str] = set()
    places: set[int] = set()
    for one in sorted(group, key=lambda one: -one.score):
        # The same words seen by two rules, or one rule seen twice, say no more than once.
        if one.rule not in rules and one.start not in places:
            score = 1 - (1 - score) * (1 - one.score)
        rules.add(one.rule)
        places.add(one.start)
    start, end = min(one.start for one in group), max(one.end for one in group)
    return Finding(strongest.type, start, end, round(min(score, _CERTAIN), 3))


def _highest(findings: Sequence[Finding]) -> float:
    return max((finding.score for finding in findings), default=0.0)
