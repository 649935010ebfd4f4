"""The vectors of an index: half-precision numbers in chunks, so that growing copies little.

A million vectors of 384 dimensions take 768 MB, and one scan of them multiplies each with the question's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recollect.recall.index.arrays import append, count_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_CHUNK = 1 << 14  # vectors
_BATCH = 256  # of so many vectors at a time the products stay in the processor's cache
_INFINITE = np.int16(0x7C00)  # the exponent of infinity and of what is no number
_SHIFT = 13  # single precision has so many more digits
_SIGN_AND_DIGITS = np.int32(-0x70002000)  # 0x8FFFE000
_SCALE = np.float32(2.0**112)  # the exponents of the two precisions have different zeros


class Vectors:
    """Vectors of one length, by place: the order in which they were appended."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: list[NDArray[np.float16]] = []

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    @property
    def nbytes(self) -> int:
        """The size of its arrays in bytes."""
        return count_bytes(self._chunks)

    def append(self, new: NDArray[np.float16]) -> None:
        """Append vectors; one that is not finite is damaged, and becomes zero."""
        exponents = new.view(np.int16) & _INFINITE
        if exponents.max(initial=0) == _INFINITE:
            new = np.where((exponents == _INFINITE).any(axis=1, keepdims=True), np.float16(0), new)
        while len(new):
            if not self._chunks or len(self._chunks[-1]) == _CHUNK:
                self._chunks.append(np.empty((0, new.shape[1]), np.float16))
            room = _CHUNK - len(self._chunks[-1])
            self._chunks[-1] = append(self._chunks[-1], new[:room], _CHUNK)
            new = new[room:]

    def take(self, places: Sequence[int]) -> NDArray[np.float32]:
        """Return the vectors of a few places."""
        found = [self._chunks[place // _CHUNK][place % _CHUNK] for place in places]
        return np.array(found).astype(np.float32)

    def multiply(self, vector: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Write the product of each with a vector to `out`."""
        for first, chunk in enumerate(self._chunks):
            _multiply(chunk, vector, out[first * _CHUNK : first * _CHUNK + len(chunk)])


def _multiply(vectors: NDArray[np.float16], vector: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Multiply finite vectors in single precision.

    numpy converts half precision number by number, so the bits are moved instead. A half is a sign, 5 bits of
    exponent and 10 digits, a single a sign, 8 bits and 23 digits. Moved by 13 bits a half is its value times
    2**-112 as a single; the other vector is scaled to match, which changes no digit of a product.
    """
    halves, scaled = vectors.view(np.int16), vector * _SCALE
    batch = np.empty((min(_BATCH, len(vectors)), vectors.shape[1]), dtype=np.int32)
    for first in range(0, len(vectors), _BATCH):
        part = halves[first : first + _BATCH]
        bits = batch[: len(part)]
        np.copyto(bits, part)
        np.left_shift(bits, _SHIFT, out=bits)
        np.bitwise_and(bits, _SIGN_AND_DIGITS, out=bits)
        np.dot(bits.view(np.float32), scaled, out=out[first : first + len(part)])
