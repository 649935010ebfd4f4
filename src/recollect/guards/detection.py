"""`Detection`: what a guard found, and how guards report it.

A detection names its kind, its place and its score, never the text: that must appear in no log and no trace.
"""

import inspect
import logging
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar, cast, overload

from recollect.errors import InvalidArgumentError
from recollect.pipeline.context import RunContext

_log = logging.getLogger("recollect")


class Detection(NamedTuple):
    """Something that a guard found: its kind, where it stands in the text, and how sure the guard is."""

    type: str
    start: int
    end: int
    score: float = 1.0


R = TypeVar("R")


class Rows(Sequence[R]):
    """Many findings, such as detections, in four columns: a kind, two places and a number.

    As objects, those of a long text would be looked at by every full collection of garbage, for which
    everybody waits.
    """

    __slots__ = ("_columns", "_make")

    def __init__(self, make: Callable[[str, int, int, float], R]) -> None:
        """Take the class of the findings."""
        self._make = make
        self._columns = (list[str](), array("q"), array("q"), array("d"))

    def extend(self, rows: Iterable[tuple[str, int, int, float]]) -> None:
        """Append findings."""
        kinds, starts, ends, numbers = self._columns
        for kind, start, end, number in rows:
            kinds.append(kind)
            starts.append(start)
            ends.append(end)
            numbers.append(number)

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> list[R]: ...
    def __getitem__(self, index: int | slice) -> R | list[R]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        kinds, starts, ends, numbers = self._columns
        return self._make(kinds[index], starts[index], ends[index], numbers[index])


OnDetection: TypeAlias = Callable[[Sequence[Detection], RunContext], object]
"""A callback for detections; it gets no text."""


def report_detections(
    detections: Sequence[Detection], ctx: RunContext, *, action: str, on_detection: OnDetection | None = None
) -> None:
    """Write detections into the trace and the log, then call `on_detection` with them."""
    if not detections:
        return
    kinds = ", ".join(list_types(detections))
    ctx.note(f"{action}: {len(detections)} found ({kinds})")
    _log.info("%s %s: %d found (%s)", ctx.processor_id, action, len(detections), kinds)
    if on_detection is not None:
        on_detection(detections, ctx)


def list_types(detections: Sequence[Detection]) -> list[str]:
    """Return each type among detections once, in alphabetical order."""
    return sorted({detection.type for detection in detections})


def check_callback(on_detection: OnDetection | None) -> OnDetection | None:
    """Reject what is not a plain function: guards report in the middle of their work and cannot await."""
    if on_detection is not None and (
        not callable(cast("object", on_detection)) or inspect.iscoroutinefunction(on_detection)
    ):
        raise InvalidArgumentError(
            "on_detection",
            "must be a plain function of the detections and the context; an async one would never run",
        )
    return on_detection
