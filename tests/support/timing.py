"""Timing in tests: processor time, and only that of the work itself."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def untraced() -> Generator[None]:
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


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time that work takes in this thread."""
    with untraced():
        started = time.thread_time()
        work()
        return time.thread_time() - started
