"""How much a text means what attacks mean, whatever its words: a plane through the embedder's vectors.

The side of the plane on which a text lies, and how far off, is read as log odds. That in `meaning.txt` is the
one of a logistic regression over the vectors of the part of our own corpus that is meant for that
(`python -m tests.guards.fit_meaning`). It belongs to one embedder, the default one of recall.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from recollect.recall.embedding.minilm import embed_here

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class _Plane(NamedTuple):
    bias: float
    direction: NDArray[np.float32]


def meaning(text: str) -> float:
    """Return on which side a text lies and how far off, as log odds; runs a model for some milliseconds."""
    plane = _plane()
    return plane.bias + float(embed_here(text) @ plane.direction)


@cache
def _plane() -> _Plane:
    """Read the plane, once."""
    import numpy as np

    text = resources.files(__package__ or "").joinpath("meaning.txt").read_text("utf-8")
    bias, *direction = (float(line) for line in text.splitlines() if not line.startswith("#"))
    return _Plane(bias, np.array(direction, np.float32))
