"""The index of a user against plain references: however it is filled, it has what the rows have."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recall import reference
from tests.recall.rows import (
    DIMENSIONS,
    VECTOR,
    WORDS,
    SampleMessage,
    changes,
    conversations,
    index_of,
    vector_rows,
)

from recollect.errors import EmbedderChangedError
from recollect.recall.index.arrays import append
from recollect.recall.index.postings import Postings, score_text
from recollect.recall.index.user_index import NEVER, ThreadKey, UserIndex
from recollect.storage.records import SearchChanges, VectorModel
from recollect.text.terms import term_hash, terms_of


@st.composite
def cuts(draw: st.DrawFn) -> tuple[list[SampleMessage], list[int]]:
    """Return messages and the places at which their reading is split."""
    said = draw(conversations)
    return said, sorted(draw(st.lists(st.integers(0, len(said)), max_size=4)))


@given(cuts(), st.booleans())
def test_index_is_the_same_when_read_in_parts(
    case: tuple[list[SampleMessage], list[int]],
    vectors_last: bool,  # noqa: FBT001 - Hypothesis gives it
) -> None:
    """New rows, with their vectors or before them, in any parts, give the same index as one reading."""
    said, places = case
    whole, parts = index_of(said), UserIndex(7)
    held: list[SearchChanges] = []
    for start, end in zip([0, *places], [*places, len(said)], strict=True):
        new = changes(said[start:end], first=start)
        held.append(SearchChanges(7, [], new.vectors))
        assert parts.apply(new._replace(vectors=[]) if vectors_last else new)
    for new in held if vectors_last else []:
        assert parts.apply(new)
    for name in (
        "numbers",
        "times",
        "expires",
        "asks",
        "time_words",
        "speaker_of",
        "previous",
        "next",
        "has_vector",
    ):
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name
    assert (whole.threads, whole.speakers, whole.models) == (parts.threads, parts.speakers, parts.models)
    assert np.array_equal(
        whole.compute_similarities(VECTOR), parts.compute_similarities(VECTOR), equal_nan=True
    )
    assert whole.last_number == parts.last_number == (3 * len(said) + 2 if said else 0)
    for word in (*WORDS, "xylophone"):
        for found, expected in zip(_find_sorted(parts, word), _find_sorted(whole, word), strict=True):
            assert np.array_equal(found, expected)


def _find_sorted(index: UserIndex, word: str) -> tuple[list[int], list[float]]:
    rows, frequencies = index.postings.find(term_hash(terms_of(word)[0]))
    pairs = sorted(zip(rows.tolist(), frequencies.tolist(), strict=True))
    return [row for row, _ in pairs], [count for _, count in pairs]


@given(conversations)
def test_index_holds_what_the_rows_hold(said: list[SampleMessage]) -> None:
    """Threads, speakers, times, neighbours and terms are those of the messages."""
    index = index_of(said)
    assert len(index) == len(said)
    places = {number: place for place, number in index.threads.items()}
    speakers: dict[int, str | None] = {number: name for name, number in index.speakers.items()}
    for row, message in enumerate(said):
        assert places[int(index.thread_of[row])] == ThreadKey(*message.thread)
        assert speakers.get(int(index.speaker_of[row])) == message.speaker
        assert (int(index.times[row]), bool(index.asks[row])) == (message.time, message.asks)
        assert int(index.expires[row]) == (NEVER if message.expires is None else message.expires)
        assert int(index.time_words[row]) == ("yesterday" in message.words)
        assert bool(index.has_vector[row]) == bool(message.segments)
    links = list(zip(index.previous.tolist(), index.next.tolist(), strict=True))
    assert links == reference.neighbours(said)
    for word in WORDS:
        term = terms_of(word)[0]
        bags = [reference.counts(message) for message in said]
        having = [(row, bag[term]) for row, bag in enumerate(bags) if term in bag]
        assert _find_sorted(index, word) == ([row for row, _ in having], [count for _, count in having])


@given(conversations)
def test_similarity_is_that_of_the_first_segment(said: list[SampleMessage]) -> None:
    """Vectors of later segments, which earlier versions stored, do not count; without a vector it is NaN."""
    found = index_of(said).compute_similarities(VECTOR)
    for row, message in enumerate(said):
        expected = reference.cosine(message, VECTOR.tolist())
        assert math.isclose(found[row], expected, abs_tol=1e-6) or (
            math.isnan(found[row]) and math.isnan(expected)
        )


@given(conversations, st.lists(st.sampled_from((*WORDS, "xylophone")), unique=True, max_size=6))
def test_text_scores_are_those_of_the_formula(said: list[SampleMessage], words: list[str]) -> None:
    """BM25, the rarity of terms and the share of them in a message equal the reference."""
    terms = [terms_of(word)[0] for word in words]
    text = score_text(index_of(said).postings, terms)
    assert np.allclose(text.scores, reference.bm25(said, terms), rtol=1e-4)
    assert np.allclose(text.weights, reference.rarities(said, terms), rtol=1e-4)
    share = text.measure_coverage(text.bits) / max(text.total, 1e-6)
    assert np.allclose(share, reference.coverage(said, terms), rtol=1e-4, atol=1e-5)


def test_sixty_four_terms_have_a_bit_each() -> None:
    """Each of 64 terms has its own bit, the last one too."""
    terms = [f"word{n}" for n in range(64)]
    index = index_of([SampleMessage([term]) for term in terms] + [SampleMessage(terms)])
    text = score_text(index.postings, terms)
    assert [int(bits) for bits in text.bits] == [1 << n for n in range(64)] + [2**64 - 1]
    assert math.isclose(float(text.measure_coverage(text.bits[-1:])[0]), text.total, rel_tol=1e-4)


def test_term_is_found_when_its_hash_is_the_highest_or_the_lowest() -> None:
    """The range of hashes includes both ends."""
    postings = Postings()
    postings.extend([b"\0\0\0\0\xff\xff\xff\xff", b"\xff\xff\xff\xff"], [b"\x01\xff", b"\x02"])
    assert [found.tolist() for found in postings.find(0)] == [[0], [1.0]]
    assert [found.tolist() for found in postings.find(2**32 - 1)] == [[0, 1], [255.0, 2.0]]
    assert [found.tolist() for found in postings.find(5)] == [[], []]


def test_postings_stay_sorted_when_the_small_part_is_merged() -> None:
    """Rows added one by one, more than the second array holds, are all found."""
    postings = Postings()
    count = 40
    terms = np.arange(1_000, dtype="<u4").tobytes()
    for _ in range(count):
        postings.extend([terms], [b"\x01" * 1_000])
    for term in (0, 500, 999):
        assert sorted(postings.find(term)[0].tolist()) == list(range(count))
    assert postings.lengths.tolist() == [1_000.0] * count
    assert postings.nbytes >= 8 * 1_000 * count


def test_index_is_empty_when_there_is_nothing() -> None:
    """It has no messages and no vectors, and can be queried."""
    index = UserIndex(7)
    assert index.apply(SearchChanges(7, [], []))
    assert (len(index), index.last_number, index.count_expired(0)) == (0, 0, 0)
    assert len(index.compute_similarities(VECTOR)) == 0
    index.check_model("any", 4)
    assert index.apply(SearchChanges(7, [], vector_rows(5, [[1.0] * 4])))
    assert index.models == set()


def test_vectors_of_messages_that_are_not_in_the_index_are_ignored() -> None:
    """Vectors may come for rows beyond the index's limit, alone and among others."""
    index = index_of([SampleMessage(["cello"], segments=[[1.0, 0.0, 0.0, 0.0]]), SampleMessage(["dog"])])
    assert index.apply(SearchChanges(7, [], vector_rows(2, [[1.0] * 4])))
    assert index.has_vector.tolist() == [True, False]
    more = [*vector_rows(2, [[1.0] * 4]), *vector_rows(8, [[0.0, 1.0, 0.0, 0.0]])]
    assert index.apply(SearchChanges(7, [], more))
    assert index.has_vector.tolist() == [True, True]
    assert np.allclose(index.compute_similarities(VECTOR), [0.5, -0.5])


def test_vectors_that_the_index_has_already_are_ignored() -> None:
    """A read of many vectors returns those of earlier messages again."""
    index = index_of([SampleMessage(["cello"], segments=[[1.0, 0.0, 0.0, 0.0]]), SampleMessage(["dog"])])
    again = [*vector_rows(5, [[0.0, 1.0, 0.0, 0.0]]), *vector_rows(8, [[0.0, 1.0, 0.0, 0.0]])]
    for _ in range(2):
        assert index.apply(SearchChanges(7, [], again))
        assert np.allclose(index.compute_similarities(VECTOR), [0.5, -0.5])


def test_index_must_be_read_again_when_it_cannot_be_updated() -> None:
    """Another epoch, which replaced vectors have too, and a second model cannot be applied."""
    said = [SampleMessage(["cello"], segments=[[1.0] * 4])]
    assert not index_of(said).apply(SearchChanges(8, [], []))
    mixed = index_of([*said, SampleMessage(["dog"])])
    assert mixed.apply(SearchChanges(7, [], vector_rows(8, [[0.5] * 4], "other")))
    assert mixed.models == {VectorModel("m", DIMENSIONS), VectorModel("other", DIMENSIONS)}
    assert not mixed.apply(SearchChanges(7, [], []))
    for model in ("m", "other"):
        with pytest.raises(EmbedderChangedError):
            mixed.check_model(model, DIMENSIONS)


def test_index_grows_in_size_with_what_it_holds() -> None:
    """Its size counts vectors, terms and names."""
    few = index_of([SampleMessage(WORDS, segments=[[1.0] * 4])] * 10)
    many = index_of([SampleMessage(WORDS, segments=[[1.0] * 4])] * 1_000)
    assert 50 < many.nbytes / few.nbytes < 110


@given(st.lists(st.lists(st.integers(0, 255), max_size=9), max_size=9), st.booleans())
def test_appended_values_are_in_order(parts: list[list[int]], owned: bool) -> None:  # noqa: FBT001 - Hypothesis gives it
    """Appending parts, also empty ones and views of other arrays, gives the whole in order."""
    values = np.empty(0, dtype=np.uint8)
    for part in parts:
        new = np.array([*part, 77], dtype=np.uint8)[:-1]
        values = append(values, new.copy() if owned else new)
    assert values.tolist() == [value for part in parts for value in part]


def test_appending_seldom_copies() -> None:
    """Appending a row at a time copies only a few times, and keeps the earlier values."""
    values, copies = np.empty(0, dtype=np.int64), 0
    for number in range(1_000):
        larger = append(values, np.array([number]))
        copies += not np.shares_memory(values, larger)
        values = larger
    assert values.tolist() == [*range(1_000)]
    assert copies < 12
