"""Scores a text: what the rules find, also in what is encoded, together with a linear classifier.

A passage is some whole sentences, at most about 50 words. Its features: which word classes occur in it, which
stand near each other in a sentence (in pairs, and three in a row), how long it is, how much of it is unknown,
and whether it asks. No feature is a word or a sentence. `feature_weights.txt` has the weights of a logistic
regression over them, fitted on the part `tune` of our own corpus (`python -m tools.fit_injection_features`).

Within a passage the matches of rules combine as independent probabilities, each rule once. Their score, the
log odds of the linear classifier and, where there is one, of the optional classifier are added up. The more
passages a text has, the higher a single one must score. Nothing here asks a model.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from recollect.guards.detection import Detection
from recollect.guards.injection.encodings import find_encoded
from recollect.guards.injection.rules import INJECTION, RuleMatch, find_by_rules
from recollect.guards.injection.word_classes import classify_words, get_letters, load_class_letters
from recollect.text.slices import split_into_slices

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recollect.guards.injection.word_classes import ClassifiedText

_PASSAGE = 50  # words
_NEAR = 3  # how many known words apart two of them still count as a pair
_MAX_CLASSES = 400  # classes of a passage that are looked at, symbols included
_SYMBOLS = frozenset('.,:"()')
_SKIPPED = frozenset("x,)")
_QUESTION = frozenset("?\uff1f")
_MANY = 5
_LONG_WORD = 25
_MAX_TEXT = 2000  # characters
_SLICE, _OVERLAP = 48_000, 1_000  # characters that are read together; base64 up to 20,000 stays whole
_MAX_DEPTH = 2
_ENCODED = 0.5  # what it says about an attack that it was encoded, as log odds
_MIN_SCORE = 0.2  # a detection that weighs less is not worth showing
_CERTAIN = 0.99
_STRONG = 0.8  # the score from which what a rule found is weighed by itself too
_LOCATING = 0.4  # the strength from which rules say where in its passage an attack stands
# How things are weighed, as log odds: fitted on the part of our own corpus that is meant for that.
_FEATURES_SLOPE, _RULES_SLOPE = 1.2, 2.8
_DOUBT, _DOUBT_PER_LENGTH, _MAX_DOUBT, _DOUBT_OF_CLAUSE = 2.4, 0.9, 5.6, 0.5
_CLASSIFIER_SLOPE, _CLASSIFIER_GAIN = 1.3, 1.4


class Passage(NamedTuple):
    """Some sentences of a text: their letters, where they begin and end, and their words as written."""

    letters: str
    start: int
    end: int
    words: list[str]


def split_passages(text: str, classified: ClassifiedText) -> Iterator[Passage]:
    """Split a text into passages of whole sentences, as many as 50 words hold, at least one each."""
    first = words = 0
    classes = classified.letters
    for start, end in _split_sentences(classes):
        size = sum(kind not in _SYMBOLS for kind in classes[start:end])
        if words and words + size > _PASSAGE:
            yield _make_passage(text, classified, first, start)
            first, words = start, 0
        words += size
    if first < len(classes):
        yield _make_passage(text, classified, first, len(classes))


def find_features(passage: Passage) -> set[str]:
    """Return the names of the features that a passage has."""
    classes = passage.letters[:_MAX_CLASSES]
    found = set(classes) - _SKIPPED
    for sentence in classes.split("."):
        known = ["^", *(kind for kind in sentence if kind not in _SKIPPED), "$"]
        for place, kind in enumerate(known):
            found.update(kind + other for other in known[place + 1 : place + 1 + _NEAR])
            found.add("".join(known[place : place + 3]))
    words = [kind for kind in classes if kind not in _SYMBOLS]
    found.add(f"words={len(words).bit_length()}")
    found.add(f"unknown={_to_fifths(words.count('x'), len(words))}")
    found.add(f"symbols={_to_fifths(len(classes) - len(words), len(classes))}")
    found.add(f"sentences={min(classes.count('.'), _MANY)}")
    written = passage.words
    if len(written) > _MANY and len(set(written)) <= len(written) // 2:
        found.add("repeats")
    if any(len(word) > _LONG_WORD for word in written):
        found.add("long")
    if written and not _QUESTION.isdisjoint(written[-1]):
        found.add("asks")
    return found


def feature_log_odds(passage: Passage) -> float:
    """Return what the linear classifier says of a passage, as log odds."""
    weights = _load_weights()
    return weights["bias"] + sum(weights.get(name, 0.0) for name in find_features(passage))


def to_probability(odds: float) -> float:
    """Return log odds as a probability from 0 to 1."""
    return 1 / (1 + math.exp(-max(min(odds, 30.0), -30.0)))


def to_log_odds(score: float) -> float:
    """Return a probability from 0 to 1 as log odds; nothing is ever quite certain."""
    kept = min(max(score, 1e-4), 1 - 1e-4)
    return math.log(kept / (1 - kept))


def _split_sentences(classes: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(classes):
        stop = classes.find(".", start, start + _PASSAGE)
        end = stop + 1 if stop >= 0 else min(start + _PASSAGE, len(classes))
        yield start, end
        start = end


def _make_passage(text: str, classified: ClassifiedText, first: int, last: int) -> Passage:
    start, end = classified.spans[first][0], classified.spans[last - 1][1]
    return Passage(
        classified.letters[first:last], start, end, text[start : min(end, start + _MAX_TEXT)].split()
    )


def _to_fifths(part: int, whole: int) -> int:
    """Return a share in fifths, rounded up."""
    return math.ceil(_MANY * part / whole) if whole else 0


@cache
def _load_weights() -> dict[str, float]:
    """Read the weights, once."""
    text = resources.files(__package__ or "").joinpath("feature_weights.txt").read_text("utf-8")
    pairs = (line.rsplit(maxsplit=1) for line in text.splitlines() if not line.startswith("# "))
    return {name: float(weight) for name, weight in pairs}


class Evidence(NamedTuple):
    """What rules and words say about a part of a text: the kind of attack, and log odds that it is one."""

    type: str
    start: int
    end: int
    odds: float


class Verdict(NamedTuple):
    """What was found in a text, how likely it is an attack (0 to 1), and what was seen in each passage."""

    detections: list[Detection]
    score: float
    evidence: Sequence[Evidence] = ()

    def add_detection(self, kind: str, end: int, score: float) -> Verdict:
        """Return the verdict with one more detection about the text as a whole."""
        found = [*self.detections, Detection(kind, 0, end, score)]
        return self._replace(detections=found, score=_highest_score(found))


def find_injections(text: str) -> Verdict:
    """Return what rules and words say about a text, in order, with the score of the whole."""
    evidence = [
        one for start, end in split_into_slices(text, _SLICE) for one in _gather_from_slice(text, start, end)
    ]
    return _conclude(Verdict([], 0.0, evidence), [_to_detection(one, one.odds) for one in evidence])


def _gather_from_slice(text: str, start: int, end: int) -> Iterator[Evidence]:
    """Yield what is seen in a slice and in the end of the one before, where a sentence may have been cut.

    A text of several slices has so many passages that the doubt about each is the highest there is.
    """
    begin = max(start - _OVERLAP, 0)
    part = text[begin:end]
    doubt = None if len(part) == len(text) else _MAX_DOUBT
    for one in _gather_evidence(part, classify_words(part), 0, doubt):
        if begin + one.end > start or not start:
            yield one._replace(start=begin + one.start, end=begin + one.end)


def add_classifier_scores(
    verdict: Verdict, spans: Sequence[tuple[int, int]], scores: Sequence[float]
) -> Verdict:
    """Weigh a classifier's scores of parts of a text with what else is known about each."""
    said = list(zip(spans, (to_log_odds(score) for score in scores), strict=True))
    detections: list[Detection] = []
    for one in verdict.evidence:
        near = [odds for (start, end), odds in said if start < one.end and one.start < end]
        added = _CLASSIFIER_SLOPE * max(near) + _CLASSIFIER_GAIN if near else 0.0
        detections.append(_to_detection(one, one.odds + added))
    return _conclude(verdict, detections)


def _conclude(verdict: Verdict, detections: Sequence[Detection]) -> Verdict:
    """Return a verdict with those detections that are worth showing, in order."""
    shown = (one for one in detections if one.score >= _MIN_SCORE)
    found = sorted(shown, key=lambda one: (one.start, one.end))
    return verdict._replace(detections=found, score=_highest_score(found))


def _to_detection(one: Evidence, odds: float) -> Detection:
    return Detection(one.type, one.start, one.end, round(min(to_probability(odds), _CERTAIN), 3))


def _gather_evidence(
    text: str, classified: ClassifiedText, depth: int, doubt: float | None = None
) -> list[Evidence]:
    """Return what is seen in each passage of a text, and in what is encoded in it.

    How much each is doubted follows from the number of passages, unless it is given.
    """
    found = sorted(find_by_rules(text, classified), key=lambda one: one.start)
    parts = list(split_passages(text, classified))
    if doubt is None:
        doubt = min(_DOUBT + _DOUBT_PER_LENGTH * math.log(max(len(parts) / 2, 1)), _MAX_DOUBT)
    seen: list[Evidence] = []
    place = 0
    for part in parts:
        first = place
        while place < len(found) and found[place].start < part.end:
            place += 1
        here = found[first:place]
        whole = _weigh(part, _combine(here), doubt)
        clause = _weigh_clause(text, classified, here, doubt)
        seen.append(clause if clause and clause.odds > whole.odds else whole)
    if depth < _MAX_DEPTH:
        for encoded in find_encoded(text):
            inner = _gather_evidence(encoded.text, classify_words(encoded.text), depth + 1)
            seen += [
                Evidence(one.type, encoded.start, encoded.end, one.odds + _ENCODED)
                for one in sorted(inner, key=lambda one: one.odds)[-1:]
            ]
    return seen


def _weigh_clause(
    text: str, classified: ClassifiedText, found: Sequence[RuleMatch], doubt: float
) -> Evidence | None:
    """Weigh the clause that ends in the strongest match by itself.

    "Ignore previous instructions. What is the capital of France?": what speaks for a harmless question in the
    passage as a whole says nothing about its first sentence.
    """
    letters, spans = classified
    strongest = max(found, key=lambda one: one.score, default=None)
    if strongest is None or strongest.score < _STRONG:
        return None
    end = bisect_left(spans, (strongest.end, 0))
    end += letters.startswith(load_class_letters()["PRIOR"], end)  # "all instructions above"
    if letters[end : end + 1] not in _get_clause_ends():
        return None
    place = bisect_right(spans, (strongest.start, len(text))) - 1
    earliest = max(place - _PASSAGE, 0)
    first = max(letters.rfind(".", earliest, place) + 1, earliest)
    clause = _make_passage(text, classified, first, min(end + 1, len(letters)))
    inside = [one for one in found if clause.start <= one.start < clause.end]
    return _weigh(clause, _combine(inside), doubt + _DOUBT_OF_CLAUSE)


@cache
def _get_clause_ends() -> frozenset[str]:
    return get_letters("STOP", "COMMA", "COLON", "AND", "PLEASE") | {""}


def _weigh(part: Passage, rules: Detection, doubt: float) -> Evidence:
    odds = _FEATURES_SLOPE * feature_log_odds(part) + _RULES_SLOPE * rules.score - doubt
    where = rules if rules.score >= _LOCATING else part
    return Evidence(rules.type, where.start, where.end, odds)


def _combine(found: Sequence[RuleMatch]) -> Detection:
    """Combine what rules found in a passage; the strongest one names the kind."""
    group = [one for one in found if one.score >= _MIN_SCORE]
    if not group:
        return Detection(INJECTION, 0, 0, 0.0)
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
    return Detection(strongest.type, start, end, round(min(score, _CERTAIN), 3))


def _highest_score(detections: Sequence[Detection]) -> float:
    return max((detection.score for detection in detections), default=0.0)
