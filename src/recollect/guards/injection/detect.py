"""What the rules make of a whole text: its findings, also in what is encoded, and one score.

Findings that stand near each other add up as chances do, each rule once; what stands far apart in a long text
does not. Nothing here asks a model.
"""

from __future__ import annotations

from typing import NamedTuple

from recollect.guards.injection.encodings import decoded
from recollect.guards.injection.rules import Finding, find_by_rules

_NEAR = 300  # characters within which findings speak of the same attempt
_DEEPEST = 2
_HIDING = 0.25  # what it says about a text that an attack in it was encoded
_LEAST = 0.2  # a finding that weighs less is not worth showing
_CERTAIN = 0.99


class Verdict(NamedTuple):
    """What was found in a text, and how likely it is an attack, from 0 to 1."""

    findings: list[Finding]
    score: float


def find_injections(text: str) -> Verdict:
    """Return the findings in a text in order, those of one place and kind as one, and the score of the whole."""
    found = _all(text, 0)
    joined = _joined(found)
    return Verdict(joined, max((finding.score for finding in joined), default=0.0))


def _all(text: str, depth: int) -> list[Finding]:
    found = [finding for finding in find_by_rules(text) if finding.score >= _LEAST]
    if depth < _DEEPEST:
        for hidden in decoded(text):
            inner = _joined(_all(hidden.text, depth + 1))
            found += [
                Finding(one.type, hidden.start, hidden.end, _sum(one.score, _HIDING))
                for one in inner
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


def _sum(left: float, right: float) -> float:
    """Return the chance of either."""
    return 1 - (1 - left) * (1 - right)
