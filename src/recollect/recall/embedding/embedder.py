"""What an embedder is, and the one inner interface that recall uses for all of them.

`as_embedder` takes our own MiniLM, any object of the `Embedder` protocol, or a Pydantic AI `Embedder`, known
by its shape because only the agent imports that library. Whatever comes back from it is checked: a
vector that cannot be compared is an error here, not a strange ranking later. When to embed, and what to do
without vectors, is left to others.
"""

from __future__ import annotations

import inspect
import warnings
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from recollect.concurrency.threads import ThreadPool
from recollect.errors import (
    EmbedderError,
    InvalidArgumentError,
    MissingExtraError,
    RecollectError,
)
from recollect.scope import UNSET
from recollect.validation import check_id, check_int

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Embedder", "Embedding", "as_embedder", "chosen_embedder", "default_embedder"]

Vector: TypeAlias = "Sequence[float] | NDArray[np.floating]"
Vectors: TypeAlias = "Sequence[Vector] | NDArray[np.floating]"

_MAX_DIMENSIONS = 65_536
_MAX_CALLS = 4  # calls of a synchronous embedder at once; one that hangs may not take a thread each time
_ADVICE = (
    "pass an object with embed_query, embed_documents, model_id and dimensions, "
    "or a Pydantic AI Embedder such as pydantic_ai.Embedder('openai:text-embedding-3-small')"
)


class Embedder(Protocol):
    """What `embedder=` takes; both methods may be synchronous, and then run in a thread."""

    @property
    def model_id(self) -> str:
        """The name of the model, stored beside every vector; another name means other vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        ...

    def embed_query(self, text: str) -> Vector | Awaitable[Vector]:
        """Return the vector of a question."""
        ...

    def embed_documents(self, texts: list[str]) -> Vectors | Awaitable[Vectors]:
        """Return one vector for each text, in the same order."""
        ...


class Embedding:
    """Any embedder behind one async interface; its vectors are float32, of length 1 and checked."""

    def __init__(
        self,
        embed_query: Callable[[str], object],
        embed_documents: Callable[[list[str]], object],
        model_id: str,
        dimensions: int | None,
    ) -> None:
        self._embed_query = embed_query
        self._embed_documents = embed_documents
        self._model_id = model_id
        self._dimensions = dimensions
        self._threads = ThreadPool(_MAX_CALLS, "recollect-embedder")

    @property
    def model_id(self) -> str:
        """The name of the model."""
        return self._model_id

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector has; None until the first call where the embedder does not say."""
        return self._dimensions

    async def measure(self) -> int:
        """Return the dimensions; embeds one word to learn them where the embedder does not say."""
        return self._dimensions or len(await self.query("dimensions"))

    async def query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question, of shape (dimensions,)."""
        result = await self._call(self._embed_query, text)
        single = result if _is_result(result) else [result]
        return self._checked(single, 1)[0]

    async def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, of shape (texts, dimensions)."""
        if not texts:
            import numpy as np

            return np.empty((0, self._dimensions or 0), np.float32)
        return self._checked(await self._call(self._embed_documents, list(texts)), len(texts))

    async def _call(self, method: Callable[..., object], argument: object) -> object:
        try:
            if inspect.iscoroutinefunction(method):
                return await method(argument)
            result = await self._threads.run(partial(method, argument))
            # A plain function may hand back a coroutine; it belongs on the loop.
            return await cast("Awaitable[object]", result) if inspect.isawaitable(result) else result
        except RecollectError:
            raise
        except Exception as error:
            raise self._fault(f"failed with {type(error).__name__}: {_short(error)}") from error

    def _checked(self, result: object, count: int) -> NDArray[np.float32]:
        """Return the vectors scaled to length 1, or say what is wrong with them."""
        vectors = self._numbers(cast("_Result", result).embeddings if _is_result(result) else result)
        import numpy as np

        if vectors.ndim != 2 or not vectors.shape[1]:  # noqa: PLR2004 - rows and columns
            raise self._fault(
                f"gave an array of shape {vectors.shape}, not one list of numbers for each text"
            )
        if len(vectors) != count:
            raise self._fault(f"gave {len(vectors)} vectors for {count} texts")
        if not np.isfinite(vectors).all():
            raise self._fault("gave a vector with NaN or infinity")
        # Scaling by the largest number first keeps very large and very small ones from overflowing.
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        if not largest.all():
            raise self._fault("gave a vector of zeros, which has no direction")
        vectors = vectors / largest
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        self._learn(vectors.shape[1])
        return vectors.astype(np.float32)

    def _numbers(self, value: object) -> NDArray[np.float64]:
        import numpy as np

        try:
            array = np.asarray(value)
            if array.dtype.kind in "fiu":  # numpy would read numbers out of text and out of booleans too
                with np.errstate(over="ignore"):  # too large becomes infinite, which the caller refuses
                    return array.astype(np.float64)
        except Exception as error:  # a foreign object may raise anything when it is read
            raise self._fault(f"gave what is not a list of equally long vectors: {_short(error)}") from error
        raise self._fault(f"gave {_kind(value)}, not numbers")

    def _learn(self, dimensions: int) -> None:
        if self._dimensions is None:
            self._dimensions = dimensions
        elif dimensions != self._dimensions:
            raise self._fault(f"gave vectors of {dimensions} dimensions, not {self._dimensions}")

    def _fault(self, problem: str) -> EmbedderError:
        return EmbedderError(f"the embedder {self._model_id!r} {problem}")


def as_embedder(value: object) -> Embedding:
    """Return the embedder behind the inner interface, or say what to pass instead."""
    if isinstance(value, Embedding):
        return value
    if isinstance(value, type):
        raise InvalidArgumentError("embedder", f"is the class {value.__name__}; pass an object of it")
    query, documents = getattr(value, "embed_query", None), getattr(value, "embed_documents", None)
    if not callable(query) or not callable(documents):
        raise InvalidArgumentError("embedder", f"{_kind(value)} is no embedder: {_ADVICE}")
    if hasattr(value, "model_id") and hasattr(value, "dimensions"):
        own = cast("Embedder", value)
        model_id = check_id(own.model_id, "embedder.model_id")
        dimensions = check_int(own.dimensions, "embedder.dimensions", minimum=1, maximum=_MAX_DIMENSIONS)
        return Embedding(query, documents, model_id, dimensions)
    if model := getattr(value, "model", None):
        return Embedding(query, documents, _model_name(cast("object", model)), None)
    missing = " and ".join(name for name in ("model_id", "dimensions") if not hasattr(value, name))
    raise InvalidArgumentError("embedder", f"{_kind(value)} has no {missing}: {_ADVICE}")


class _Result(Protocol):
    embeddings: object


def _is_result(value: object) -> bool:
    """Say whether a value is what a Pydantic AI embedder returns: an object around a list of vectors."""
    return hasattr(value, "embeddings")


def _model_name(model: object) -> str:
    """Return the name of a Pydantic AI model without its provider.

    The library replaces "provider:name" by an object when it is first used, and that object's provider can be
    spelt differently; the name alone stays the same.
    """
    name = model.partition(":")[2] or model if isinstance(model, str) else getattr(model, "model_name", None)
    return check_id(name, "embedder.model")


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 300 else text[:300] + "..."  # noqa: PLR2004 - enough to know it by


def chosen_embedder(value: object) -> Embedding | None:
    """Return the embedder that a memory was given: the built-in one where nothing was said, None for none.

    Recall works by words alone, so a missing extra is no error where nobody named an embedder.
    """
    if value is None or value is False:
        return None
    if value is not UNSET:
        return as_embedder(value)
    try:
        return default_embedder()
    except MissingExtraError as error:
        _warn_of_words_alone(str(error))
        return None


@cache
def _warn_of_words_alone(command: str) -> None:
    warnings.warn(
        f"recall searches by words alone, without an embedder: {command}, pass one as embedder=, "
        "or write embedder=None",
        stacklevel=3,
    )


def default_embedder() -> Embedding:
    """Return the built-in embedder, or say what to install."""
    from recollect.recall.embedding.minilm import MiniLM

    if not MiniLM.installed():
        raise MissingExtraError("embed")
    return as_embedder(MiniLM())
