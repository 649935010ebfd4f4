"""A floor for moderation that needs no model: threats, encouragement to self-harm, hate, and the like.

The rules, in `rules.tsv`, look for plain cases: who is to be harmed, and a word that wants it, threatens it
or tells how. They know no meaning, so each also names contexts (`contexts.tsv`) in which the same words are
mostly news, history, law, medicine, support, fiction or a figure of speech. They are a floor, not a judge:
what is meant but not said passes.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import compress
from pathlib import Path
from typing import NamedTuple

from recollect.guards.detection import Detection
from recollect.guards.moderation.prefilter import Needed, find_needed, select_possible
from recollect.text.slices import split_into_slices

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

_FOLDER = Path(__file__).parent
_GAP = r"[^.!?\n]{0,40}?"
_BLANKS = re.compile(r"(?P<behind>\(\?<[!=][^()]*\))|(?P<optional>(?:\[ \]| )\?)| ")
_MACRO = re.compile(r"\{([A-Z]+)\}")
_SENTENCE_END = re.compile(r"[.!?\n]")
_QUOTE = re.compile(r"[\"\u201c\u201d\u00ab\u00bb]")
_COST = 8  # how much longer a character takes than with other guards
_COMPILING = 20_000
_SLICE, _OVERLAP = 16_384, 400  # characters of a long text that are read together
_SENTENCE = 300  # how far around a match its sentence is looked at
_SPEAKER = 60  # how far after a quotation somebody may be named who says it


class _Rule(NamedTuple):
    category: str
    score: float
    contexts: tuple[str, ...]
    pattern: re.Pattern[str]
    others: tuple[re.Pattern[str], ...]
    """What else the sentence must have."""
    needed: Needed


class _Context(NamedTuple):
    name: str
    where: str
    pattern: re.Pattern[str]


def find_by_rules(text: str) -> list[Detection]:
    """Return what the rules find in a text, in order."""
    found = {
        detection
        for start, end in split_into_slices(text, _SLICE)
        for detection in _find_in_slice(text, max(start - _OVERLAP, 0), end)
    }
    return _drop_inner(sorted(found, key=lambda one: (one.start, -one.end, one.type, -one.score)))


def _drop_inner(found: list[Detection]) -> list[Detection]:
    """Leave out what lies within another detection of its category."""
    ends: dict[str, int] = {}
    kept: list[Detection] = []
    for one in found:
        if one.end > ends.get(one.type, -1):
            kept.append(one)
            ends[one.type] = one.end
    return kept


def count_work(text: str) -> int:
    """Return how many characters of text are as much work as this one; compiling the rules is a lot."""
    return _COST * len(text) + (0 if _load_rules.cache_info().currsize else _COMPILING)


def _find_in_slice(text: str, start: int, end: int) -> Iterator[Detection]:
    part = text[start:end].replace("\u2019", "'")
    rules = _load_rules()
    for rule in compress(rules, select_possible(part, [rule.needed for rule in rules])):
        for match in rule.pattern.finditer(part):
            if _is_meant(part, match, rule):
                yield Detection(rule.category, start + match.start(), start + match.end(), rule.score)


def _is_meant(text: str, match: re.Match[str], rule: _Rule) -> bool:
    """Whether a match has all that its rule wants, and no words around it say that it is not meant."""
    places = _split_around(text, match)
    return all(other.search(places["sentence"]) for other in rule.others) and not any(
        context.pattern.search(places[context.where])
        for context in _load_contexts()
        if context.name in rule.contexts
    )


def _split_around(text: str, match: re.Match[str]) -> dict[str, str]:
    """Return the sentence of a match, what of it stands before the match, and the sentences around it.

    To the sentence belongs who says it: "I'll kill you!" he cried.
    """
    begin, stop = max(match.start() - _SENTENCE, 0), match.end() + _SENTENCE
    ends = [end.end() for end in _SENTENCE_END.finditer(text, begin, match.start())]
    first = ends[-1] if ends else begin
    after = _SENTENCE_END.search(text, match.end(), stop)
    last = after.end() if after else min(stop, len(text))
    if _QUOTE.search(text, last, last + 1) or _QUOTE.search(text, first, match.start() + 1):
        last += _SPEAKER
    return {
        "before": text[first : match.start()],
        "sentence": text[first:last],
        "around": text[begin:stop],
    }


@cache
def _load_rules() -> list[_Rule]:
    macros = {"GAP": _GAP}
    rules: list[_Rule] = []
    for fields in _read("rules.tsv"):
        if fields[0].startswith("="):
            macros[fields[0][1:]] = f"(?:{_expand(fields[1], macros)})"
        else:
            category, score, contexts, pattern = fields
            first, *others = (
                re.compile(_expand(part, macros), re.IGNORECASE) for part in pattern.split(" && ")
            )
            excuses = tuple(contexts.split())
            rules.append(_Rule(category, float(score), excuses, first, tuple(others), find_needed(first)))
    return rules


@cache
def _load_contexts() -> list[_Context]:
    return [
        _Context(name, where, re.compile(_space(pattern), re.IGNORECASE))
        for name, where, pattern in _read("contexts.tsv")
    ]


def _read(name: str) -> list[list[str]]:
    lines = (_FOLDER / name).read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def _expand(pattern: str, macros: dict[str, str]) -> str:
    return _MACRO.sub(lambda macro: macros[macro[1]], _space(pattern))


def _space(pattern: str) -> str:
    """Make a blank match one to four of any kind, and one in a look-behind, whose length is fixed.

    More would make a megabyte of blanks cost more than one of anything else.
    """
    return _BLANKS.sub(_space_one, pattern)


def _space_one(match: re.Match[str]) -> str:
    if match["behind"]:
        return match["behind"].replace(" ", r"\s")
    return r"\s{0,4}" if match["optional"] else r"\s{1,4}"
