"""Normalizing text: what stays, what goes, and that every chunking gives the same result."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.profiles import examples
from tests.support.timing import assert_costs_little_more, long_text

from recollect.text.normalizing import LONGEST, NormalizingStream, Style, normalize

KEPT = {
    "a family": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "a flag": "\U0001f1e9\U0001f1ea",
    "the flag of Scotland": "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "a rainbow flag": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "a skin tone": "\U0001f44d\U0001f3fd",
    "a woman of a skin tone at work": "\U0001f469\U0001f3fd\u200d\U0001f4bb",
    "a keycap": "1\ufe0f\u20e3",
    "a red heart": "\u2764\ufe0f",
    "a telephone as text": "\u260e\ufe0e",
    "Persian with a joiner": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "Hindi half letter": "\u0915\u094d\u200d\u0937",
    "Hindi without joining": "\u0915\u094d\u200c\u0937",
    "a variant of a Chinese character": "\u845b\U000e0100\u57ce",
    "Russian": "\u041f\u0440\u0438\u0432\u0435\u0442, \u043a\u0430\u043a \u0434\u0435\u043b\u0430?",
    "Korean": "\uc548\ub155\ud558\uc138\uc694",
    "code": "def f(x):\n\treturn  x",
}
FOLDED = {
    "Find the \ufb01le": "Find the file",
    "\uff21\uff22\uff23": "ABC",
    "e\u0301": "\u00e9",
    "e\u200b\u0301": "\u00e9",
    "\u2122\ufe0f": "TM",
    "\U0001d408\U0001d420": "Ig",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_writing_needs_stays(text: str) -> None:
    """Emoji sequences, and joiners between letters that need them, are left as they are."""
    assert normalize(f"x {text} y", Style()) == f"x {text} y"


@pytest.mark.parametrize(("text", "expected"), FOLDED.items())
def test_compatible_forms_become_plain_letters(text: str, expected: str) -> None:
    """Ligatures, wide letters and letters of mathematics become ordinary ones."""
    assert normalize(text, Style()) == expected


def test_the_form_can_be_another_or_none() -> None:
    """NFC keeps the ligature, and no form at all keeps two characters as two."""
    assert normalize("\ufb01 e\u0301", Style(form="NFC")) == "\ufb01 \u00e9"
    assert normalize("\ufb01 e\u0301", Style(form=None)) == "\ufb01 e\u0301"


def test_whitespace_is_collapsed_and_trimmed_when_wanted() -> None:
    """Several spaces become one, several line breaks at most an empty line; both ends are trimmed."""
    text = " \n a  b \n c\n\n\n\nd \t"
    assert normalize(text, Style(collapse_whitespace=True)) == "a b\nc\n\nd"
    assert normalize(text, Style(collapse_whitespace=True, trim=False)) == "\na b\nc\n\nd "
    assert normalize(text, Style()) == "a  b \n c\n\n\n\nd"
    assert normalize(text, Style(trim=False)) == text


def test_letters_that_pose_as_latin_are_replaced_when_wanted() -> None:
    """A word is left as it was written, unless that is asked for."""
    assert normalize("p\u0430ypal", Style(confusables=True)) == "paypal"
    assert normalize("p\u0430ypal", Style()) == "p\u0430ypal"


_characters = st.one_of(
    st.sampled_from(
        "ab 1\n\t.-\u200b\u200c\u200d\ufe0f\ufe0e\u0301\u0316\u0645\u06cc\u0915\u094d\u0937\ufb01\u2764\u20e3"
        "\u1100\u1161\u11a8\uac00\uff76\uff9e\u0430\u043e\u845b\U0001f468\U0001f3fd\U0001f1e9\U0001f3f4"
        "\U000e0067\U000e007f\U000e0100\u3164\u00ad\u202e\x07\u0344\u2126\u212b\u1e9b\u0323"
    ),
    st.characters(exclude_categories=("Cs",)),
)
_texts = st.text(_characters, max_size=30)
_styles = st.builds(
    Style,
    form=st.sampled_from(("NFKC", "NFC", None)),
    collapse_whitespace=st.booleans(),
    trim=st.booleans(),
    confusables=st.booleans(),
)


@examples(4)
@given(_texts, _styles, st.data())
def test_a_stream_gives_what_the_whole_text_gives_however_it_is_cut(
    text: str, style: Style, data: st.DataObject
) -> None:
    """No chunk border changes the result."""
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=10)))
    stream = NormalizingStream(style)
    out = [
        stream.feed(text[start:end]) for start, end in zip([0, *places], [*places, len(text)], strict=True)
    ]
    assert "".join(out) + stream.finish() == normalize(text, style)


@examples(4)
@given(_texts, _styles)
def test_normalizing_twice_is_normalizing_once(text: str, style: Style) -> None:
    """A normalized text is left alone."""
    once = normalize(text, style)
    assert normalize(once, style) == once


@pytest.mark.parametrize("unit", ["\u0951", "\u200d", "\U0001f468\u200d", "\u0431", "e\u0301", "\U000e0067"])
def test_a_stream_holds_back_no_more_than_its_limit(unit: str) -> None:
    """However long a sequence goes on, at most 256 characters wait; the result stays that of the whole."""
    for style in (Style(), Style(confusables=True)):
        stream = NormalizingStream(style)
        out = ""
        for _ in range(1200):
            out += stream.feed(unit)
            assert len(stream._held) <= LONGEST  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - what waits is what is tested
        assert out + stream.finish() == normalize(unit * 1200, style)


def test_no_character_that_text_is_cut_before_joins_with_the_one_before_it() -> None:
    """No second half of a composed character counts as a beginning."""
    seconds: set[str] = set()
    for code in range(sys.maxunicode + 1):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(chr(int(parts[1], 16)))
    stream = NormalizingStream(Style())
    assert not [
        second
        for second in seconds
        if stream._can_cut("a" + second, 1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the rule of cutting is what is tested
    ]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\uff21\u0435", "Ae"),
        ("be\u0301\u0430", "b\u00e9a"),
        ("\ufb01\u0435", "fie"),
        ("\u24b6\u0435", "Ae"),
    ],
)
def test_word_is_plain_however_it_is_cut_when_its_letters_have_other_forms(text: str, plain: str) -> None:
    """Wide letters, ligatures and separate accents belong to the word."""
    style = Style(confusables=True)
    assert normalize(text, style) == plain
    stream = NormalizingStream(style)
    assert "".join([*map(stream.feed, text), stream.finish()]) == plain


def test_a_hostile_text_costs_little_more_than_an_ordinary_one() -> None:
    """A crafted text takes at most 20 times as long as plain words of the same length."""
    size = 200_000
    style = Style(confusables=True, collapse_whitespace=True)
    units = (
        "\u0301",
        "\u200d",
        "\U0001f468\u200d",
        "\u0431",
        "\ufe0f",
        " ",
        "a\u0301",
        "\U0001f3f4\U000e0067",
    )
    hostile = [long_text(unit, size) for unit in units]
    ordinary = long_text("w\u00f6rter und mehr ", size)
    assert_costs_little_more(lambda text: normalize(text, style), ordinary, *hostile)


@pytest.mark.parametrize("style", [Style(), Style(confusables=True)], ids=["plain", "confusables"])
def test_a_hostile_stream_costs_little_more_than_an_ordinary_one(style: Style) -> None:
    """What is held back is not looked at again with every chunk."""
    size = 40_000

    def stream(text: str) -> None:
        stream = NormalizingStream(style)
        for character in text:
            stream.feed(character)
        stream.finish()

    units = (
        "a",
        "\u0430b",
        "\u0301",
        "\u200d",
        "\U0001f468\u200d",
        "\u0627\u200c",
        "\u0915\u094d\u200d",
    )
    hostile = [long_text(unit, size) for unit in units]
    assert_costs_little_more(stream, long_text("words and more ", size), *hostile)
