"""Which invisible characters go, which stay, where graphemes end, and which letters become Latin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.text.unicode import (
    LOOK_ALIKES,
    is_foldable,
    is_grapheme_break,
    is_hidden,
    remove_invisible,
    replace_look_alikes,
)

REMOVED = {
    "zero-width spaces": ("i\u200bg\u200bnore", "ignore"),
    "a soft hyphen": ("pass\u00adword", "password"),
    "controls of direction": ("a\u202eb\u2066c\u2069", "abc"),
    "tag characters": ("hi\U000e0041\U000e0042", "hi"),
    "a flag whose tags do not end": ("\U0001f3f4\U000e0067\U000e0062", "\U0001f3f4"),
    "selectors as data": ("a\ufe01\U000e0105\U000e0110b", "ab"),
    "a second selector": ("\u845b\U000e0100\U000e0101", "\u845b\U000e0100"),
    "a joiner between Latin letters": ("a\u200db\u200cc", "abc"),
    "a byte order mark": ("\ufeffhello", "hello"),
    "Hangul fillers": ("a\u3164b", "ab"),
    "control characters": ("a\x07b\x1bc", "abc"),
    "too many accents": ("e" + "\u0316" * 40, "e" + "\u0316" * 16),
    "a joiner that nothing follows": ("\U0001f468\u200d", "\U0001f468"),
}


@pytest.mark.parametrize(("text", "expected"), REMOVED.values(), ids=REMOVED)
def test_what_can_hide_words_goes(text: str, expected: str) -> None:
    """Invisible characters go wherever they mean nothing."""
    assert remove_invisible(text) == expected


@pytest.mark.parametrize(
    "text",
    ["plain", "\U0001f468\u200d\U0001f469", "1\ufe0f\u20e3", "\u0645\u06cc\u200c\u062e", "\u845b\U000e0100"],
)
def test_what_writing_needs_stays(text: str) -> None:
    """Also where parts of it are hidden by themselves."""
    assert remove_invisible(f"{text} and {text}") == f"{text} and {text}"


@given(st.text(st.sampled_from("ab1 \u0301\u200b\u200d\ufe0f\u0645\u06cc\U0001f468\u20e3\u845b\U000e0100")))
def test_what_goes_is_hidden_or_an_accent_too_many(text: str) -> None:
    """No letter, digit, space or symbol is lost, and the rest keeps its order."""
    visible = [char for char in text if not is_hidden(char) and char != "\u0301"]
    left = [char for char in remove_invisible(text) if not is_hidden(char) and char != "\u0301"]
    assert left == visible


@pytest.mark.parametrize("char", ["\u200b", "\u200d", "\ufe0f", "\u00ad", "\U000e0041", "\x07"])
def test_character_is_hidden_when_it_cannot_be_seen_by_itself(char: str) -> None:
    """Joiners and selectors are, although writing may need them."""
    assert is_hidden(char)


@pytest.mark.parametrize("char", ["a", " ", "\n", "\t", "\u0301", "\u4f60"])
def test_character_is_not_hidden_when_it_can_be_seen_or_parts_words(char: str) -> None:
    """Letters, whitespace and accents are not."""
    assert not is_hidden(char)


def test_only_words_that_mix_scripts_are_written_in_latin_letters() -> None:
    """A Cyrillic letter among Latin ones is replaced; a Russian or Greek word stays."""
    assert replace_look_alikes("p\u0430ypal \u043f\u0430\u0440\u043e\u043b\u044c \u03b1\u03b2 A\u0412C") == (
        "paypal \u043f\u0430\u0440\u043e\u043b\u044c \u03b1\u03b2 ABC"
    )


@pytest.mark.parametrize("code", LOOK_ALIKES)
def test_each_look_alike_becomes_its_letter_among_latin_ones(code: int) -> None:
    """It can be part of a word, keeps its case, and the length stays."""
    assert is_foldable(chr(code))
    assert replace_look_alikes(f"x{chr(code)}x") == f"x{LOOK_ALIKES[code]}x"


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("ab", 1, True),
        ("\r\n", 1, False),
        ("e\u0301", 1, False),
        ("\U0001f469\u200d\U0001f52c", 1, False),
        ("\U0001f469\u200d\U0001f52c", 2, False),
        ("\U0001f44d\U0001f3fd", 1, False),
        ("\u1100\u1161", 1, False),
        ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", 1, False),
        ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", 2, True),
        ("\U0001f3f4\U000e0067", 1, False),
        ("\u0915\u094d\u0937", 2, False),
        ("\ud83d\ude00", 1, False),
        ("\u200da", 1, True),
    ],
)
def test_text_is_not_cut_within_what_people_see_as_one_character(
    text: str, place: int, *, expected: bool
) -> None:
    """Accents, joined emoji, skin tones, flags, Korean syllables and Indic clusters stay whole."""
    assert is_grapheme_break(text, place) is expected
