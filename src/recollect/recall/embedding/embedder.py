"""The `Embedder` protocol, and the checked wrapper that recall uses for every embedder.

`as_embedder` takes our own MiniLM, any object of the `Embedder` protocol, or a Pydantic AI `Embedder`. The
last is recognised by its attributes, because only the agent imports that library. The wrapper checks every
vector: one that cannot be compared raises an error here, instead of a strange ranking later.
"""

from __future__ import annotations

import inspect
import warnings
from contextlib import suppress
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

__all__ = ["CheckedEmbedder", "Embedder", "as_embedder", "choose_embedder", "default_embedder"]

Vector: TypeAlias = "Sequence[float] | NDArray[np.floating]"
Vectors: TypeAlias = "Sequence[Vector] | NDArray[np.floating]"

_MAX_DIMENSIONS = 65_536
_MAX_CALLS = 4  # concurrent calls of a sync embedder; one that hangs must not take a new thread each time
_ADVICE = (
    "pass an object with embed_query, embed_documents, model_id and dimensions, "
    "or a Pydantic AI Embedder such as pydantic_ai.Embedder('openai:text-embedding-3-small')"
)


class Embedder(Protocol):
    """What `embedder=` takes; both methods may be sync, and then run in a thread."""

    @property
    def model_id(self) -> str:
        """The name of the model, stored with every vector; vectors of two names are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    def embed_query(self, text: str) -> Vector | Awaitable[Vector]:
        """Return the vector of a question."""
        ...

    def embed_documents(self, texts: list[str]) -> Vectors | Awaitable[Vectors]:
        """Return one vector for each text, in the same order."""
        ...


class CheckedEmbedder:
    """Any embedder as one async interface; its vectors are checked, float32 and of norm 1."""

    def __init__(
        self,
        embed_query: Callable[[str], object],
        embed_documents: Callable[[list[str]], object],
        model_id: str,
        dimensions: int | None,
        resolve: Callable[[], object] | None = None,
    ) -> None:
        """Take the methods; `resolve` returns the model of a Pydantic AI embedder."""
        self._resolve = resolve
        self._model: object = None
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
        """The length of a vector; None until the first call if the embedder does not say."""
        return self._dimensions

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question, of shape (dimensions,)."""
        result = await self._call(self._embed_query, text)
        single = result if _is_result(result) else [result]
        return self._check_vectors(single, 1)[0]

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, of shape (texts, dimensions)."""
        if not texts:
            import numpy as np

            return np.empty((0, self._dimensions or 0), np.float32)
        return self._check_vectors(await self._call(self._embed_documents, list(texts)), len(texts))

    async def _call(self, method: Callable[..., object], argument: object) -> object:
        try:
            if self._resolve is not None:
                await self._prepare_client(self._resolve)
            if inspect.iscoroutinefunction(method):
                return await method(argument)
            result = await self._threads.run(partial(method, argument))
            # A plain function may return a coroutine, which must run on the event loop.
            return await cast("Awaitable[object]", result) if inspect.isawaitable(result) else result
        except RecollectError:
            raise
        except Exception as error:
            raise self._make_error(f"failed with {type(error).__name__}: {_shorten(error)}") from error

    async def _prepare_client(self, resolve: Callable[[], object]) -> None:
        """Let a Pydantic AI embedder be asked from this event loop, as others do from theirs."""
        if self._model is None:
            self._model = await self._threads.run(resolve)  # it may import a provider's package
        with suppress(ImportError):  # an embedder that only looks like one needs no HTTP client of ours
            from recollect.concurrency.http_clients import refresh_embedder, share_between_loops

            share_between_loops(self._model)
            refresh_embedder(self._model)

    def _check_vectors(self, result: object, count: int) -> NDArray[np.float32]:
        """Return the vectors scaled to norm 1, or raise an error that says what is wrong."""
        vectors = self._to_numbers(cast("_Result", result).embeddings if _is_result(result) else result)
        import numpy as np

        if vectors.ndim != 2 or not vectors.shape[1]:  # noqa: PLR2004 - rows and columns
            raise self._make_error(
                f"gave an array of shape {vectors.shape}, not one list of numbers for each text"
            )
        if len(vectors) != count:
            raise self._make_error(f"gave {len(vectors)} vectors for {count} texts")
        if not np.isfinite(vectors).all():
            raise self._make_error("gave a vector with NaN or infinity")
        # Scaling by the largest number first avoids overflow and underflow in the norm.
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        if not largest.all():
            raise self._make_error("gave a vector of zeros, which has no direction")
        vectors = vectors / largest
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        self._check_dimensions(vectors.shape[1])
        return vectors.astype(np.float32)

    def _to_numbers(self, value: object) -> NDArray[np.float64]:
        import numpy as np

        try:
            array = np.asarray(value)
            if array.dtype.kind in "fiu":  # numpy would convert text and booleans too
                with np.errstate(over="ignore"):  # too large becomes infinite, which the caller rejects
                    return array.astype(np.float64)
        except Exception as error:  # a foreign object may raise anything
            raise self._make_error(f"gave no list of equally long vectors: {_shorten(error)}") from error
        raise self._make_error(f"gave {_describe_type(value)}, not numbers")

    def _check_dimensions(self, dimensions: int) -> None:
        if self._dimensions is None:
            self._dimensions = dimensions
        elif dimensions != self._dimensions:
            raise self._make_error(f"gave vectors of {dimensions} dimensions, not {self._dimensions}")

    def _make_error(self, problem: str) -> EmbedderError:
        return EmbedderError(f"the embedder {self._model_id!r} {problem}")


def as_embedder(value: object) -> CheckedEmbedder:
    """Wrap an embedder, or raise an error that says what to pass instead."""
    if isinstance(value, CheckedEmbedder):
        return value
    if isinstance(value, type):
        raise InvalidArgumentError("embedder", f"is the class {value.__name__}; pass an instance of it")
    query, documents = getattr(value, "embed_query", None), getattr(value, "embed_documents", None)
    if not callable(query) or not callable(documents):
        raise InvalidArgumentError("embedder", f"{_describe_type(value)} is no embedder: {_ADVICE}")
    if hasattr(value, "model_id") and hasattr(value, "dimensions"):
        own = cast("Embedder", value)
        model_id = check_id(own.model_id, "embedder.model_id")
        dimensions = check_int(own.dimensions, "embedder.dimensions", minimum=1, maximum=_MAX_DIMENSIONS)
        return CheckedEmbedder(query, documents, model_id, dimensions)
    if model := getattr(value, "model", None):
        resolve = getattr(value, "_get_model", None)  # `test_pydantic_ai_contract` holds the name
        return CheckedEmbedder(query, documents, _read_model_name(cast("object", model)), None, resolve)
    missing = " and ".join(name for name in ("model_id", "dimensions") if not hasattr(value, name))
    raise InvalidArgumentError("embedder", f"{_describe_type(value)} has no {missing}: {_ADVICE}")


class _Result(Protocol):
    embeddings: object


def _is_result(value: object) -> bool:
    """Whether a value is what a Pydantic AI embedder returns: an object with a list of vectors."""
    return hasattr(value, "embeddings")


def _read_model_name(model: object) -> str:
    """Return the name of a Pydantic AI model without its provider.

    On first use the library replaces "provider:name" by an object, whose provider can be spelt differently.
    Only the name stays the same.
    """
    name = model.partition(":")[2] or model if isinstance(model, str) else getattr(model, "model_name", None)
    return check_id(name, "embedder.model")


def _describe_type(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def _shorten(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 300 else text[:300] + "..."  # noqa: PLR2004 - enough to recognise it


def choose_embedder(value: object) -> CheckedEmbedder | None:
    """Return the embedder for `embedder=`: the built-in one by default, None for None or False.

    Recall works by text alone too, so the default warns instead of raising if the extra is missing.
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


def default_embedder() -> CheckedEmbedder:
    """Return the built-in embedder, or raise an error that names the extra to install."""
    from recollect.recall.embedding.minilm import MiniLM

    if not MiniLM.is_installed():
        raise MissingExtraError("embed")
    return as_embedder(MiniLM())
