"""Search rows and vectors for tests of the index, written by hand or drawn by Hypothesis."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from recollect.recall.index.user_index import UserIndex
from recollect.storage.records import SearchChanges, SearchRow, VectorRow
from recollect.text.terms import analyse

DIMENSIONS = 4
VECTOR = np.array([0.5, -0.5, 0.5, 0.5], dtype=np.float32)
WORDS = ("cello", "dog", "thunder", "train", "porto", "kitchen", "yellow", "rocket", "wind", "yesterday")
NAMES = (None, "Ann", "Bob")


@dataclass(frozen=True)
class SampleMessage:
    """A message for the index: its words, its thread, and the vectors of its segments."""

    words: Sequence[str]
    thread: tuple[str, str, str] = ("app", "project", "thread")
    is_assistant: bool = False
    speaker: str | None = None
    asks: bool = False
    time: int = 0
    expires: int | None = None
    segments: Sequence[Sequence[float]] = ()


def changes(said: Sequence[SampleMessage], first: int = 0, epoch: int = 7) -> SearchChanges:
    """Return messages as the store would, with numbers that have gaps."""
    rows: list[SearchRow] = []
    vectors: list[VectorRow] = []
    for place, message in enumerate(said, first):
        terms = analyse(" ".join(message.words))
        number = 3 * place + 5
        rows.append(
            SearchRow(
                number, *message.thread, place, message.time, message.expires, message.is_assistant,
                message.speaker, message.asks,
                terms.hashes, terms.counts, None,
            )
        )  # fmt: skip
        vectors += vector_rows(number, message.segments)
    return SearchChanges(epoch, rows, vectors)


def index_of(said: Sequence[SampleMessage]) -> UserIndex:
    """Return the index of some messages, read in one go."""
    index = UserIndex(7)
    assert index.apply(changes(said))
    return index


def vector_rows(number: int, segments: Sequence[Sequence[float]], model: str = "m") -> list[VectorRow]:
    """Return the vectors of one message, a row for each segment."""
    return [
        VectorRow(number, segment, model, np.array(vector, dtype="<f2").tobytes())
        for segment, vector in enumerate(segments)
    ]


_numbers = st.sampled_from((-1.0, -0.5, 0.0, 0.25, 0.5, 1.0))
_vectors = st.lists(_numbers, min_size=DIMENSIONS, max_size=DIMENSIONS)

messages = st.builds(
    SampleMessage,
    words=st.lists(st.sampled_from(WORDS), max_size=6),
    thread=st.tuples(st.sampled_from("ab"), st.sampled_from("pq"), st.sampled_from("tuv")),
    speaker=st.sampled_from(NAMES),
    asks=st.booleans(),
    time=st.integers(0, 2_000_000_000_000_000),
    expires=st.none() | st.integers(0, 2_000_000_000_000_000),
    segments=st.lists(_vectors, max_size=3),
)
"""Any message; those without segments have no vector yet."""

conversations = st.lists(messages, max_size=25)
"""Any conversation of a user."""

questions = st.lists(st.sampled_from((*WORDS, "xylophone", "Ann", "Bob's", "when", "the")), max_size=5).map(
    " ".join
)
"""Questions with and without an answer."""
