"""Long messages: every word finds them, the hit shows the segment, and length is no advantage."""

import pytest
from tests.support.embedders import Remembering

from recollect import Memory, Message
from recollect.text.segments import MAX_SEGMENTS, analyse_segments, split_into_segments
from recollect.text.terms import Terms, analyse, term_hash, terms_of

pytestmark = pytest.mark.anyio

FILLER = "Nothing of note happened on that day, and so the diary goes on. "
BEYOND = FILLER * 4_000 + "At last the zeppelin landed."
"""A text that is longer than all its segments."""


@pytest.mark.parametrize("with_vectors", [True, False])
async def test_word_in_the_middle_is_found_and_its_segment_shown(with_vectors: bool) -> None:  # noqa: FBT001 - a case
    """The vector is that of the beginning, and yet the middle is found and shown."""
    text = f"{FILLER * 40}The zeppelin is in the attic. {FILLER * 40}"
    embedder = Remembering() if with_vectors else None
    async with Memory(resource_id="ada", semantic_recall=True, embedder=embedder) as memory:
        await memory.save_messages([Message("user", "We ate soup."), Message("user", text)])
        await memory.settled()
        found = await memory.query("zeppelin", message_range=0, explain=True)
    assert found[0].message.text == text
    assert "The zeppelin is in the attic." in found[0].text
    assert found[0].segment in split_into_segments(text)
    assert found[0].why is not None
    assert found[0].why.matched_terms == tuple(terms_of("zeppelin"))


@pytest.mark.parametrize("is_indexed", [True, False], ids=["stored rows", "no rows yet"])
async def test_text_beyond_the_last_segment_is_found(is_indexed: bool) -> None:  # noqa: FBT001 - a case
    """The last word of a text of more than 256 segments finds it, before and after its rows are stored."""
    assert split_into_segments(BEYOND)[-1].end < len(BEYOND)
    async with Memory(resource_id="ada", embedder=None) as memory:
        await memory.save_messages([Message("user", "We ate soup."), Message("user", BEYOND)])
        if is_indexed:
            await memory.settled()
        found = await memory.query("zeppelin", message_range=0, threshold=0.6)
    assert [hit.message.text for hit in found] == [BEYOND]
    assert found[0].segment is not None
    start, end = found[0].segment
    assert start == split_into_segments(BEYOND)[-1].end
    assert 0 < end - start <= 800


async def test_length_is_no_advantage() -> None:
    """A short message with the words of a question comes before a long one that has each somewhere."""
    long = f"{FILLER * 20}A zeppelin came. {FILLER * 20}We have an attic. {FILLER * 20}"
    async with Memory(resource_id="ada", embedder=None) as memory:
        await memory.add_message("user", long, thread_id="long")
        await memory.add_message("user", "The zeppelin is in the attic.", thread_id="short")
        found = await memory.query("zeppelin in the attic", message_range=0)
    assert found[0].text == "The zeppelin is in the attic."
    assert found[0].relevance > 1.5 * found[1].relevance


def test_terms_of_segments_are_parted_by_a_term_without_a_count() -> None:
    """Each segment has the terms that it has by itself, and the text after the last one is one more."""
    for text in ("The cello.", FILLER * 40, BEYOND):
        found = analyse_segments(text)
        spans = [tuple(span) for span in split_into_segments(text)]
        if spans[-1][1] < len(text):
            spans.append((spans[-1][1], len(text)))
        expected = [analyse(text[start:end]) for start, end in spans]
        assert found.hashes == bytes(4).join(terms.hashes for terms in expected)
        assert found.counts == bytes(1).join(terms.counts for terms in expected)
        assert found.counts.count(0) == len(spans) - 1 <= MAX_SEGMENTS
    assert term_hash(terms_of("zeppelin")[0]).to_bytes(4, "little") in analyse_segments(BEYOND).hashes


def test_long_text_without_words_has_no_terms() -> None:
    """Emoji and spaces, however many, leave nothing that an embedder would have to read."""
    for text in ("", " " * 5_000, "\U0001f600 " * 5_000):
        assert analyse_segments(text) == Terms(b"", b"")
