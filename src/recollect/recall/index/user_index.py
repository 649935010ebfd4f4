"""The search index of one user: terms, times, speakers and vectors as arrays in memory, never the text.

It is read from the store's search rows once, in commit order, and then updated with new rows. It does not
depend on the database, so SQLite and PostgreSQL rank alike. It holds one user only, so nobody else's words
can change a ranking.
"""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from recollect.errors import EmbedderChangedError
from recollect.recall.index.arrays import append, count_bytes
from recollect.recall.index.postings import MAX_SEGMENTS, Postings
from recollect.recall.index.vectors import Vectors
from recollect.recall.index.word_marks import count_time_words, has_first_person
from recollect.storage.records import VectorModel
from recollect.text.segments import analyse_segments
from recollect.text.terms import has_question_mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recollect.storage.records import SearchChanges, SearchRow, VectorRow

NO_SPEAKER = -1
"""The speaker of a row whose message names none."""
NEVER = np.iinfo(np.int64).max
"""When a message expires that does not."""
NO_ROW = -1
"""Stands for the row before the first and after the last of a thread."""
_NO_PLACE = -1
_SAME = 0.97  # a cosine; texts that differ in a word or two are above it
_REINDEX = "run `recollect reindex`, or `await memory.reindex()` with a custom embedder"
_LONGER = 2  # an assistant writes at least so many times as much as its user


class ThreadKey(NamedTuple):
    """A thread, with its app and project."""

    app_id: str
    project_id: str
    thread_id: str


def check_same_model(stored: VectorModel, model_id: str, dimensions: int | None) -> None:
    """Raise an error if vectors of different models or lengths would be mixed."""
    if stored.model_id != model_id:
        raise EmbedderChangedError(
            f"stored vectors are of {stored.model_id!r}, the embedder is {model_id!r}; "
            f"{_REINDEX}, or go back to the previous embedder"
        )
    if stored.dimensions != (dimensions or stored.dimensions):
        raise EmbedderChangedError(
            f"stored vectors of {model_id!r} have {stored.dimensions} dimensions, the embedder's have "
            f"{dimensions}; give it a model_id of its own and {_REINDEX}, or go back to the previous embedder"
        )


class UserIndex:
    """The messages of one user, one row each; `apply` replaces the arrays by longer ones.

    `numbers` are the integer ids in order, `times` and `expires` microseconds since 1970 (or `NEVER`), `asks`
    whether the message has a question mark, `by_assistant` whether the assistant wrote it, `first_person`
    whether its first segment says "I" or "we", `words` how many words it has, `marks` a checksum of its
    terms. `time_words` is by segment: its number of time words, up to a few. `thread_of` and `speaker_of` are
    codes of `threads` and `speakers` (or `NO_SPEAKER`). `previous` and `next` are rows of the same thread (or
    `NO_ROW`). `lacks_terms` says that a message had no search row when it was read, `is_stale` that a message
    turned out to be gone.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.lacks_terms = False
        self.is_stale = False
        self.models: set[VectorModel] = set()
        self.threads: dict[ThreadKey, int] = {}
        self.projects: set[tuple[str, str]] = set()
        self.speakers: dict[str, int] = {}
        self.postings = Postings()
        self.numbers = np.empty(0, np.int64)
        self.times = np.empty(0, np.int64)
        self.expires = np.empty(0, np.int64)
        self.asks = np.empty(0, np.bool_)
        self.by_assistant = np.empty(0, np.bool_)
        self.first_person = np.empty(0, np.bool_)
        self.words = np.empty(0, np.float32)
        self.marks = np.empty(0, np.uint32)
        self.time_words = np.empty(0, np.uint8)
        self.thread_of = np.empty(0, np.int32)
        self.speaker_of = np.empty(0, np.int32)
        self.previous = np.empty(0, np.int32)
        self.next = np.empty(0, np.int32)
        self._last_in_thread: dict[int, int] = {}
        # The vectors in the order in which they were read, and the place of each row's vector there.
        self._vectors = Vectors()
        self._place_of = np.empty(0, np.int32)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def last_number(self) -> int:
        """The number of the newest message, or 0."""
        return int(self.numbers[-1]) if len(self) else 0

    @property
    def has_vector(self) -> NDArray[np.bool_]:
        """Which rows have a vector."""
        return self._place_of != _NO_PLACE

    @property
    def lacks_vector(self) -> NDArray[np.bool_]:
        """Which messages have words and no vector."""
        return ~self.has_vector & (self.words > 0)

    @property
    def numbers_without_vector(self) -> NDArray[np.int64]:
        """The numbers of the messages that have words and no vector, in order."""
        return self.numbers[self.lacks_vector]

    @property
    def can_grow(self) -> bool:
        """Whether it can take more messages: it has room, and its vectors are of one model."""
        return len(self.postings.lengths) < MAX_SEGMENTS and len(self.models) <= 1

    @cached_property
    def is_chat_with_assistant(self) -> bool:
        """Whether the assistant's messages are much longer than the user's, unlike those of two people."""
        return has_long_answers(self.words, self.by_assistant)

    def list_speakers(self, visible: NDArray[np.bool_] | None) -> list[str]:
        """Return the names of all speakers, or of those of visible rows."""
        if visible is None:
            return list(self.speakers)
        codes = set(self.speaker_of[visible].tolist())
        return [name for name, code in self.speakers.items() if code in codes]

    @cached_property
    def thread_sizes(self) -> NDArray[np.intp]:
        """How many messages each thread has."""
        return np.bincount(self.thread_of, minlength=max(len(self.threads), 1))

    @cached_property
    def last_in_thread(self) -> NDArray[np.intp]:
        """The row of the last message of each thread."""
        return np.array([self._last_in_thread[code] for code in range(len(self.threads))] or [-1])

    def count_expired(self, now: int) -> int:
        """Return how many messages have expired."""
        return int(np.count_nonzero(self.expires <= now))

    @property
    def nbytes(self) -> int:
        """Its approximate size in bytes."""
        arrays: list[NDArray[Any]] = [v for v in vars(self).values() if isinstance(v, np.ndarray)]
        names = 200 * (len(self.threads) + len(self.speakers))
        return count_bytes(arrays) + self.postings.nbytes + self._vectors.nbytes + names

    def apply(self, changes: SearchChanges) -> bool:
        """Add new rows and vectors; return False if the index cannot be updated and must be read again."""
        if self.is_stale or changes.epoch != self.epoch or len(self.models) > 1:
            return False
        if changes.rows and self.can_grow:
            self._add_rows(changes.rows)
        if changes.vectors:
            self._add_vectors(changes.vectors)
        return True

    def compute_similarities(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine similarity of every message to a vector; NaN for one without a vector."""
        # The last value, where rows without a vector point, is that of none.
        products = np.full(len(self._vectors) + 1, np.nan, dtype=np.float32)
        if len(self._vectors):
            self._vectors.multiply(vector, products[:-1])
        return products[self._place_of]

    def is_similar(self, row: int, others: Sequence[int]) -> bool:
        """Whether a message says nearly the same as one of others: by its terms, or by its vector."""
        if not others:
            return False
        rows = np.array(others)
        if self.words[row] and (self.marks[rows] == self.marks[row]).any():
            return True
        rows = rows[self._place_of[rows] != _NO_PLACE]
        if self._place_of[row] == _NO_PLACE or not len(rows):
            return False
        own, *near = self._vectors.take(self._place_of[[row, *rows]].tolist())
        return bool((np.array(near) @ own).max() >= _SAME)

    def check_model(self, model_id: str, dimensions: int | None) -> None:
        """Raise an error if vectors of different models or lengths would be compared."""
        for model in sorted(self.models):
            check_same_model(model, model_id, dimensions)

    def _add_rows(self, rows: Sequence[SearchRow]) -> None:
        if any(row.text is not None for row in rows):
            self.lacks_terms = True
            rows = [_analyse_row(row) for row in rows]
        (
            numbers,
            apps,
            projects,
            threads,
            _,
            times,
            expires,
            by_assistant,
            speakers,
            asks,
            hashes,
            counts,
            _,
        ) = zip(*rows, strict=True)
        first, first_segment = len(self), len(self.postings.lengths)
        self.numbers = append(self.numbers, np.array(numbers, dtype=np.int64))
        self.times = append(self.times, np.array(times, dtype=np.int64))
        due = [NEVER if time is None else time for time in expires]
        self.expires = append(self.expires, np.array(due, dtype=np.int64))
        self.asks = append(self.asks, np.array(asks, dtype=np.bool_))
        self.by_assistant = append(self.by_assistant, np.array(by_assistant, dtype=np.bool_))
        self.marks = append(self.marks, np.fromiter(map(zlib.crc32, hashes), np.uint32, len(hashes)))
        self._place_of = append(self._place_of, np.full(len(rows), _NO_PLACE, dtype=np.int32))
        self.speaker_of = append(self.speaker_of, self._encode_speakers(speakers))
        codes = self._encode_threads(list(zip(apps, projects, threads, strict=True)))
        self.thread_of = append(self.thread_of, codes)
        self._link(first, codes)
        self._add_terms(hashes, counts, first_segment)
        for name in ("is_chat_with_assistant", "thread_sizes", "last_in_thread"):
            self.__dict__.pop(name, None)

    def _add_terms(self, hashes: Sequence[bytes], counts: Sequence[bytes], first_segment: int) -> None:
        postings = self.postings
        found = postings.extend(hashes, counts)
        segments, total = found.segments - first_segment, len(postings.lengths) - first_segment
        self.time_words = append(self.time_words, count_time_words(found.hashes, segments, total))
        own = postings.first[len(self.words) :]
        self.first_person = append(
            self.first_person, has_first_person(found.hashes, segments, total)[own - first_segment]
        )
        new = postings.lengths[first_segment:]
        self.words = append(self.words, np.add.reduceat(new, own - first_segment, dtype=np.float32))

    def _link(self, first: int, codes: NDArray[np.int32]) -> None:
        """Link each new row to the row before it in its thread; numbers grow with positions there."""
        order = np.argsort(codes, kind="stable")
        grouped = codes[order]
        rows = (first + order).astype(np.int32)
        previous = np.empty(len(codes), dtype=np.int32)
        previous[order[1:]] = rows[:-1]
        begins = np.flatnonzero(np.diff(grouped, prepend=-1))
        of_thread = grouped[begins].tolist()
        previous[order[begins]] = [self._last_in_thread.get(code, NO_ROW) for code in of_thread]
        self._last_in_thread.update(
            zip(of_thread, rows[np.append(begins[1:], len(rows)) - 1].tolist(), strict=True)
        )
        self.previous = append(self.previous, previous)
        self.next = append(self.next, np.full(len(codes), NO_ROW, dtype=np.int32))
        linked = previous != NO_ROW
        self.next[previous[linked]] = np.arange(first, first + len(codes), dtype=np.int32)[linked]

    def _encode_threads(self, keys: list[tuple[str, str, str]]) -> NDArray[np.int32]:
        for key in dict.fromkeys(keys):
            self.threads.setdefault(ThreadKey(*key), len(self.threads))
            self.projects.add(key[:2])
        # A ThreadKey equals the plain tuple of its fields, so the keys need no conversion.
        return np.fromiter(map(self.threads.__getitem__, cast("list[ThreadKey]", keys)), np.int32, len(keys))

    def _encode_speakers(self, names: Sequence[str | None]) -> NDArray[np.int32]:
        codes = {name: self._encode_speaker(name) for name in dict.fromkeys(names)}
        return np.fromiter(map(codes.__getitem__, names), np.int32, len(names))

    def _encode_speaker(self, name: str | None) -> int:
        return NO_SPEAKER if not name else self.speakers.setdefault(name, len(self.speakers))

    def _add_vectors(self, found: Sequence[VectorRow]) -> None:
        """Add the vectors of messages that have none yet; only that of the first segment counts."""
        found = [vector for vector in found if vector.segment == 0]
        rows = self._find_rows([vector.number for vector in found])
        is_new = (rows != NO_ROW) & ~self.has_vector[rows] if len(self) else np.zeros(len(rows), np.bool_)
        new = [vector for vector, wanted in zip(found, is_new.tolist(), strict=True) if wanted]
        kinds = {(vector.model_id, len(vector.vector)) for vector in new}  # few, so models are made of them
        self.models |= {VectorModel(model_id, size // 2) for model_id, size in kinds}
        if len(self.models) == 1 and new:
            self._append_vectors(new, rows[is_new])

    def _append_vectors(self, found: Sequence[VectorRow], rows: NDArray[np.int32]) -> None:
        (model,) = self.models
        joined = np.frombuffer(b"".join([vector.vector for vector in found]), dtype="<f2")
        self._vectors.append(joined.reshape(-1, model.dimensions).astype(np.float16, copy=False))
        self._place_of[rows] = np.arange(len(self._vectors) - len(rows), len(self._vectors))

    def _find_rows(self, numbers: list[int]) -> NDArray[np.int32]:
        """Return the rows of messages by number, or `NO_ROW` for those not in the index."""
        wanted = np.array(numbers, dtype=np.int64)
        places = np.minimum(self.numbers.searchsorted(wanted), max(len(self) - 1, 0))
        if not len(self):
            return np.full(len(wanted), NO_ROW, dtype=np.int32)
        return np.where(self.numbers[places] == wanted, places, NO_ROW).astype(np.int32)


def _analyse_row(row: SearchRow) -> SearchRow:
    """Return a row with its terms: from the text, where it was stored without them."""
    if row.text is None:
        return row
    terms = analyse_segments(row.text)
    return row._replace(
        asks=has_question_mark(row.text), term_hashes=terms.hashes, term_counts=terms.counts, text=None
    )


def has_long_answers(words: NDArray[np.float32], by_assistant: NDArray[np.bool_]) -> bool:
    """Whether the assistant's messages have many more words than the user's."""
    if not by_assistant.any() or by_assistant.all():
        return False
    typical = [float(np.median(words[by_assistant == side])) for side in (True, False)]
    return typical[0] > _LONGER * typical[1]
