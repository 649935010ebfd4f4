"""The index of a user against plain references: however it is filled, it holds what the rows hold."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recall import reference
from tests.recall.rows import DIMENSIONS, VECTOR, WORDS, Said, changes, index_of, talks, vector_row

from recollect.errors import EmbedderChangedError
from recollect.recall.index.postings import Postings, score_text
from recollect.recall.index.user_index import Place, UserIndex, append
from recollect.storage.records import SearchChanges, VectorModel
from recollect.text.terms import term_hash, terms_of


@st.composite
def cuts(draw: st.DrawFn) -> tuple[list[Said], list[int]]:
    """Return messages and places at which their reading is broken off."""
    said = draw(talks)
    return said, sorted(draw(st.lists(st.integers(0, len(said)), max_size=4)))


@given(cuts(), st.booleans())
def test_image_is_the_same_when_read_in_parts(case: tuple[list[Said], list[int]], late: bool) -> None:  # noqa: FBT001 - Hypothesis gives it
    """New rows and late vectors, in any cuts, make what one reading makes."""
    said, places = case
    whole, parts = index_of(said), UserIndex(7)
    held: list[SearchChanges] = []
    for start, end in zip([0, *places], [*places, len(said)], strict=True):
        new = changes(said[start:end], first=start)
        held.append(SearchChanges(7, [], new.vectors))
        assert parts.apply(new._replace(vectors=[]) if late else new)
    for new in held if late else []:
        assert parts.apply(new)
    for name in ("numbers", "times", "asks", "time_words", "speaker_of", "previous", "next", "has_vector"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name
    assert (whole.places, whole.speakers, whole.models) == (parts.places, parts.speakers, parts.models)
    assert np.array_equal(whole.similarities(VECTOR), parts.similarities(VECTOR), equal_nan=True)
    assert whole.last_number == parts.last_number == (3 * len(said) + 2 if said else 0)
    for word in (*WORDS, "xylophone"):
        for found, expected in zip(_found(parts, word), _found(whole, word), strict=True):
            assert np.array_equal(found, expected)


def _found(index: UserIndex, word: str) -> tuple[list[int], list[float]]:
    rows, frequencies = index.postings.find(term_hash(terms_of(word)[0]))
    pairs = sorted(zip(rows.tolist(), frequencies.tolist(), strict=True))
    return [row for row, _ in pairs], [count for _, count in pairs]


@given(talks)
def test_image_holds_what_the_rows_hold(said: list[Said]) -> None:
    """Places, speakers, times, neighbours and terms are those of the messages."""
    index = index_of(said)
    assert len(index) == len(said)
    places = {number: place for place, number in index.places.items()}
    speakers: dict[int, str | None] = {number: name for name, number in index.speakers.items()}
    for row, message in enumerate(said):
        assert places[int(index.place_of[row])] == Place(*message.place)
        assert speakers.get(int(index.speaker_of[row])) == message.speaker
        assert (int(index.times[row]), bool(index.asks[row])) == (message.time, message.asks)
        assert int(index.time_words[row]) == ("yesterday" in message.words)
        assert bool(index.has_vector[row]) == bool(message.pieces)
    links = list(zip(index.previous.tolist(), index.next.tolist(), strict=True))
    assert links == reference.neighbours(said)
    for word in WORDS:
        term = terms_of(word)[0]
        bags = [reference.counts(message) for message in said]
        having = [(row, bag[term]) for row, bag in enumerate(bags) if term in bag]
        assert _found(index, word) == ([row for row, _ in having], [count for _, count in having])


@given(talks)
def test_similarity_is_that_of_the_nearest_piece(said: list[Said]) -> None:
    """Of a long message the best piece counts and is named; what has no vector has NaN."""
    index = index_of(said)
    found = index.similarities(VECTOR)
    for row, message in enumerate(said):
        expected = reference.cosine(message, VECTOR.tolist())
        assert math.isclose(found[row], expected, abs_tol=1e-6) or (
            math.isnan(found[row]) and math.isnan(expected)
        )
        piece = index.best_segment(row, VECTOR)
        if len(message.pieces) < 2:
            assert piece is None
        else:
            assert piece is not None
            place = piece[0] // 100
            assert piece == (100 * place, 100 * place + 120)
            assert math.isclose(float(np.dot(message.pieces[place], VECTOR)), expected, abs_tol=1e-6)


@given(talks, st.lists(st.sampled_from((*WORDS, "xylophone")), unique=True, max_size=6))
def test_text_scores_are_those_of_the_formula(said: list[Said], words: list[str]) -> None:
    """BM25, the rarity of terms and the share of them that a message has are as written out."""
    terms = [terms_of(word)[0] for word in words]
    text = score_text(index_of(said).postings, terms)
    assert np.allclose(text.scores, reference.bm25(said, terms), rtol=1e-4)
    assert np.allclose(text.weights, reference.rarities(said, terms), rtol=1e-4)
    share = text.coverage(text.bits) / max(text.total, 1e-6)
    assert np.allclose(share, reference.coverage(said, terms), rtol=1e-4, atol=1e-5)
    assert 0 <= text.known <= text.total + 1e-4


def test_sixty_four_terms_have_a_bit_each() -> None:
    """As many terms as there are bits are told apart, the last one too."""
    terms = [f"word{n}" for n in range(64)]
    index = index_of([Said([term]) for term in terms] + [Said(terms)])
    text = score_text(index.postings, terms)
    assert [int(bits) for bits in text.bits] == [1 << n for n in range(64)] + [2**64 - 1]
    assert math.isclose(float(text.coverage(text.bits[-1:])[0]), text.total, rel_tol=1e-4)


def test_term_is_found_when_its_hash_is_the_highest_or_the_lowest() -> None:
    """The borders of the range of hashes are inside."""
    postings = Postings()
    postings.extend([b"\0\0\0\0\xff\xff\xff\xff", b"\xff\xff\xff\xff"], [b"\x01\xff", b"\x02"])
    assert [found.tolist() for found in postings.find(0)] == [[0], [1.0]]
    assert [found.tolist() for found in postings.find(2**32 - 1)] == [[0, 1], [255.0, 2.0]]
    assert [found.tolist() for found in postings.find(5)] == [[], []]


def test_postings_stay_sorted_when_the_small_part_is_merged() -> None:
    """Rows that come one by one, beyond the size of the small part, are all found."""
    postings = Postings()
    count = 40
    terms = np.arange(1_000, dtype="<u4").tobytes()
    for _ in range(count):
        postings.extend([terms], [b"\x01" * 1_000])
    for term in (0, 500, 999):
        assert sorted(postings.find(term)[0].tolist()) == list(range(count))
    assert postings.lengths.tolist() == [1_000.0] * count
    assert postings.nbytes >= 8 * 1_000 * count


def test_image_is_empty_when_there_is_nothing() -> None:
    """No message, no vector, no size to speak of; and it can be asked."""
    index = UserIndex(7)
    assert index.apply(SearchChanges(7, [], []))
    assert (len(index), index.last_number, index.last_stamp) == (0, 0, 0)
    assert len(index.similarities(VECTOR)) == 0
    assert index.best_segment(0, VECTOR) is None
    index.check_model("any", 4)
    assert index.apply(SearchChanges(7, [], [vector_row(9, 5, [[1.0] * 4])]))
    assert (index.last_stamp, index.models) == (9, set())


def test_vectors_of_messages_that_are_not_in_the_image_are_passed_over() -> None:
    """Vectors may come for rows beyond the index's limit, alone and among others."""
    index = index_of([Said(["cello"], pieces=[[1.0, 0.0, 0.0, 0.0]]), Said(["dog"])])
    assert index.apply(SearchChanges(7, [], [vector_row(20, 2, [[1.0] * 4])]))
    assert index.has_vector.tolist() == [True, False]
    more = [vector_row(21, 2, [[1.0] * 4]), vector_row(22, 8, [[0.0, 1.0, 0.0, 0.0]])]
    assert index.apply(SearchChanges(7, [], more))
    assert index.has_vector.tolist() == [True, True]
    assert np.allclose(index.similarities(VECTOR), [0.5, -0.5])


def test_image_is_read_anew_when_it_cannot_be_brought_up_to_date() -> None:
    """Another epoch, vectors made anew, and a second model all end it."""
    said = [Said(["cello"], pieces=[[1.0] * 4])]
    assert not index_of(said).apply(SearchChanges(8, [], []))
    assert not index_of(said).apply(SearchChanges(7, [], [vector_row(9, 5, [[0.5] * 4])]))
    mixed = index_of([*said, Said(["dog"])])
    assert mixed.apply(SearchChanges(7, [], [vector_row(9, 8, [[0.5] * 4], "other")]))
    assert mixed.models == {VectorModel("m", DIMENSIONS), VectorModel("other", DIMENSIONS)}
    assert not mixed.apply(SearchChanges(7, [], []))
    for model in ("m", "other"):
        with pytest.raises(EmbedderChangedError):
            mixed.check_model(model, DIMENSIONS)


def test_image_grows_in_size_with_what_it_holds() -> None:
    """Its reckoned size counts vectors, terms and names."""
    few = index_of([Said(WORDS, pieces=[[1.0] * 4])] * 10)
    many = index_of([Said(WORDS, pieces=[[1.0] * 4])] * 1_000)
    assert 50 < many.nbytes / few.nbytes < 110


@given(st.lists(st.lists(st.integers(0, 255), max_size=9), max_size=9), st.booleans())
def test_appended_values_are_in_order(parts: list[list[int]], owned: bool) -> None:  # noqa: FBT001 - Hypothesis gives it
    """Adding in parts, empty ones and views of other arrays too, gives the whole in order."""
    values = np.empty(0, dtype=np.uint8)
    for part in parts:
        new = np.array([*part, 77], dtype=np.uint8)[:-1]
        values = append(values, new.copy() if owned else new)
    assert values.tolist() == [value for part in parts for value in part]


def test_appending_seldom_copies() -> None:
    """A row at a time costs a few copies, and what was there stays as it is."""
    values, copies = np.empty(0, dtype=np.int64), 0
    for number in range(1_000):
        larger = append(values, np.array([number]))
        copies += not np.shares_memory(values, larger)
        values = larger
    assert values.tolist() == [*range(1_000)]
    assert copies < 12
