"""Embedders for tests: small ones that know words, and ones that wait, fail, or answer nonsense."""

import asyncio
import zlib

import numpy as np
from numpy.typing import NDArray

from recollect.recall.embedding.minilm import MiniLM


class Words:
    """Embeds a text by its words, so that texts with the same words are near each other."""

    def __init__(self, model_id: str = "words", dimensions: int = 16) -> None:
        """Take the model's name and how long its vectors are."""
        self.model_id = model_id
        self.dimensions = dimensions
        self.asked: list[str] = []
        self.read: list[str] = []

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        self.asked.append(text)
        return self._vector(text)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of some texts."""
        self.read += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.01] * self.dimensions
        for word in text.lower().split():
            vector[zlib.crc32(word.strip(".,?!").encode()) % self.dimensions] += 1.0
        return vector


class Remembering:
    """The built-in embedder, which embeds each text once however often it is asked to."""

    model_id = MiniLM.model_id
    dimensions = MiniLM.dimensions

    def __init__(self) -> None:
        """Begin without any."""
        self._real = MiniLM()
        self._known: dict[str, NDArray[np.float32]] = {}

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question."""
        return (await self.embed_documents([text]))[0]

    async def embed_documents(self, texts: list[str]) -> list[NDArray[np.float32]]:
        """Return the vectors of some texts."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known |= zip(new, await self._real.embed_documents(new), strict=True)
        return [self._known[text] for text in texts]


class Held(Words):
    """Waits before it answers for documents, until it is told to go on."""

    def __init__(self) -> None:
        """Begin held."""
        super().__init__()
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Wait, then answer."""
        self.reached.set()
        await self.go_on.wait()
        return await super().embed_documents(texts)


class Slow(Words):
    """Takes a second for documents, whether or not its caller is still there."""

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Wait, then answer."""
        await asyncio.sleep(1)
        return await super().embed_documents(texts)


class Broken(Words):
    """Raises an error for questions or for documents, for as long as it is broken."""

    def __init__(self, *, questions: bool = False, documents: bool = False) -> None:
        """Say what it fails at."""
        super().__init__()
        self.questions = questions
        self.documents = documents

    async def embed_query(self, text: str) -> list[float]:
        """Fail, or answer."""
        if self.questions:
            raise ConnectionError("no route to the embedder")
        return await super().embed_query(text)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Fail, or answer."""
        if self.documents:
            raise ConnectionError("no route to the embedder")
        return await super().embed_documents(texts)


class Hanging(Words):
    """Never answers a question."""

    async def embed_query(self, text: str) -> list[float]:
        """Wait for ever."""
        self.asked.append(text)
        await asyncio.Event().wait()
        raise AssertionError("nobody ends the waiting")


class Wrong(Words):
    """Answers a question, or documents, with whatever it was given."""

    def __init__(self, *, question: object = None, documents: object = None) -> None:
        """Take the answers; None stands for a right one."""
        super().__init__()
        self._question = question
        self._documents = documents

    async def embed_query(self, text: str) -> list[float]:
        """Answer a question."""
        right = await super().embed_query(text)
        return right if self._question is None else self._question  # pyright: ignore[reportReturnType] - that is the point

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Answer for documents."""
        right = await super().embed_documents(texts)
        return right if self._documents is None else self._documents  # pyright: ignore[reportReturnType] - that is the point
