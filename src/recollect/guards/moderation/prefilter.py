"""Says which rules can match a text at all, by the letters that each of their patterns needs.

Python tries a pattern at every character of a text, and there are many patterns. Most texts have none of the
words that most patterns need: "kill", "murder" … So each pattern is taken apart once. What it needs is a set
of pieces of text of which one must occur; a pattern that needs nothing in particular is always tried.

    (?:kill|murder)(?:ing)? (?:all )?(?:you|them)    needs "kill" or "murder"
"""

import re
from collections.abc import Collection, Iterable
from importlib import import_module
from typing import Any, TypeAlias

# `re` has no public parser. If this one changes, `find_needed` fails, and tests say so.
_parser: Any = import_module("re._parser")

Needed: TypeAlias = frozenset[str]
"""Pieces of text, folded, of which one must occur; empty means that nothing is known."""

_NOTHING: Needed = frozenset()
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def find_needed(pattern: re.Pattern[str]) -> Needed:
    """Return what a text must have for a pattern to match."""
    return _needed_by_sequence(_parser.parse(pattern.pattern, pattern.flags))


def select_possible(text: str, needed: Iterable[Needed]) -> list[bool]:
    """Return for each pattern whether the text has what it needs."""
    folded = text.casefold()
    known: dict[str, bool] = {}
    return [not pieces or _has_any(folded, pieces, known) for pieces in needed]


def _has_any(folded: str, pieces: Needed, known: dict[str, bool]) -> bool:
    for piece in pieces:
        has = known.get(piece)
        if has is None:
            has = known[piece] = piece in folded
        if has:
            return True
    return False


def _needed_by_sequence(items: Iterable[Any]) -> Needed:
    """Return the best of what the parts of a sequence need: the longest pieces, then the fewest."""
    found: list[Needed] = []
    letters = ""
    for kind, value in [*items, ("END", 0)]:
        if str(kind) == "LITERAL":
            letters += chr(value)
            continue
        if letters:
            found.append(frozenset([letters.casefold()]))
            letters = ""
        found.append(_needed_by_part(str(kind), value))
    return max(found, key=_rate, default=_NOTHING)


def _needed_by_part(kind: str, value: Any) -> Needed:  # noqa: ANN401 - a node of the parser's
    if kind == "SUBPATTERN":
        return _needed_by_sequence(value[3])
    if kind == "BRANCH":
        return _unite([_needed_by_sequence(branch) for branch in value[1]])
    if kind in _REPEATS and value[0] > 0:
        return _needed_by_sequence(value[2])
    return _NOTHING


def _unite(branches: Collection[Needed]) -> Needed:
    return frozenset[str]().union(*branches) if all(branches) else _NOTHING


def _rate(needed: Needed) -> tuple[int, int]:
    return (min(map(len, needed)), -len(needed)) if needed else (0, 0)
