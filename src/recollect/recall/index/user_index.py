"""The search index of one user: terms, times, speakers and vectors as arrays in memory, never the text.

It is read from the store's search rows once, in the order of commits, and then kept up to date with what is
new. Nothing in it depends on the engine, so both rank alike. Nothing in it is of another user, so nobody
else's words can move a ranking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from recollect.errors import EmbedderChangedError
from recollect.recall.index.postings import MOST_ROWS, Postings
from recollect.recall.times.words import count_time_words
from recollect.storage.records import VectorModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recollect.storage.records import SearchChanges, SearchRow, VectorRow

T = TypeVar("T", bound=np.generic)

_FIRST_CAPACITY = 64
_GROWTH = 1.5
NOBODY = -1
"""The speaker of a row whose message names none."""
NONE = -1
"""The row before the first and after the last of a thread."""
_AT_ONCE = 256


def append(values: NDArray[T], new: NDArray[T]) -> NDArray[T]:
    """Return the values with new ones at their end; the old array must not be appended to again.

    What is returned is the beginning of a larger array, its `base`, so that the next call seldom copies:
    [1 2 3] of base [1 2 3 . .] and [4] give [1 2 3 4] of the same base.
    """
    if not len(new):
        return values
    length, needed = len(values), len(values) + len(new)
    if length == 0 and new.base is None:
        return new  # mostly a whole memory, which may be large
    room = values.base
    if room is None or len(room) < needed:
        capacity = max(needed, _FIRST_CAPACITY, int(length * _GROWTH))
        room = np.empty((capacity, *values.shape[1:]), dtype=values.dtype)
        room[:length] = values
    room[length:needed] = new
    return room[:needed]


class Place(NamedTuple):
    """A thread, with the app and project that it belongs to."""

    app_id: str
    project_id: str
    thread_id: str


def check_same_model(stored: VectorModel, model_id: str, dimensions: int | None) -> None:
    """Raise an error if vectors of different models or lengths would be mixed."""
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


class UserIndex:
    """What is known of each message of one user, a row each; `apply` swaps the arrays for longer ones.

    `numbers` are the integer ids in order, `times` microseconds since 1970, `asks` whether there is a
    question mark, `time_words` how many words for a time there are, up to a few. `place_of` and `speaker_of`
    are codes of `places` and `speakers` (or `NOBODY`), `previous` and `next` rows of the same thread (or
    `NONE`).
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.last_stamp = 0
        self.models: set[VectorModel] = set()
        self.places: dict[Place, int] = {}
        self.homes: set[tuple[str, str]] = set()
        self.speakers: dict[str, int] = {}
        self.postings = Postings()
        self.numbers = np.empty(0, np.int64)
        self.times = np.empty(0, np.int64)
        self.asks = np.empty(0, np.bool_)
        self.time_words = np.empty(0, np.uint8)
        self.place_of = np.empty(0, np.int32)
        self.speaker_of = np.empty(0, np.int32)
        self.previous = np.empty(0, np.int32)
        self.next = np.empty(0, np.int32)
        self.has_vector = np.empty(0, np.bool_)
        self._last_of_place: dict[int, int] = {}
        # One row for each vector: of a long message every segment has one.
        self._vectors = np.empty((0, 0), np.float32)
        self._vector_row = np.empty(0, np.int32)
        self._spans = np.empty((0, 2), np.uint32)
        self._long_rows: set[int] = set()

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def last_number(self) -> int:
        """The number of the newest message, or 0."""
        return int(self.numbers[-1]) if len(self) else 0

    @property
    def nbytes(self) -> int:
        """About how much memory it holds."""
        arrays: list[NDArray[Any]] = [v for v in vars(self).values() if isinstance(v, np.ndarray)]
        held = sum((array if array.base is None else array.base).nbytes for array in arrays)
        return held + self.postings.nbytes + 200 * (len(self.places) + len(self.speakers))

    def apply(self, changes: SearchChanges) -> bool:
        """Take in what is new; False if the index cannot be brought up to date and must be read again."""
        is_full = len(self) + len(changes.rows) > MOST_ROWS
        if changes.epoch != self.epoch or len(self.models) > 1 or is_full:
            return False
        if changes.rows:
            self._add_rows(changes.rows)
        return not changes.vectors or self._add_vectors(changes.vectors)

    def similarities(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of every message to a vector, of a long one that of its nearest segment.

        A message without a vector has NaN.
        """
        out = np.full(len(self), np.nan, dtype=np.float32)
        if len(self._vectors):
            cosines = self._vectors @ vector
            out[self._vector_row] = cosines
            if self._long_rows:
                self._take_best_segments(out, cosines)
        return out

    def best_segment(self, row: int, vector: NDArray[np.float32]) -> tuple[int, int] | None:
        """Return where in a long message the segment is that is nearest to a vector."""
        if row not in self._long_rows:
            return None
        places = np.flatnonzero(self._vector_row == row)
        best = places[np.argmax(self._vectors[places] @ vector)]
        start, end = self._spans[best].tolist()
        return start, end

    def check_model(self, model_id: str, dimensions: int | None) -> None:
        """Raise an error if vectors of different models or lengths would be compared."""
        for model in sorted(self.models):
            check_same_model(model, model_id, dimensions)

    def _add_rows(self, rows: Sequence[SearchRow]) -> None:
        numbers, apps, projects, threads, _, times, speakers, asks, hashes, counts = zip(*rows, strict=True)
        first = len(self)
        self.numbers = append(self.numbers, np.array(numbers, dtype=np.int64))
        self.times = append(self.times, np.array(times, dtype=np.int64))
        self.asks = append(self.asks, np.array(asks, dtype=np.bool_))
        self.time_words = append(self.time_words, count_time_words(hashes))
        self.has_vector = append(self.has_vector, np.zeros(len(rows), dtype=np.bool_))
        self.speaker_of = append(self.speaker_of, self._codes_of_speakers(speakers))
        places = self._codes_of_places(list(zip(apps, projects, threads, strict=True)))
        self.place_of = append(self.place_of, places)
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
        self.previous = append(self.previous, previous)
        self.next = append(self.next, np.full(len(places), NONE, dtype=np.int32))
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
            return False  # they were made again
        self.models |= {VectorModel(vector.model_id, vector.dimensions) for vector in found}
        if len(self.models) == 1 and found:
            self._append_vectors(found, rows)
        return True

    def _append_vectors(self, found: Sequence[VectorRow], rows: NDArray[np.int32]) -> None:
        _, _, _, (dimensions, *_), spans, vectors = zip(*found, strict=True)
        segments = np.fromiter(map(len, spans), np.int64, len(spans)) // 8
        if not len(self._vectors):
            self._vectors = np.empty((0, dimensions), np.float32)
        self._vectors = append(self._vectors, _matrix(vectors, dimensions))
        self._spans = append(self._spans, np.frombuffer(b"".join(spans), dtype="<u4").reshape(-1, 2))
        self._vector_row = append(self._vector_row, np.repeat(rows, segments))
        self.has_vector[rows] = True
        self._long_rows.update(rows[segments > 1].tolist())

    def _rows_of(self, numbers: list[int]) -> NDArray[np.int32]:
        """Return the rows of messages by number, or `NONE` where the index does not have them."""
        wanted = np.array(numbers, dtype=np.int64)
        places = np.minimum(self.numbers.searchsorted(wanted), max(len(self) - 1, 0))
        if not len(self):
            return np.full(len(wanted), NONE, dtype=np.int32)
        return np.where(self.numbers[places] == wanted, places, NONE).astype(np.int32)

    def _take_best_segments(self, out: NDArray[np.float32], cosines: NDArray[np.float32]) -> None:
        rows = self._vector_row
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
