"""What guards share: what they found, how they say so, and how their options are checked.

A detection names its kind, its place and its score, never the text: that must appear in no log and no trace.
"""

import inspect
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, cast

from recollect.errors import InvalidArgumentError
from recollect.processors.base import RunContext

T = TypeVar("T", bound=str)

_log = logging.getLogger("recollect")


@dataclass(frozen=True, slots=True)
class Detection:
    """Something that a guard found: its kind, where it stands in the text, and how sure the guard is."""

    type: str
    start: int
    end: int
    score: float = 1.0


OnDetection: TypeAlias = Callable[[Sequence[Detection], RunContext], object]
"""What is told of detections; it gets no text."""


def report(
    detections: Sequence[Detection], ctx: RunContext, *, action: str, on_detection: OnDetection | None = None
) -> None:
    """Write what was found into the trace and the log, and tell whoever asked for it."""
    if not detections:
        return
    kinds = ", ".join(sorted({detection.type for detection in detections}))
    ctx.note(f"{action}: {len(detections)} found ({kinds})")
    _log.info("%s %s: %d found (%s)", ctx.processor_id, action, len(detections), kinds)
    if on_detection is not None:
        on_detection(detections, ctx)


def check_callback(on_detection: OnDetection | None) -> OnDetection | None:
    """Return a plain function: findings are told in the middle of a guard's work, where nothing can wait."""
    if on_detection is not None and (
        not callable(cast("object", on_detection)) or inspect.iscoroutinefunction(on_detection)
    ):
        raise InvalidArgumentError(
            "on_detection",
            "must be a plain function of the detections and the context; an async one would never run",
        )
    return on_detection


def check_choice(value: T, argument: str, allowed: Collection[T]) -> T:
    """Return a value that is one of those allowed, or say which those are."""
    if value not in allowed:
        raise InvalidArgumentError(argument, f"must be one of {', '.join(allowed)}, not {value!r:.60}")
    return value


def check_choices(values: Collection[T], argument: str, allowed: Collection[T]) -> tuple[T, ...]:
    """Return several values that are all of those allowed; one text is not a list of them."""
    if isinstance(values, str) or not isinstance(cast("object", values), Collection):
        raise InvalidArgumentError(argument, f"must be a list of {', '.join(allowed)}, not {values!r:.60}")
    return tuple(check_choice(value, argument, allowed) for value in values)


def check_share(value: object, argument: str) -> float:
    """Return a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidArgumentError(argument, f"must be a number from 0 to 1, not {value!r:.60}")
    return float(value)
