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
    work: Callable[[T], object], ordinary: T, *hostile: T, times: float = 20, tries: int = 3
) -> None:
    """Make sure that work on something hostile costs little more than work on something ordinary as large.

    The best of a few tries counts: one may be disturbed, but work that is not linear has no good one.
    """
    dear = [each for each in hostile if _seconds(work, each) > times * LEAST]
    if not dear:  # it would be little whatever ordinary work costs, which need not be measured
        return
    usual = max(min(_seconds(work, ordinary) for _ in range(tries)), LEAST)
    for each in dear:
        is_cheap = any(_seconds(work, each) <= times * usual for _ in range(tries))
        assert is_cheap, f"{each!a:.60} costs more than {times} times {usual:.3f} s"


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
