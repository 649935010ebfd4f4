"""How well the times of messages fit the times that a question names."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from recollect.recall.times.phrases import Interval

_MICROSECONDS = 1_000_000
_DAY = 86_400 * _MICROSECONDS
_WEAK = np.float32(0.5)


def score_times(times: NDArray[np.int64], intervals: Sequence[Interval]) -> NDArray[np.float32]:
    """Return 1 for each time (microseconds since 1970) that lies in an interval, otherwise 0.

    An interval of a vague phrase gives 0.5.
    """
    found = np.zeros(len(times), dtype=np.float32)
    for interval in intervals:
        start, end = interval.start, interval.end
        inside = _is_in_any_year(times, start, end) if interval.any_year else _is_between(times, start, end)
        np.maximum(found, inside * (_WEAK if interval.weak else np.float32(1)), out=found)
    return found


def _is_between(times: NDArray[np.int64], start: datetime, end: datetime) -> NDArray[np.bool_]:
    first, last = (int(edge.timestamp()) * _MICROSECONDS for edge in (start, end))
    return (times >= first) & (times < last)


def _is_in_any_year(times: NDArray[np.int64], start: datetime, end: datetime) -> NDArray[np.bool_]:
    """Compare month and day only; an interval may cross the end of a year."""
    if end - start >= timedelta(days=365):
        return np.ones(len(times), dtype=np.bool_)
    days = (times // _DAY).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    codes = (months.astype(np.int64) % 12 + 1) * 100 + (days - months).astype(np.int64) + 1
    first, last = (edge.month * 100 + edge.day for edge in (start, end))
    if first < last:
        return (codes >= first) & (codes < last)
    return (codes >= first) | (codes < last)
