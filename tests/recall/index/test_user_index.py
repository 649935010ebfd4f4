"""The image of a user against plain references: however it is filled, it holds what the rows hold."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recall import reference
from tests.recall.rows import DIMENSIONS, VECTOR, WORDS, Said, changes, image_of, talks, vector_row

from recollect.errors import EmbedderChangedError
from recollect.recall.index.postings import Postings, score_text
from recollect.recall.index.user_index import Column, Image, Place
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
    whole, parts = image_of(said), Image(7)
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


def _found(image: Image, word: str) -> tuple[list[int], list[float]]:
    rows, frequencies = image.postings.find(term_hash(terms_of(word)[0]))
    pairs = sorted(zip(rows.tolist(), frequencies.tolist(), strict=True))
    return [row for row, _ in pairs], [count for _, count in pairs]


@given(talks)
def test_image_holds_what_the_rows_hold(said: list[Said]) -> None:
    """Places, speakers, times, neighbours and terms are those of the messages."""
    image = image_of(said)
    assert len(image) == len(said)
    places = {number: place for place, number in image.places.items()}
    speakers: dict[int, str | None] = {number: name for name, number in image.speakers.items()}
    for row, message in enumerate(said):
        assert places[int(image.place_of[row])] == Place(*message.place)
        assert speakers.get(int(image.speaker_of[row])) == message.speaker
        assert (int(image.times[row]), bool(image.asks[row])) == (message.time, message.asks)
        assert int(image.time_words[row]) == ("yesterday" in message.words)
        assert bool(image.has_vector[row]) == bool(message.pieces)
    links = list(zip(image.previous.tolist(), image.next.tolist(), strict=True))
    assert links == reference.neighbours(said)
    for word in WORDS:
        term = terms_of(word)[0]
        bags = [reference.counts(message) for message in said]
        having = [(row, bag[term]) for row, bag in enumerate(bags) if term in bag]
        assert _found(image, word) == ([row for row, _ in having], [count for _, count in having])


@given(talks)
def test_similarity_is_that_of_the_nearest_piece(said: list[Said]) -> None:
    """Of a long message the best piece counts and is named; what has no vector has NaN."""
    image = image_of(said)
    found = image.similarities(VECTOR)
    for row, message in enumerate(said):
        expected = reference.cosine(message, VECTOR.tolist())
        assert math.isclose(found[row], expected, abs_tol=1e-6) or (
            math.isnan(found[row]) and math.isnan(expected)
        )
        piece = image.best_piece(row, VECTOR)
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
    text = score_text(image_of(said).postings, terms)
    assert np.allclose(text.scores, reference.bm25(said, terms), rtol=1e-4)
    assert np.allclose(text.weights, reference.rarities(said, terms), rtol=1e-4)
    share = text.coverage(text.bits) / max(text.total, 1e-6)
    assert np.allclose(share, reference.coverage(said, terms), rtol=1e-4, atol=1e-5)
    assert 0 <= text.known <= text.total + 1e-4


def test_sixty_four_terms_have_a_bit_each() -> None:
    """As many terms as there are bits are told apart, the last one too."""
    terms = [f"word{n}" for n in range(64)]
    image = image_of([Said([term]) for term in terms] + [Said(terms)])
    text = score_text(image.postings, terms)
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
    image = Image(7)
    assert image.apply(SearchChanges(7, [], []))
    assert (len(image), image.last_number, image.last_stamp) == (0, 0, 0)
    assert len(image.similarities(VECTOR)) == 0
    assert image.best_piece(0, VECTOR) is None
    image.check_model("any", 4)
    assert image.apply(SearchChanges(7, [], [vector_row(9, 5, [[1.0] * 4])]))
    assert (image.last_stamp, image.models) == (9, set())


def test_vectors_of_messages_that_are_not_in_the_image_are_passed_over() -> None:
    """Vectors may come for rows beyond the image's limit, alone and among others."""
    image = image_of([Said(["cello"], pieces=[[1.0, 0.0, 0.0, 0.0]]), Said(["dog"])])
    assert image.apply(SearchChanges(7, [], [vector_row(20, 2, [[1.0] * 4])]))
    assert image.has_vector.tolist() == [True, False]
    more = [vector_row(21, 2, [[1.0] * 4]), vector_row(22, 8, [[0.0, 1.0, 0.0, 0.0]])]
    assert image.apply(SearchChanges(7, [], more))
    assert image.has_vector.tolist() == [True, True]
    assert np.allclose(image.similarities(VECTOR), [0.5, -0.5])


def test_image_is_read_anew_when_it_cannot_be_brought_up_to_date() -> None:
    """Another epoch, vectors made anew, and a second model all end it."""
    said = [Said(["cello"], pieces=[[1.0] * 4])]
    assert not image_of(said).apply(SearchChanges(8, [], []))
    assert not image_of(said).apply(SearchChanges(7, [], [vector_row(9, 5, [[0.5] * 4])]))
    mixed = image_of([*said, Said(["dog"])])
    assert mixed.apply(SearchChanges(7, [], [vector_row(9, 8, [[0.5] * 4], "other")]))
    assert mixed.models == {VectorModel("m", DIMENSIONS), VectorModel("other", DIMENSIONS)}
    assert not mixed.apply(SearchChanges(7, [], []))
    for model in ("m", "other"):
        with pytest.raises(EmbedderChangedError):
            mixed.check_model(model, DIMENSIONS)


def test_image_grows_in_size_with_what_it_holds() -> None:
    """Its reckoned size counts vectors, terms and names."""
    few = image_of([Said(WORDS, pieces=[[1.0] * 4])] * 10)
    many = image_of([Said(WORDS, pieces=[[1.0] * 4])] * 1_000)
    assert 50 < many.nbytes / few.nbytes < 110


@given(st.lists(st.lists(st.integers(0, 255), max_size=9), max_size=9))
def test_column_holds_what_was_added(parts: list[list[int]]) -> None:
    """Adding in parts, empty ones too, gives the whole in order."""
    column = Column(np.uint8)
    given_arrays = [np.array(part, dtype=np.uint8) for part in parts]
    for part in given_arrays:
        part.setflags(write=False)
        column.extend(part)
    assert column.values.tolist() == [value for part in parts for value in part]
    assert len(column) == len(column.values) <= column.nbytes
