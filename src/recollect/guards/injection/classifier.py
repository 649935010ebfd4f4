"""The optional classifier: a small language model in the package stackone-defender, run by onnxruntime.

It is loaded with the first text, once for a process, and needs no network. It is slow beside the rules (some
100 ms for 1,000 characters) and native code, so callers run it off the event loop.
"""

from __future__ import annotations

from functools import cache
from importlib import util
from typing import TYPE_CHECKING, Protocol, cast

from recollect.errors import RecollectError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PACKAGES = ("stackone_defender", "onnxruntime", "tokenizers", "numpy")
_TEMPERATURE = 2.41  # the package's own calibration of the model that it carries


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
    """Score texts with the classifier of stackone-defender."""
    try:
        model = _model()
        # Native code takes no lone surrogates.
        return model.classify_batch([text.encode("utf-8", "replace").decode() for text in texts])
    except Exception as error:
        # Whatever a foreign library raises, an unchecked text must not pass.
        raise RecollectError(
            f"the injection classifier could not run: {type(error).__name__}: {error}"
        ) from error


@cache
def _model() -> _Onnx:
    from stackone_defender.classifiers.onnx_classifier import OnnxClassifier

    return cast("_Onnx", OnnxClassifier(temperature_t=_TEMPERATURE))
