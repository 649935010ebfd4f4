"""Counting tokens and truncating text: exact, between words, and the same for every chunking."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.profiles import examples
from tests.support.strategies import cut
from tests.support.timing import assert_costs_little_more, long_text

from recollect import MissingExtraError
from recollect.text import tokens
from recollect.text.tokens import ENCODINGS, LONGEST_SEGMENT, Encoding, TokenCutter, count_tokens, truncate

FRAGMENTS = (
    *("word ", " the", "a", "Z", " ", "\n", "\r\n", "\t", ";", ".", ",", "'s", "'", "_", "/", "9", "12345"),
    *(
        "\u00e9",
        "e\u0301",
        "\u4f60\u597d",
        "\uff0c",
        "\u3002",
        "\U0001f469\u200d\U0001f52c",
        "\U0001f44d\U0001f3fd",
    ),
    *("\U0001f1e9\U0001f1ea", "x" * 60, "\u4e16\u754c" * 40, "\u0301" * 40, "https://example.com/a/b?c=d"),
    *("\u1100\u1161\u11a8", "\x1c", "\x85", "\u3000", "\U0001f3f4\U000e0067\U000e007f"),
)
any_text = st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join)
limits = st.sampled_from((1, 2, 3, 5, 10, 30, 100, 300, 600, 700, 1500))
encodings = st.sampled_from(ENCODINGS)


def through(cutter: TokenCutter, chunks: list[str]) -> str:
    """Return what a cutter releases of a stream."""
    return "".join(cutter.feed(chunk) for chunk in chunks) + cutter.finish()


def test_counts_are_those_of_the_encoding() -> None:
    """Known texts have the counts that the encodings' makers give."""
    assert count_tokens("") == 0
    assert count_tokens("hello world") == 2
    assert count_tokens("tiktoken is great!", "cl100k") == 6
    assert count_tokens("antidisestablishmentarianism") == count_tokens(
        "antidisestablishmentarianism", "o200k"
    )


@given(any_text, limits, encodings)
def test_cut_text_is_a_beginning_within_the_limit(text: str, limit: int, encoding: Encoding) -> None:
    """Whatever the text, what is left is its beginning and has no more tokens than allowed."""
    after = truncate(text, limit, encoding)
    assert text.startswith(after)
    assert count_tokens(after, encoding) <= limit


@given(
    st.lists(
        st.sampled_from(("word ", "boats, ", "and\n", "it's ", "42 ", "\u4f60\u597d\uff0c")), max_size=60
    ),
    limits,
)
def test_text_of_words_is_left_alone_when_it_fits(words: list[str], limit: int) -> None:
    """Text without a long unbroken run of characters is counted exactly."""
    text = "".join(words)
    cutter = TokenCutter(limit)
    after = through(cutter, [text])
    assert (after == text) == (count_tokens(text) <= limit) == (not cutter.is_full)


@examples(3)
@given(st.data(), any_text, limits, encodings)
def test_stream_is_cut_as_the_whole_text(
    data: st.DataObject, text: str, limit: int, encoding: Encoding
) -> None:
    """What is released does not depend on how the text comes in chunks."""
    cutter = TokenCutter(limit, encoding)
    assert through(cutter, data.draw(cut(text))) == truncate(text, limit, encoding)


@given(any_text, limits)
def test_no_more_is_held_back_than_one_segment(text: str, limit: int) -> None:
    """A stream waits for a word, or for the maximum that is counted of an unbroken text."""
    cutter, out = TokenCutter(limit), 0
    for fed, character in enumerate(text, 1):
        out += len(cutter.feed(character))
        assert cutter.is_full or fed - out <= LONGEST_SEGMENT


def test_cut_never_splits_a_word_or_a_grapheme() -> None:
    """A word that does not fit is dropped whole, and so is a grapheme of several code points."""
    assert truncate("The harbourmaster's extraordinarily unpronounceable boat", 4) == "The harbourmaster's"
    assert truncate("one two three", 2) == "one two"
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert truncate(family * 3, count_tokens(family) + 1) == family
    assert truncate("e\u0301" * 40, 3).endswith("e\u0301")
    assert truncate("\U0001f1e9\U0001f1ea" * 30, 5) in {"\U0001f1e9\U0001f1ea" * n for n in range(4)}


def test_unbroken_text_is_cut_inside_when_nothing_else_is_possible() -> None:
    """A first word that does not fit, a long URL and Chinese text are not dropped whole."""
    assert 0 < len(truncate("antidisestablishmentarianism", 3)) < 28
    assert truncate("see https://example.com/" + "path/" * 30, 20).startswith("see https://example.com/path")
    chinese = "\u4eca\u5929\u5929\u6c14\u5f88\u597d" * 30
    assert count_tokens(truncate(chinese, 20)) in range(15, 21)


def test_messages_of_one_answer_count_together() -> None:
    """After a message the next one has the rest of the limit, minus the line break between them."""
    cutter = TokenCutter(10)
    first = through(cutter, ["one two three four"])
    second = through(cutter, ["five six seven eight nine ten eleven"])
    assert first == "one two three four"
    assert second == "five six seven eight"
    assert cutter.is_full
    assert count_tokens(f"{first}\n{second}") <= 10


@given(
    messages=st.lists(
        st.lists(st.sampled_from(("the", "harbour", "of", "tea")), min_size=1), min_size=1, max_size=6
    ),
    size=st.integers(1, 40),
    more=st.integers(1, 400),
)
def test_last_message_is_cut_where_the_others_leave_off(
    messages: list[list[str]], size: int, more: int
) -> None:
    """Earlier messages count exactly, however they come in."""
    texts = [" ".join(words) for words in messages]
    used = sum(count_tokens(text) + 2 for text in texts)
    cutter = TokenCutter(used + more)
    last = " and so on, as ever" * 80
    for text in texts:
        assert through(cutter, [text[place : place + size] for place in range(0, len(text), size)]) == text
    chunks = [last[place : place + size] for place in range(0, len(last), size)]
    assert through(cutter, chunks) == truncate(last, more)


def test_words_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many chunks they come in, and however many messages there are."""
    counted: list[str] = []

    class Counting:
        """Notes what is counted."""

        def count(self, text: str) -> int:
            """Count a token for each character."""
            counted.append(text)
            return len(text)

    def tokenizer(encoding: str) -> Counting:
        del encoding
        return Counting()

    monkeypatch.setattr(tokens, "_load_tokenizer", tokenizer)
    cutter = TokenCutter(10**6)
    for _ in range(3):
        assert through(cutter, ["some te", "a ", "for two"]) == "some tea for two"
    assert "".join(counted) == "some tea for two" * 3


def test_text_is_released_word_by_word() -> None:
    """A word is held back until it is complete; no later text can change what was released."""
    cutter = TokenCutter(3)
    assert [cutter.feed(chunk) for chunk in ("one two thr", "ee four", " five")] == ["one two", " three", ""]
    assert cutter.is_full


@pytest.mark.parametrize("part", ["a", "\u4f60", " ", "\u0301", "\U0001f1e9", "a b", ";\n"])
def test_time_is_linear_when_the_text_is_hostile(part: str) -> None:
    """A text without a place to cut, in small chunks, costs no more than twenty with words."""

    def work(text: str) -> None:
        cutter = TokenCutter(10**6)
        for place in range(0, len(text), 50):
            cutter.feed(text[place : place + 50])
        cutter.finish()
        truncate(text, 10**6)

    assert_costs_little_more(work, long_text("words and more ", 400_000), long_text(part, 400_000))


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the tokenizer the error says what to install."""
    monkeypatch.setitem(sys.modules, "rs_bpe.bpe", None)
    tokens._load_tokenizer.cache_clear()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - it is loaded once
    with pytest.raises(MissingExtraError, match=r"recollect\[guard\]"):
        count_tokens("x")
