"""Arrays that grow at their end: the columns of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_FIRST_CAPACITY = 64
_GROWTH = 1.5


class Column:
    """One value, or one row of values, for each thing; adding to it seldom copies what is there."""

    __slots__ = ("_array", "_length")

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        """Begin empty; with a width each thing has a row of so many values."""
        self._length = 0
        self._array: NDArray[Any] = np.empty((0,) if width is None else (0, width), dtype=dtype)

    def __len__(self) -> int:
        """Count the things."""
        return self._length

    @property
    def values(self) -> NDArray[Any]:
        """All values; a view that is valid until the next change."""
        return self._array[: self._length]

    @property
    def nbytes(self) -> int:
        """How much memory it holds."""
        return self._array.nbytes

    def extend(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        if not len(values):
            return  # the first array may be one that cannot be written to
        needed = self._length + len(values)
        if self._length == 0:
            self._array = np.ascontiguousarray(values, dtype=self._array.dtype)
        else:
            if needed > len(self._array):
                self._grow(needed)
            self._array[self._length : needed] = values
        self._length = needed

    def _grow(self, needed: int) -> None:
        capacity = max(needed, _FIRST_CAPACITY, int(len(self._array) * _GROWTH))
        larger = np.empty((capacity, *self._array.shape[1:]), dtype=self._array.dtype)
        larger[: self._length] = self._array[: self._length]
        self._array = larger
