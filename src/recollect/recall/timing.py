"""How near messages are to the times that a question speaks of."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from recollect.recall.times.phrases import Interval

    Floats = NDArray[np.float32]

_MICROSECONDS = 1_000_000
_DAY = 86_400 * _MICROSECONDS
_NEARBY = timedelta(days=15)
_WEAK = np.float32(0.5)


def in_time(times: NDArray[np.int64], intervals: Sequence[Interval], *, nearby: bool = False) -> Floats:
    """Say for each time (microseconds since 1970) whether it lies in an interval, as 0 or 1.

    A vague phrase counts half. `nearby` widens each interval by two weeks: people speak of a day before it
    comes and after it was.
    """
    found = np.zeros(len(times), dtype=np.float32)
    margin = _NEARBY if nearby else timedelta()
    for interval in intervals:
        start, end = interval.start - margin, interval.end + margin
        inside = _in_any_year(times, start, end) if interval.any_year else _between(times, start, end)
        np.maximum(found, inside * (_WEAK if interval.weak else np.float32(1)), out=found)
    return found


def _between(times: NDArray[np.int64], start: datetime, end: datetime) -> NDArray[np.bool_]:
    first, last = (int(edge.timestamp()) * _MICROSECONDS for edge in (start, end))
    return (times >= first) & (times < last)


def _in_any_year(times: NDArray[np.int64], start: datetime, end: datetime) -> NDArray[np.bool_]:
    """Compare by month and day alone; an interval may reach over the end of a year."""
    if end - start >= timedelta(days=365):
        return np.ones(len(times), dtype=np.bool_)
    days = (times // _DAY).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    codes = (months.astype(np.int64) % 12 + 1) * 100 + (days - months).astype(np.int64) + 1
    first, last = (edge.month * 100 + edge.day for edge in (start, end))
    if first < last:
        return (codes >= first) & (codes < last)
    return (codes >= first) | (codes < last)
