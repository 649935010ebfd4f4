"""Runs of digits and separators, in which the numbers of people, cards and phones are found.

A run is judged as a whole, by every kind of number at once: a part of one number can look like another one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from recollect.guards.detection import Detection
from recollect.guards.pii.kinds import REACH, DataKind

FindInRun: TypeAlias = Callable[[str, int, int], Iterable[Detection]]
"""Finds numbers in a text between two places."""

_RUN = re.compile(r"(?:\+\(?|\(\+?)?(?<!\d)\d(?:[ .\-/()\u00a0\u202f\u2011]{0,3}\d)*")
_MAX_RUN = 60  # of what is judged as a whole; a stream still knows so much of what it released
_MAX_NUMBER = 40
_MIN_SIZE = 7
_RUN_BACKWARDS = re.compile(r"[ .\-/()+\u00a0\u202f\u20110-9]*")
_EXTENSION_OPEN = re.compile(r"(?<=[\d)]) ?(?:#|[eExX][A-Za-z]{0,8}\.?) ?\d{0,6}\Z|(?<=\d)[:_@]\Z")
_LETTER = re.compile(r"[A-Za-z_]")
_CONTINUES = re.compile(r"[:_@]\w|(?![eExX#])[A-Za-z]|[eExX](?!xt|\d| )")
_DIGIT = re.compile(r"[0-9]")


class NumberKind(NamedTuple):
    """A kind of number: what finds it in a run, and in one that is too long to be judged as a whole."""

    name: str
    find: FindInRun
    find_in_long: FindInRun | None = None
    best: float = 1.0


def combine_number_kinds(kinds: Sequence[NumberKind]) -> DataKind:
    """Combine kinds that are found in the same runs into one."""
    return DataKind("number", partial(_find, kinds), _open_from)


def _find(kinds: Sequence[NumberKind], text: str) -> Iterator[Detection]:
    for run in _RUN.finditer(text):
        if run.end() - run.start() >= _MIN_SIZE:
            start, end = _trim_run(text, *run.span())
            # How long a run is must not depend on what comes after it: a stream does not know that yet.
            is_long = run.end() - run.start() > _MAX_RUN
            for kind in kinds if end - start >= _MIN_SIZE else ():
                rule = kind.find_in_long if is_long else kind.find
                if rule:
                    yield from rule(text, start, end)


def _open_from(text: str) -> int:
    """Return where digits at the end of a text begin, or the last of them that still may be a number."""
    if not _DIGIT.search(text[-REACH:]):
        return len(text)
    extension = _EXTENSION_OPEN.search(text, max(0, len(text) - 20))
    end = extension.start() if extension else len(text)
    reach = text[max(0, end - REACH - 1) : end]
    found = _RUN_BACKWARDS.match(reach[::-1])
    size = found.end() if found else 0
    if not _DIGIT.search(reach, len(reach) - size):
        return len(text)
    if size <= _MAX_RUN:
        return end - size
    begin = end - _MAX_NUMBER
    while begin > 0 and text[begin - 1].isdigit():
        begin -= 1
    return max(begin, end - REACH)


def _trim_run(text: str, start: int, end: int) -> tuple[int, int]:
    """Cut off the first and the last word of a run where letters or other marks make them something else."""
    if start and _DIGIT.match(text, start) and _LETTER.match(text, start - 1):
        blank = text.find(" ", start, end)
        start = blank + 1 if blank >= 0 else end
    if _CONTINUES.match(text, end):
        blank = text.rfind(" ", start, end)
        end = blank if blank >= 0 else start
    return start, end
