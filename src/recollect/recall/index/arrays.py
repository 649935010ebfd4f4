"""Arrays that grow: appending costs, on average, no copy of what is there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)

_FIRST_CAPACITY = 64
_GROWTH = 1.5


def append(values: NDArray[T], new: NDArray[T], most: int = sys.maxsize) -> NDArray[T]:
    """Return the values followed by new ones; the old array must not be appended to again.

    Room is made for `most` values at most, where more will never come.

    The result is a view of a larger array, its `base`, so that most calls do not copy:
    [1 2 3] of base [1 2 3 . .] and [4] give [1 2 3 4] of the same base.
    """
    if not len(new):
        return values
    length, needed = len(values), len(values) + len(new)
    if length == 0 and new.base is None:
        return new  # usually the first read of all rows, which may be large
    room = values.base
    if room is None or len(room) < needed:
        capacity = max(needed, min(most, max(_FIRST_CAPACITY, int(length * _GROWTH))))
        room = np.empty((capacity, *values.shape[1:]), dtype=values.dtype)
        room[:length] = values
    room[length:needed] = new
    return room[:needed]


def count_bytes(arrays: Iterable[NDArray[Any]]) -> int:
    """Return the size of arrays in bytes, with the room in which they can grow."""
    return sum((array if array.base is None else array.base).nbytes for array in arrays)
