"""Every embedder gets the same interface, and its vectors are checked before use."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Embedder as PydanticEmbedder
from pydantic_ai.embeddings import TestEmbeddingModel as ScriptedModel
from tests.support.waiting import GENEROUS, until

from recollect import EmbedderError, InvalidArgumentError
from recollect.recall.embedding.embedder import CheckedEmbedder, Embedder, as_embedder
from recollect.recall.embedding.minilm import MiniLM

pytestmark = pytest.mark.anyio


class Plain:
    """An embedder as a user writes one: synchronous, with lists of floats."""

    model_id = "plain"
    dimensions = 3

    def __init__(self, vector: Callable[[str], object] = lambda text: [3.0, 0.0, float(len(text))]) -> None:
        """Embed each text with a function."""
        self.vector = vector
        self.threads: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        """Return whatever the function does."""
        self.threads.append(threading.current_thread().name)
        return self.vector(text)  # type: ignore[return-value] - wrong values are what is tested

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one of them for each text."""
        return [self.embed_query(text) for text in texts]


class Wrong(Plain):
    """An embedder that answers a list of texts with one fixed value."""

    def __init__(self, documents: object) -> None:
        """Keep the value."""
        super().__init__()
        self.documents = documents

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the value, whatever the texts are."""
        del texts
        return self.documents  # type: ignore[return-value] - wrong values are what is tested


class Slow(Plain):
    """An asynchronous embedder with numpy arrays."""

    async def embed_query(self, text: str) -> np.ndarray:  # type: ignore[override] - the other form
        """Return a vector of three."""
        await asyncio.sleep(0)
        self.threads.append(threading.current_thread().name)
        return np.array([0.0, len(text), 0.0], np.float64)

    async def embed_documents(self, texts: list[str]) -> np.ndarray:  # type: ignore[override] - the same
        """Return a matrix."""
        return np.array([await self.embed_query(text) for text in texts])


async def test_vectors_are_float32_of_length_one_when_the_embedder_is_synchronous() -> None:
    """A user's plain embedder runs in a thread, and its vectors are normalised."""
    own: Embedder = Plain()
    embedding = as_embedder(own)
    vector = await embedding.embed_query("four")
    matrix = await embedding.embed_documents(["four", "a"])
    assert (vector.dtype, vector.shape, matrix.dtype, matrix.shape) == (np.float32, (3,), np.float32, (2, 3))
    assert np.allclose(vector, [0.6, 0.0, 0.8])
    assert np.array_equal(matrix[0], vector)
    assert (embedding.model_id, embedding.dimensions) == ("plain", 3)


async def test_async_calls_run_on_the_loop_and_sync_calls_in_a_thread() -> None:
    """Only a synchronous embedder leaves the thread of the event loop."""
    plain, slow = Plain(), Slow()
    await as_embedder(plain).embed_query("x")
    assert (await as_embedder(slow).embed_documents(["x", "yy"])).shape == (2, 3)
    own = threading.current_thread().name
    assert own not in plain.threads
    assert set(slow.threads) == {own}


async def test_coroutine_is_awaited_when_a_plain_function_returns_one() -> None:
    """A wrapper that is not itself `async` works too."""

    class Wrapped(Plain):
        def embed_query(self, text: str) -> object:  # type: ignore[override] - the form that is tested
            return Slow().embed_query(text)

    assert np.allclose(await as_embedder(Wrapped()).embed_query("x"), [0.0, 1.0, 0.0])


async def test_nothing_is_called_when_there_are_no_texts() -> None:
    """No texts are no vectors."""
    assert (await as_embedder(Wrong("never asked")).embed_documents([])).shape == (0, 3)


async def test_pydantic_embedder_tells_its_dimensions_with_the_first_call() -> None:
    """A Pydantic AI embedder is recognised by its attributes; its first vector gives the dimensions."""
    embedding = as_embedder(PydanticEmbedder(ScriptedModel("scripted", dimensions=5)))
    assert (embedding.model_id, embedding.dimensions) == ("scripted", None)
    assert (await embedding.embed_documents([])).shape == (0, 0)
    assert (await embedding.embed_query("x")).shape == (5,)
    assert embedding.dimensions == 5
    assert (await embedding.embed_documents(["x", "y"])).shape == (2, 5)


async def test_pydantic_embedder_keeps_its_name_when_the_library_resolves_the_model() -> None:
    """The text "provider:name" becomes an object on first use; the vectors stay those of the same model."""
    assert as_embedder(PydanticEmbedder("openai:text-embedding-3-small")).model_id == "text-embedding-3-small"
    model = ScriptedModel("text-embedding-3-small", provider_name="other")
    assert as_embedder(PydanticEmbedder(model)).model_id == "text-embedding-3-small"


async def test_learned_dimensions_hold_when_a_later_vector_differs() -> None:
    """Vectors that change their length are rejected."""
    embedder = PydanticEmbedder(ScriptedModel("m", dimensions=5))
    embedding = as_embedder(embedder)
    await embedding.embed_query("x")
    with (
        embedder.override(model=ScriptedModel("m", dimensions=6)),
        pytest.raises(EmbedderError, match="gave vectors of 6 dimensions, not 5"),
    ):
        await embedding.embed_query("x")


WRONG_VECTORS: list[tuple[object, str]] = [
    ([[1.0, 2.0]], "1 vectors for 2 texts"),
    ([[1.0, 2.0], [1.0, 2.0]], "2 dimensions, not 3"),
    ([[1.0, 2.0, 3.0], [1.0, 2.0]], "equally long"),
    ([[1.0, 2.0, 3.0], [1.0, 2.0, float("nan")]], "NaN"),
    ([[1.0, 2.0, 3.0], [1.0, 2.0, float("-inf")]], "infinity"),
    (np.full((2, 3), np.finfo(np.longdouble).max), "infinity"),
    ([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]], "zeros"),
    ([["1", "2", "3"], ["1", "2", "3"]], "not numbers"),
    ([[True, True, True]] * 2, "not numbers"),
    ([[None, 1.0, 1.0]] * 2, "not numbers"),
    ([[1j, 1.0, 1.0]] * 2, "not numbers"),
    ([1.0, 2.0], "shape"),
    ([[], []], "shape"),
    (np.ones((2, 3, 1)), "shape"),
    ("text", "not numbers"),
    (None, "not numbers"),
    ({"a": [1.0, 2.0, 3.0]}, "not numbers"),
]


@pytest.mark.parametrize(("documents", "problem"), WRONG_VECTORS)
async def test_vectors_are_rejected_when_they_cannot_be_compared(documents: object, problem: str) -> None:
    """Wrong counts, sizes, types and values are each an error that names the embedder."""
    with pytest.raises(EmbedderError, match=problem) as caught:
        await as_embedder(Wrong(documents)).embed_documents(["one", "two"])
    assert "'plain'" in str(caught.value)
    assert caught.value.code == "embedder"


async def test_query_vector_is_rejected_when_it_is_not_one_vector() -> None:
    """A question has exactly one vector."""
    for value in ([[1.0, 2.0, 3.0]], [1.0, 2.0], 5.0, [float("nan")] * 3, [0, 0, 0]):
        with pytest.raises(EmbedderError):
            await as_embedder(Plain(lambda _, value=value: value)).embed_query("x")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3).filter(any))
async def test_any_finite_vector_comes_out_with_length_one(numbers: list[float]) -> None:
    """Neither the largest nor the smallest floats overflow."""
    vector = await as_embedder(Plain(lambda _: numbers)).embed_query("x")
    assert np.isclose(np.linalg.norm(vector.astype(np.float64)), 1.0, atol=1e-5)


@pytest.mark.parametrize(
    "error",
    [OSError("no route"), StopIteration(), asyncio.CancelledError(), SystemExit(3), KeyError("x" * 900)],
)
async def test_error_of_the_embedder_is_wrapped(error: BaseException) -> None:
    """Any error becomes an `EmbedderError` with its cause; none hangs or looks cancelled."""

    def fail(_: str) -> object:
        raise error

    with pytest.raises(EmbedderError, match=type(error).__name__) as caught:
        await asyncio.wait_for(as_embedder(Plain(fail)).embed_query("x"), GENEROUS)
    assert caught.value.__cause__ is not None
    assert len(str(caught.value)) < 500


async def test_caller_times_out_when_a_synchronous_embedder_hangs() -> None:
    """A timeout works, hanging calls take few threads, and calls not yet started are dropped."""
    gate = threading.Event()
    answer: object = None
    hanging = Plain(lambda _: answer if gate.wait() else None)
    embedding = as_embedder(hanging)
    calls = [asyncio.create_task(embedding.embed_query("x")) for _ in range(7)]
    await until(lambda: len(hanging.threads) == 4)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(embedding.embed_query("x"), 0.02)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    assert all(call.cancelled() for call in calls)
    assert len(hanging.threads) == 4
    answer = [1.0, 0.0, 0.0]
    gate.set()
    assert (await asyncio.wait_for(embedding.embed_query("x"), GENEROUS)).shape == (3,)
    assert len(hanging.threads) == 5


def test_process_ends_when_a_synchronous_embedder_hangs() -> None:
    """A call that never returns keeps neither the loop nor the process alive."""
    code = """
import asyncio, threading
from recollect.recall.embedding.embedder import as_embedder
class Hanging:
    model_id, dimensions = "hanging", 3
    def embed_query(self, text): threading.Event().wait()
    embed_documents = embed_query
async def main():
    try:
        await asyncio.wait_for(as_embedder(Hanging()).embed_query("x"), 0.1)
    except TimeoutError:
        print("left")
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "left", "")


async def test_context_of_the_caller_reaches_a_synchronous_embedder() -> None:
    """Tracing sees the call under the span that made it."""
    span: ContextVar[float] = ContextVar("span", default=0.0)
    span.set(7.0)
    vector = await as_embedder(Plain(lambda _: [0.0, span.get(), 0.0])).embed_query("x")
    assert np.allclose(vector, [0.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("openai:text-embedding-3-small", "pydantic_ai.Embedder"),
        (None, "NoneType is no embedder"),
        (42, "int is no embedder"),
        (MiniLM, "the class MiniLM; pass an instance"),
        (type("Half", (), {"embed_query": print, "embed_documents": print})(), "no model_id and dimensions"),
        (type("Bad", (Plain,), {"model_id": ""})(), "model_id: must not be empty"),
        (type("Bad", (Plain,), {"model_id": "a\0"})(), "NUL"),
        (type("Bad", (Plain,), {"dimensions": 0})(), "dimensions: must be 1 or more"),
        (type("Bad", (Plain,), {"dimensions": 3.0})(), "dimensions: must be an int"),
        (type("Bad", (Plain,), {"dimensions": 10**6})(), "dimensions: must be 65536 or less"),
        (type("Bad", (), {"embed_query": print, "embed_documents": print, "model": object()})(), "model"),
    ],
)
def test_argument_is_refused_when_it_is_no_embedder(value: object, problem: str) -> None:
    """The error names the argument and says what to pass."""
    with pytest.raises(InvalidArgumentError, match=problem) as caught:
        as_embedder(value)
    assert caught.value.argument.startswith("embedder")


def test_embedding_stays_itself_when_it_is_adapted_again() -> None:
    """Adapting twice changes nothing."""
    embedding = as_embedder(Plain())
    assert isinstance(embedding, CheckedEmbedder)
    assert as_embedder(embedding) is embedding
