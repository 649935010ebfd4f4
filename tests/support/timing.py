"""Timing in tests: processor time, only that of the work itself, and compared with that of other work."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from tests.support.garbage import no_collection

T = TypeVar("T")

LEAST = 0.005
"""Processor seconds that count for ordinary work that takes less: a mere hiccup decides nothing."""


def assert_costs_little_more(
    work: Callable[[T], object], hostile: T, ordinary: T, *, times: float = 20, tries: int = 3
) -> None:
    """Make sure that work on something hostile costs little more than work on something ordinary as large.

    The best of a few tries counts; what is not linear never has a good one.
    """
    work(ordinary)  # what is loaded or made once is no cost of either
    limit = times * max(min(_seconds(work, ordinary) for _ in range(2)), LEAST)
    spent = float("inf")
    for _ in range(tries):
        spent = min(spent, _seconds(work, hostile))
        if spent <= limit:
            return
    raise AssertionError(f"{spent:.3f} seconds, where {times} ordinary ones take {limit:.3f}")


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time that work takes in this thread."""
    with _untraced(), no_collection():
        started = time.thread_time()
        work()
        return time.thread_time() - started


def long_text(unit: str, size: int) -> str:
    """Return something over and over again, as a text of a number of characters."""
    return (unit * (size // len(unit) + 1))[:size]


def _seconds(work: Callable[[T], object], subject: T) -> float:
    return processor_seconds(lambda: work(subject))


@contextmanager
def _untraced() -> Generator[None]:
    """Pause the measuring of coverage.

    It costs something for every call of a Python function and nothing for work in C, and would so judge two
    texts by different measures.
    """
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)
