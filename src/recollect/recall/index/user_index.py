"""The search index of one user: terms, times, speakers and vectors as arrays in memory, never the text.

It is read from the store's search rows once, in the order of commits, and then kept up to date with what is
new. Nothing in it depends on the engine, so both rank alike. Nothing in it is of another user, so nobody
else's words can move a ranking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from recollect.errors import EmbedderChangedError
from recollect.recall.index.postings import MOST_ROWS, Postings
from recollect.recall.times.words import count_time_words
from recollect.storage.records import VectorModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from recollect.storage.records import SearchChanges, SearchRow, VectorRow

_FIRST_CAPACITY = 64
_GROWTH = 1.5
NOBODY = -1
"""The speaker of a row whose message names none."""
NONE = -1
"""The row before the first and behind the last of a thread."""
_AT_ONCE = 256


class Column:
    """One value, or one row of values, for each thing; adding to it seldom copies what is there."""

    __slots__ = ("_array", "_length")

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        """Begin empty; with a width each thing has a row of so many values."""
        self._length = 0
        self._array: NDArray[Any] = np.empty((0,) if width is None else (0, width), dtype=dtype)

    def __len__(self) -> int:
        """Count the things."""
        return self._length

    @property
    def values(self) -> NDArray[Any]:
        """All values; a view that is valid until the next change."""
        return self._array[: self._length]

    @property
    def nbytes(self) -> int:
        """How much memory it holds."""
        return self._array.nbytes

    def extend(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        if not len(values):
            return  # the first array may be one that cannot be written to
        needed = self._length + len(values)
        if self._length == 0:
            self._array = np.ascontiguousarray(values, dtype=self._array.dtype)
        else:
            if needed > len(self._array):
                self._grow(needed)
            self._array[self._length : needed] = values
        self._length = needed

    def _grow(self, needed: int) -> None:
        capacity = max(needed, _FIRST_CAPACITY, int(len(self._array) * _GROWTH))
        larger = np.empty((capacity, *self._array.shape[1:]), dtype=self._array.dtype)
        larger[: self._length] = self._array[: self._length]
        self._array = larger


class Place(NamedTuple):
    """A thread, with the app and project that it belongs to."""

    app_id: str
    project_id: str
    thread_id: str


def check_same_model(stored: VectorModel, model_id: str, dimensions: int | None) -> None:
    """Refuse to mix vectors of different models, or of different lengths."""
    if stored.model_id != model_id:
        raise EmbedderChangedError(
            f"stored vectors are of {stored.model_id!r}, the embedder is {model_id!r}; "
            "run `recollect reindex`, or go back to the embedder of before"
        )
    if stored.dimensions != (dimensions or stored.dimensions):
        raise EmbedderChangedError(
            f"stored vectors of {model_id!r} have {stored.dimensions} dimensions, the embedder's have "
            f"{dimensions}; give it a model_id of its own and run `recollect reindex`, or go back to "
            "the embedder of before"
        )


class Image:
    """One user's memory."""

    def __init__(self, epoch: int) -> None:
        """Begin empty, as of an epoch."""
        self.epoch = epoch
        self.last_stamp = 0
        self.models: set[VectorModel] = set()
        self.places: dict[Place, int] = {}
        self.homes: set[tuple[str, str]] = set()
        self.speakers: dict[str, int] = {}
        self.postings = Postings()
        self._numbers = Column(np.int64)
        self._times = Column(np.int64)
        self._asks = Column(np.bool_)
        self._time_words = Column(np.uint8)
        self._place_of = Column(np.int32)
        self._speaker_of = Column(np.int32)
        self._previous = Column(np.int32)
        self._next = Column(np.int32)
        self._last_of_place: dict[int, int] = {}
        self._vectors: Column | None = None
        self._vector_row = Column(np.int32)
        self._spans = Column(np.uint32, 2)
        self._has_vector = Column(np.bool_)
        self._long_rows: set[int] = set()

    def __len__(self) -> int:
        """Count the messages."""
        return len(self._numbers)

    @property
    def last_number(self) -> int:
        """The number of the newest message, or 0."""
        return int(self.numbers[-1]) if len(self) else 0

    @property
    def nbytes(self) -> int:
        """About how much memory it holds."""
        columns = (
            self._numbers,
            self._times,
            self._asks,
            self._time_words,
            self._place_of,
            self._speaker_of,
            self._previous,
            self._next,
            self._vector_row,
            self._spans,
            self._has_vector,
        )
        vectors = 0 if self._vectors is None else self._vectors.nbytes
        names = 200 * (len(self.places) + len(self.speakers))
        return sum(column.nbytes for column in columns) + self.postings.nbytes + vectors + names

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The integer ids of the messages, in order."""
        return self._numbers.values

    @property
    def times(self) -> NDArray[np.int64]:
        """When each message was said, in microseconds since 1970."""
        return self._times.values

    @property
    def asks(self) -> NDArray[np.bool_]:
        """Whether each message holds a question mark."""
        return self._asks.values

    @property
    def time_words(self) -> NDArray[np.uint8]:
        """How many words for a time each message has, up to a few."""
        return self._time_words.values

    @property
    def place_of(self) -> NDArray[np.int32]:
        """Which of `places` each message stands in."""
        return self._place_of.values

    @property
    def speaker_of(self) -> NDArray[np.int32]:
        """Which of `speakers` said each message, or `NOBODY`."""
        return self._speaker_of.values

    @property
    def previous(self) -> NDArray[np.int32]:
        """The row before each one in its thread, or `NONE`."""
        return self._previous.values

    @property
    def next(self) -> NDArray[np.int32]:
        """The row behind each one in its thread, or `NONE`."""
        return self._next.values

    @property
    def has_vector(self) -> NDArray[np.bool_]:
        """Whether each message has a vector yet."""
        return self._has_vector.values

    def apply(self, changes: SearchChanges) -> bool:
        """Take in what is new; False if the image cannot be brought up to date and must be read anew."""
        is_full = len(self) + len(changes.rows) > MOST_ROWS
        if changes.epoch != self.epoch or len(self.models) > 1 or is_full:
            return False
        if changes.rows:
            self._add_rows(changes.rows)
        return not changes.vectors or self._add_vectors(changes.vectors)

    def similarities(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of every message to a vector, of a long one that of its nearest piece.

        A message without a vector has NaN.
        """
        out = np.full(len(self), np.nan, dtype=np.float32)
        if self._vectors is not None:
            cosines = self._vectors.values @ vector
            out[self._vector_row.values] = cosines
            if self._long_rows:
                self._take_best_pieces(out, cosines)
        return out

    def vector(self, row: int) -> NDArray[np.float32] | None:
        """Return the first vector of a message, if it has one."""
        if self._vectors is None:
            return None
        places = np.flatnonzero(self._vector_row.values == row)
        return self._vectors.values[places[0]] if len(places) else None

    def best_piece(self, row: int, vector: NDArray[np.float32]) -> tuple[int, int] | None:
        """Return where in a long message the piece is that is nearest to a vector."""
        if self._vectors is None or row not in self._long_rows:
            return None
        places = np.flatnonzero(self._vector_row.values == row)
        best = places[np.argmax(self._vectors.values[places] @ vector)]
        start, end = self._spans.values[best].tolist()
        return start, end

    def check_model(self, model_id: str, dimensions: int | None) -> None:
        """Refuse to compare vectors of different models, or of different lengths."""
        for model in sorted(self.models):
            check_same_model(model, model_id, dimensions)

    def _add_rows(self, rows: Sequence[SearchRow]) -> None:
        numbers, apps, projects, threads, _, times, speakers, asks, hashes, counts = zip(*rows, strict=True)
        first = len(self)
        self._numbers.extend(np.array(numbers, dtype=np.int64))
        self._times.extend(np.array(times, dtype=np.int64))
        self._asks.extend(np.array(asks, dtype=np.bool_))
        self._time_words.extend(count_time_words(hashes))
        self._has_vector.extend(np.zeros(len(rows), dtype=np.bool_))
        self._speaker_of.extend(self._codes_of_speakers(speakers))
        places = self._codes_of_places(list(zip(apps, projects, threads, strict=True)))
        self._place_of.extend(places)
        self._link(first, places)
        self.postings.extend(hashes, counts)

    def _link(self, first: int, places: NDArray[np.int32]) -> None:
        """Tie each new row to the one before it in its thread; numbers grow with positions there."""
        order = np.argsort(places, kind="stable")
        grouped = places[order]
        rows = (first + order).astype(np.int32)
        previous = np.empty(len(places), dtype=np.int32)
        previous[order[1:]] = rows[:-1]
        begins = np.flatnonzero(np.diff(grouped, prepend=-1))
        of_place = grouped[begins].tolist()
        previous[order[begins]] = [self._last_of_place.get(place, NONE) for place in of_place]
        self._last_of_place.update(
            zip(of_place, rows[np.append(begins[1:], len(rows)) - 1].tolist(), strict=True)
        )
        self._previous.extend(previous)
        self._next.extend(np.full(len(places), NONE, dtype=np.int32))
        linked = previous != NONE
        self.next[previous[linked]] = np.arange(first, first + len(places), dtype=np.int32)[linked]

    def _codes_of_places(self, keys: list[tuple[str, str, str]]) -> NDArray[np.int32]:
        for key in dict.fromkeys(keys):
            self.places.setdefault(Place(*key), len(self.places))
            self.homes.add(key[:2])
        # A place equals the plain tuple of its parts, so the keys need not become places each.
        return np.fromiter(map(self.places.__getitem__, cast("list[Place]", keys)), np.int32, len(keys))

    def _codes_of_speakers(self, names: Sequence[str | None]) -> NDArray[np.int32]:
        codes = {name: self._speaker(name) for name in dict.fromkeys(names)}
        return np.fromiter(map(codes.__getitem__, names), np.int32, len(names))

    def _speaker(self, name: str | None) -> int:
        return NOBODY if not name else self.speakers.setdefault(name, len(self.speakers))

    def _add_vectors(self, found: Sequence[VectorRow]) -> bool:
        self.last_stamp = found[-1].stamp
        rows = self._rows_of([vector.number for vector in found])
        if (rows == NONE).any():
            found = [vector for vector, row in zip(found, rows, strict=True) if row != NONE]
            rows = rows[rows != NONE]
        if self.has_vector[rows].any():
            return False  # they were made anew
        self.models |= {VectorModel(vector.model_id, vector.dimensions) for vector in found}
        if len(self.models) == 1 and found:
            self._append_vectors(found, rows)
        return True

    def _append_vectors(self, found: Sequence[VectorRow], rows: NDArray[np.int32]) -> None:
        _, _, _, (dimensions, *_), spans, vectors = zip(*found, strict=True)
        pieces = np.fromiter(map(len, spans), np.int64, len(spans)) // 8
        if self._vectors is None:
            self._vectors = Column(np.float32, dimensions)
        self._vectors.extend(_matrix(vectors, dimensions))
        self._spans.extend(np.frombuffer(b"".join(spans), dtype="<u4").reshape(-1, 2))
        self._vector_row.extend(np.repeat(rows, pieces))
        self.has_vector[rows] = True
        self._long_rows.update(rows[pieces > 1].tolist())

    def _rows_of(self, numbers: list[int]) -> NDArray[np.int32]:
        """Return the rows of messages by number, or `NONE` where the image does not have them."""
        wanted = np.array(numbers, dtype=np.int64)
        places = np.minimum(self.numbers.searchsorted(wanted), max(len(self) - 1, 0))
        if not len(self):
            return np.full(len(wanted), NONE, dtype=np.int32)
        return np.where(self.numbers[places] == wanted, places, NONE).astype(np.int32)

    def _take_best_pieces(self, out: NDArray[np.float32], cosines: NDArray[np.float32]) -> None:
        rows = self._vector_row.values
        long = np.isin(rows, np.fromiter(self._long_rows, np.int32, len(self._long_rows)))
        out[rows[long]] = -np.inf
        np.maximum.at(out, rows[long], cosines[long])


def _matrix(vectors: Sequence[bytes], dimensions: int) -> NDArray[np.float32]:
    """Return vectors as floats; some at a time, because what is small stays in the processor's cache."""
    found = np.empty((sum(map(len, vectors)) // (2 * dimensions), dimensions), dtype=np.float32)
    end = 0
    for first in range(0, len(vectors), _AT_ONCE):
        halves = np.frombuffer(b"".join(vectors[first : first + _AT_ONCE]), dtype="<f2")
        begin, end = end, end + len(halves) // dimensions
        found[begin:end] = halves.reshape(-1, dimensions)
    return found
