"""The optional classifier of moderation: a quadratic form over the vectors of the default embedder.

It says how much a text means what harmful texts mean, whatever its words. Linear weights tell topics apart,
and the same topics occur in news, medicine and fiction; so the score also has the squares of some directions.
The category is that of the highest of seven linear scores. `embedding_weights.txt` has the weights, fitted on
our own texts (`python -m tools.fit_moderation_embedding`).

It is slow beside the rules, so callers run it off the event loop.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from recollect.errors import RecollectError
from recollect.guards.detection import Detection
from recollect.guards.embedded_windows import MAX_WINDOWS, embed_window, read_weights, split_windows
from recollect.guards.injection.scoring import to_probability
from recollect.guards.moderation.rules import CATEGORIES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class _Weights(NamedTuple):
    linear: NDArray[np.float32]
    categories: NDArray[np.float32]
    signs: NDArray[np.float32]
    directions: NDArray[np.float32]


def find_by_classifier(text: str) -> list[Detection]:
    """Return for each window of a text its likeliest category and the score of that, from 0 to 1.

    Of a text with more windows than may be read, those that are read are spread over all of it.
    """
    windows = split_windows(text)
    if len(windows) > MAX_WINDOWS:
        step = (len(windows) - 1) / (MAX_WINDOWS - 1)
        windows = [windows[round(number * step)] for number in range(MAX_WINDOWS)]
    try:
        return [_judge(text[start:end], start, end) for start, end in windows]
    except Exception as error:
        # Whatever a foreign library raises, an unchecked text must not pass.
        raise RecollectError(
            f"the moderation classifier could not run: {type(error).__name__}: {error}"
        ) from error


def _judge(window: str, start: int, end: int) -> Detection:
    weights = _load_weights()
    vector = embed_window(window)
    odds = weights.linear[0] + vector @ weights.linear[1:]
    odds += weights.signs @ (weights.directions @ vector) ** 2
    category = (weights.categories[:, 0] + weights.categories[:, 1:] @ vector).argmax()
    return Detection(CATEGORIES[int(category)], start, end, round(to_probability(float(odds)), 3))


@cache
def _load_weights() -> _Weights:
    import numpy as np

    lines = np.stack(read_weights(__package__ or "", "embedding_weights.txt"))
    directions = lines[1 + len(CATEGORIES) :]
    return _Weights(lines[0], lines[1 : 1 + len(CATEGORIES)], directions[:, 0], directions[:, 1:])
