"""The optional classifier: a logistic regression over the vectors of the default embedder.

It says how much a text means what attacks mean, whatever its words. `embedding_weights.txt` has its weights,
fitted on the part `tune` of our own corpus (`python -m tools.fit_injection_embedding`).

It is slow beside the rules, so callers run it off the event loop.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from recollect.errors import RecollectError
from recollect.guards.embedded_windows import embed_window, read_weights
from recollect.guards.injection.scoring import to_probability

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

# The slope as `python -m tools.fit_injection_embedding` prints it, the offset 0.09 lower: fewer false alarms.
_SLOPE, _OFFSET = 0.90, -0.10


class _Weights(NamedTuple):
    bias: float
    vector: NDArray[np.float32]


class Classifier(Protocol):
    """Scores texts from 0 to 1, the higher the more they look like an attack."""

    def __call__(self, texts: Sequence[str]) -> Sequence[float]:
        """Return one score for each text."""
        ...


def classify(texts: Sequence[str]) -> list[float]:
    """Score texts; the embedder runs for some milliseconds for each."""
    try:
        return [to_probability(_SLOPE * embedding_log_odds(text) + _OFFSET) for text in texts]
    except Exception as error:
        # Whatever a foreign library raises, an unchecked text must not pass.
        raise RecollectError(
            f"the injection classifier could not run: {type(error).__name__}: {error}"
        ) from error


def embedding_log_odds(text: str) -> float:
    """Return what the regression says of a text, as log odds; above 0 it is more likely an attack."""
    weights = _load_weights()
    return weights.bias + float(embed_window(text) @ weights.vector)


@cache
def _load_weights() -> _Weights:
    import numpy as np

    numbers = np.concatenate(read_weights(__package__ or "", "embedding_weights.txt"))
    return _Weights(float(numbers[0]), numbers[1:])
