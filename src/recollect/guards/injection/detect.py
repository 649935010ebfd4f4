"""What is made of a whole text: its findings, also in what is encoded, and one score.

A text is judged passage by passage. What rules find in a passage adds up as chances do, each rule once, and is
weighed with how its words lean. A classifier's suspicion of a window is added to that: alone it is wrong too
often about ordinary mail. The more passages a text has, the more a single one has to say. Nothing here asks a
model.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from recollect.guards.injection.encodings import decoded
from recollect.guards.injection.leaning import chance, leaning, passages
from recollect.guards.injection.reading import read
from recollect.guards.injection.rules import INJECTION, Finding, find_by_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEEPEST = 2
_HIDING_ODDS = 0.5  # what it says about an attack that it was encoded
_LEAST = 0.2  # a finding that weighs less is not worth showing
_CERTAIN = 0.99
_TELLING = 0.4  # the strength from which rules say where in its passage an attack stands

# How things are weighed, as log odds: fitted on the part of our own corpus that is meant for that.
_LEANING_SLOPE, _RULES_SLOPE, _DOUBT, _LENGTH_DOUBT = 1.05, 2.8, 1.7, 0.9
_CLASSIFIER_SLOPE, _CLASSIFIER_GAIN = 0.36, 0.95
_MOST_DOUBT = 5.0


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
    evidence: list[Evidence] = []  # noqa: RUF012 - never changed

    def with_finding(self, kind: str, end: int, score: float) -> Verdict:
        """Return the verdict with one more finding about the text as a whole."""
        return self._replace(findings=(found := [*self.findings, Finding(kind, 0, end, score)]), score=_highest(found))


def find_injections(text: str) -> Verdict:
    """Return what rules and words say about a text, in order, with the score of the whole."""
    evidence = _evidence(text, 0)
    return _verdict([_finding(one, one.odds) for one in evidence], evidence)


def with_classifier(
    verdict: Verdict, spans: Sequence[tuple[int, int]], scores: Sequence[float]
) -> Verdict:
    """Weigh a classifier's scores of stretches of a text with what else is known about each."""
    found = [
        _finding(one, one.odds)
        for one in verdict.evidence
        if not any(start < one.end and one.start < end for start, end in spans)
    ]
    for (start, end), score in zip(spans, scores, strict=True):
        kept = min(max(score, 1e-4), 1 - 1e-4)
        added = _CLASSIFIER_SLOPE * math.log(kept / (1 - kept)) + _CLASSIFIER_GAIN
        within = [one for one in verdict.evidence if start < one.end and one.start < end]
        found += [_finding(one, one.odds + added) for one in within]
    return _verdict(found, verdict.evidence)


def _verdict(findings: list[Finding], evidence: list[Evidence]) -> Verdict:
    best: dict[tuple[int, int], Finding] = {}
    for one in findings:
        known = best.get((one.start, one.end))
        if one.score >= _LEAST and (known is None or known.score < one.score):
            best[one.start, one.end] = one
    found = [best[place] for place in sorted(best)]
    return Verdict(found, _highest(found), evidence)


def _finding(one: Evidence, odds: float) -> Finding:
    return Finding(one.type, one.start, one.end, round(min(chance(odds), _CERTAIN), 3))


def _evidence(text: str, depth: int) -> list[Evidence]:
    """Return what is seen in each passage of a text, and in what is encoded in it."""
    reading = read(text)
    found = sorted(find_by_rules(text, reading), key=lambda one: one.start)
    parts = list(passages(text, reading))
    doubt = min(_DOUBT + _LENGTH_DOUBT * math.log(max(len(parts) / 2, 1)), _MOST_DOUBT)
    seen: list[Evidence] = []
    place = 0
    for part in parts:
        first = place
        while place < len(found) and found[place].start < part.end:
            place += 1
        rules = _united([one for one in found[first:place] if one.score >= _LEAST])
        odds = _LEANING_SLOPE * leaning(part) + _RULES_SLOPE * rules.score - doubt
        if rules.score >= _TELLING:
            seen.append(Evidence(rules.type, rules.start, rules.end, odds))
        else:
            seen.append(Evidence(rules.type, part.start, part.end, odds))
    if depth < _DEEPEST:
        for hidden in decoded(text):
            inner = max(_evidence(hidden.text, depth + 1), key=lambda one: one.odds, default=None)
            if inner is not None:
                seen.append(Evidence(inner.type, hidden.start, hidden.end, inner.odds + _HIDING_ODDS))
    return seen


def _united(group: Sequence[Finding]) -> Finding:
    """Unite findings; the strongest one names the kind."""
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
