"""Text folded for comparison, with the original position of every character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.text.folding import fold, fold_character

PLAIN = {
    "capitals": ("Hello", "hello"),
    "accents": ("Été naïve Ångström", "ete naive angstrom"),
    "marks of their own": ("e\u0301te\u0301", "ete"),
    "strokes and ligatures": ("Łódź smørrebrød ﬁne", "lodz smorrebrod fine"),
    "invisible characters": ("pass\u200bword\u00ad\U000e0041", "password"),
    "full-width letters": ("\uff28\uff29", "hi"),
    "letters that pose as Latin": ("p\u0430ssword", "password"),
    "Russian": ("Привет", "привет"),
    "marks that other scripts need": ("हिन्दी", "हिन्दी"),
    "a letter that becomes two": ("Straße", "strasse"),
}


@pytest.mark.parametrize(("text", "expected"), PLAIN.values(), ids=PLAIN)
def test_text_is_made_plain(text: str, expected: str) -> None:
    """Case, accents, look-alikes and invisible characters make no difference."""
    assert fold(text).text == expected


@given(st.text(st.sampled_from("aÉ\u0301\u200b ßﬁ\u0430中क\u094d😀"), max_size=20))
def test_every_character_knows_its_place(text: str) -> None:
    """Each folded character comes from the character at its original position."""
    folded = fold(text)
    places = range(len(text)) if folded.places is None else folded.places
    assert len(places) == len(folded.text)
    assert list(places) == sorted(places)
    for place, _ in enumerate(folded.text):
        start, end = folded.span(place, place + 1)
        assert (start, end) == (places[place], places[place] + 1)
        assert fold_character(text[start]) != ""


def test_span_covers_what_was_left_out_within_it() -> None:
    """Invisible characters between two letters belong to what is found there; nothing spans nothing."""
    folded = fold("É\u200bté!")
    assert folded.text == "ete!"
    assert folded.span(0, 3) == (0, 4)
    assert folded.span(1, 1) == (2, 3)
    assert fold("plain").span(1, 3) == (1, 3)
