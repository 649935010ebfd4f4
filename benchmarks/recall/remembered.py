"""An embedder that computes each vector once a run, and once for all runs if it is given a file."""

from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recollect.recall.embedding.embedder import CheckedEmbedder, as_embedder


class RememberingEmbedder:
    """Wraps an embedder; texts that come again are looked up."""

    def __init__(self, inner: CheckedEmbedder, path: Path | None = None) -> None:
        self._inner = inner
        self._path = path
        self._known: dict[bytes, NDArray[np.float32]] = {}
        self.model_id = inner.model_id
        self.dimensions = inner.dimensions
        if path is not None and path.exists():
            with np.load(path) as stored:
                self._known = dict(
                    zip((bytes(key) for key in stored["keys"]), stored["vectors"], strict=True)
                )

    @property
    def checked(self) -> CheckedEmbedder:
        """Itself, as recall wants it."""
        return as_embedder(self)

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question, always computed: its time is measured."""
        return await self._inner.embed_query(text)

    async def embed_documents(self, texts: list[str]) -> NDArray[np.float32]:
        """Return one vector for each text."""
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if missing:
            made = await self._inner.embed_documents(list(missing.values()))
            self._known |= dict(zip(missing, made, strict=True))
        return np.stack([self._known[key] for key in keys])

    def save(self) -> None:
        """Write the vectors to the file."""
        if self._path is not None and self._known:
            keys = np.array([list(key) for key in self._known], dtype=np.uint8)
            np.savez(self._path, keys=keys, vectors=np.stack(list(self._known.values())))
