"""The vectors of an index: their products are those of plain single precision, however they were appended."""

import numpy as np
import pytest
from numpy.typing import NDArray

from recollect.recall.index.vectors import Vectors

DIMENSIONS = 12
CHUNK = 1 << 14


def make_vectors(count: int, seed: int = 1) -> NDArray[np.float16]:
    """Return random vectors, with numbers of every size that a half has."""
    random = np.random.default_rng(seed)
    sizes = 2.0 ** random.integers(-26, 0, (count, DIMENSIONS))
    return (random.standard_normal((count, DIMENSIONS)) * sizes).astype(np.float16)


@pytest.mark.parametrize("step", [1, 7, 5_000, CHUNK, 50_000])
def test_products_are_those_of_single_precision(step: int) -> None:
    """Across chunks and batches every product is that of the converted vector."""
    expected = make_vectors(300 if step == 1 else 2 * CHUNK + 300)
    found, asked = Vectors(), make_vectors(1, seed=2)[0].astype(np.float32)
    for first in range(0, len(expected), step):
        found.append(expected[first : first + step])
    assert len(found) == len(expected)
    products = np.empty(len(found), dtype=np.float32)
    found.multiply(asked, products)
    plain = expected.astype(np.float64) @ asked.astype(np.float64)
    np.testing.assert_allclose(products, plain, rtol=0, atol=1e-6)
    places = [0, len(expected) // 2, len(expected) - 1]
    assert (found.take(places) == expected[places]).all()


def test_every_half_keeps_its_value() -> None:
    """All finite numbers of half precision, the smallest included, are multiplied as they are."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].reshape(-1, 1)
    found, products = Vectors(), np.empty(len(halves), dtype=np.float32)
    found.append(halves)
    found.multiply(np.ones(1, dtype=np.float32), products)
    assert (products == halves[:, 0].astype(np.float32)).all()


def test_vector_that_is_not_finite_counts_as_zero() -> None:
    """A damaged vector is near to no question."""
    vectors = make_vectors(3)
    vectors[0, 3], vectors[2, 0] = np.nan, -np.inf
    found, products = Vectors(), np.empty(3, dtype=np.float32)
    found.append(vectors)
    found.multiply(np.ones(DIMENSIONS, dtype=np.float32), products)
    assert (products == 0).tolist() == [True, False, True]


def test_large_index_has_little_room_to_spare() -> None:
    """A user who is read page by page takes hardly more memory than the vectors have bytes."""
    found, page = Vectors(), make_vectors(5_000)
    for _ in range(40):
        found.append(page)
    assert found.nbytes <= 1.05 * 40 * page.nbytes
