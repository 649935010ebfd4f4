"""A text is split into overlapping segments that cover it, at borders a reader would choose."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.timing import assert_costs_little_more, long_text

from recollect.text.segments import MAX_SEGMENTS, Segment, split_into_segments

SENTENCE = "The boat left the harbour before dawn, and nobody on the quay saw it go. "
PARAGRAPH = SENTENCE * 4 + "\n\n"
ALPHABETS = (
    "ab .\n",
    "中文\uff0c。",
    "e\u0301\u0308x ",
    "\U0001f468\u200d\U0001f469\U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd",
    "\ud83d\udc4d\ud800 x",
    "\u1112\u1161\u11ab \r\n",
)


def texts() -> st.SearchStrategy[str]:
    """Texts of many scripts, from nothing to a few dozen segments."""
    runs = st.sampled_from(ALPHABETS).flatmap(lambda letters: st.text(letters, max_size=60))
    repeated = st.tuples(runs, st.integers(1, 200)).map(lambda pair: pair[0] * pair[1])
    return st.lists(repeated | st.text(max_size=300), max_size=6).map("".join)


@given(texts())
def test_segments_cover_the_text_in_order_with_an_overlap(text: str) -> None:
    """Each segment begins inside the one before it and ends after it; the last ends with the text."""
    found = split_into_segments(text)
    assert bool(found) == bool(text)
    if not found or len(found) == MAX_SEGMENTS:
        return
    assert (found[0].start, found[-1].end) == (0, len(text))
    for one, other in pairwise(found):
        assert one.start < other.start < one.end < other.end
        assert one.end - other.start <= 160
    assert all(0 < segment.end - segment.start <= 1000 for segment in found)


@given(texts())
def test_cutting_is_the_same_every_time_and_bounded(text: str) -> None:
    """The same text has the same segments, never more than the bound."""
    assert split_into_segments(text) == split_into_segments(text)
    assert len(split_into_segments(text)) <= MAX_SEGMENTS


@given(texts())
def test_graphemes_are_not_split(text: str) -> None:
    """No segment begins with a mark or splits a surrogate pair, except in runs of marks that no text has."""
    for start, _ in split_into_segments(text)[1:]:
        before, after = text[start - 1], text[start]
        hostile = all(unicodedata.category(char)[0] == "M" for char in text[start - 31 : start + 1])
        assert hostile or unicodedata.category(after)[0] != "M"
        assert not ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
        assert (before, after) != ("\r", "\n")


@pytest.mark.parametrize("text", ["x", "Hello there.", SENTENCE * 10, "a" * 1000, "中" * 250, " ", "\n"])
def test_message_is_one_segment_when_it_is_short(text: str) -> None:
    """Most messages are embedded whole."""
    assert split_into_segments(text) == [Segment(0, len(text))]


def test_nothing_has_no_piece() -> None:
    """An empty text has nothing to embed."""
    assert split_into_segments("") == []


def test_cut_falls_between_paragraphs_when_there_are_some() -> None:
    """A segment ends with a paragraph, and the next begins with a sentence of it."""
    text = PARAGRAPH * 20
    found = split_into_segments(text)
    assert all(text[:end].endswith("\n\n") for _, end in found)
    assert all(text[start:].startswith("The boat") for start, _ in found)


def test_cut_falls_between_sentences_when_there_is_one_paragraph() -> None:
    """Without paragraphs a sentence is the next best."""
    text = SENTENCE * 60
    assert all(text[:end].endswith("it go. ") for _, end in split_into_segments(text))
    assert all(text[start:].startswith("The boat") for start, _ in split_into_segments(text))


def test_cut_falls_between_words_when_there_is_no_sentence() -> None:
    """A list of words is never cut inside one."""
    text = "harbour " * 500
    assert all(text[start:].startswith("harbour ") for start, _ in split_into_segments(text))
    assert all(text[:end].endswith("harbour ") for _, end in split_into_segments(text))


def test_text_is_cut_between_characters_when_it_has_no_borders() -> None:
    """A long word of Latin letters still gets segments of the usual size."""
    found = split_into_segments("x" * 5000)
    assert found[:2] == [Segment(0, 800), Segment(680, 1480)]


def test_segments_have_fewer_characters_when_the_script_takes_more_tokens() -> None:
    """Chinese has about a token for each character, so its segments are shorter; they end with sentences."""
    text = "我们昨天在海边看到了一只很大的白色海鸟\uff0c它在沙滩上走来走去。" * 40
    found = split_into_segments(text)
    assert all(130 < end - start < 340 for start, end in found)
    assert all(text[end - 1] == "。" for _, end in found)
    assert all(text[start - 1] in "。\uff0c" for start, _ in found[1:])
    assert max(end - start for start, end in split_into_segments("Слово " * 900)) <= 560


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\U0001f1e9\U0001f1ea",
        "\U0001f44d\U0001f3fd",
        "\u1112\u1161\u11ab",
        "\u0915\u094d\u0937\u0940",
        "\r\n",
    ],
)
def test_cluster_is_not_split_when_a_text_is_made_of_it(cluster: str) -> None:
    """A grapheme stays in one segment, wherever the cut would fall."""
    for shift in range(4):
        text = "x" * shift + cluster * (1000 if cluster.isascii() else 450)
        found = split_into_segments(text)
        assert len(found) > 1
        for start, end in found[:-1]:
            assert (max(0, start - shift) % len(cluster), (end - shift) % len(cluster)) == (0, 0)


def test_later_text_has_no_segment_when_the_text_is_huge() -> None:
    """The number of segments is bounded; the first of them cover the beginning without a gap."""
    found = split_into_segments(SENTENCE * 100_000)
    assert len(found) == MAX_SEGMENTS
    assert found[-1].end > 150_000


@pytest.mark.parametrize(
    "text",
    [
        " " * 2**25,
        "\n" * 2**25,
        "\n \t" * 2**23,
        "." * 2**25,
        "\u0301" * 2**24,
        "\u200d" * 2**24,
        "\U0001f1e9" * 2**23,
        "." * 2**24 + " x" * 2**23,
        "\udc00" * 2**23,
    ],
    ids=lambda text: f"{text[:3]!a}",
)
def test_time_is_bounded_when_the_text_is_hostile(text: str) -> None:
    """Thirty-two megabytes of borders, or of none, are not all read."""
    assert len(split_into_segments(text)) == MAX_SEGMENTS
    assert_costs_little_more(split_into_segments, long_text(SENTENCE, len(text)), text, times=30)
