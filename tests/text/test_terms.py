"""Tests of the analyser: which terms a text gives, how they are packed, and that it stays linear."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import unicodedata
import zlib
from array import array
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.timing import processor_seconds

from recollect.text import terms as analyser
from recollect.text.terms import ANALYSER_VERSION, Terms, analyse, question_terms_of, term_hash, terms_of

if TYPE_CHECKING:
    from collections.abc import Callable

# Any code point at all, lone surrogates and NUL among them.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=80)

# Texts rich in what the rules turn on, which random code points would seldom bring together.
TRICKY = st.text(
    st.sampled_from(
        "aBz'\u2019\u02bc_ \n-.19\u00e9\u00df\u0130\u00bd\u0301\u0323\u200d\u200b\ufe0f\u20e3"
        "\u4e2d\u6587\u3042\u30ab\uff76\uff9e\ud55c\u0e44\u0e17\u0e51\u0915\u094d\u0636\u064e\u05d0\u05b8"
        "\u0439\u0390\u2014\u201c\u2026\U0001f600\U00020bb7\ud800\0"
    ),
    max_size=40,
)
TEXTS = st.one_of(ANY_TEXT, TRICKY, st.text(st.characters(codec="ascii"), max_size=80))

# Texts of any wanted length, each built to make some rule work hard.
HOSTILE: dict[str, Callable[[int], str]] = {
    "new words": lambda n: " ".join(f"w{i}" for i in range(n // 8)),
    "one word": lambda n: "a" * n,
    "one word, Unicode": lambda n: "\u0436" * n,
    "apostrophes": lambda n: "a'" * (n // 2),
    "apostrophes, Unicode": lambda n: "\u00e9'" * (n // 2),
    "only apostrophes": lambda n: "'" * n + "\u00e9",
    "marks out of order": lambda n: "a" + "\u0301\u0323" * (n // 2),
    "half-width voicing marks": lambda n: "\uff76" + "\uff9e\u0301" * (n // 2),
    "marks between ignorables": lambda n: "a" + "\u0301\ufe0f\u0323\u200d" * (n // 4),
    "one run of Han": lambda n: "\u4e2d" * n,
    "script borders": lambda n: "a\u4e2d" * (n // 2),
    "underscores and marks": lambda n: "_\u0915\u094d" * (n // 3),
}


def empty_cache() -> dict[str, int]:
    """Empty the word cache and return it."""
    hashes = cast("dict[str, int]", vars(analyser)["_hashes"])  # private, and reset between tests
    hashes.clear()
    return hashes


def unpack(terms: Terms) -> dict[int, int]:
    """Read packed terms back as a count for each hash."""
    hashes = array("I", terms.hashes)
    if sys.byteorder == "big":
        hashes.byteswap()
    return dict(zip(hashes, terms.counts, strict=True))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        (" \t\n.,;!?-\0", []),
        ("Running runners RUN", ["run", "runner", "run"]),
        ("nationalities", ["nation"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("e-mail: ada@example.com", ["e", "mail", "ada", "exampl", "com"]),
        ("In 2026 it was 3.5", ["in", "2026", "it", "was", "3", "5"]),
        ("GPT4s and mp3s", ["gpt4s", "and", "mp3s"]),
        ("nul\0byte", ["nul", "byte"]),
    ],
)
def test_terms_are_stems_when_words_are_latin_letters(text: str, terms: list[str]) -> None:
    """Words are runs of letters and digits, and only those made of letters alone are stemmed."""
    assert terms_of(text) == terms


@pytest.mark.parametrize("mark", ["'", "\u2019", "\u02bc", "\uff07"])
@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Ada's", ["ada"]),
        ("don't", ["dont"]),
        ("O'Brien's", ["obrien"]),
        ("we'll they're I've she'd I'm", ["we", "they", "i", "she", "i"]),
        ("GPT4's", ["gpt4"]),
        ("'quoted' dogs' 'tis", ["quot", "dog", "tis"]),
        ("a''b ' ''", ["a", "b"]),
    ],
)
def test_terms_hold_no_apostrophe_when_words_do(text: str, terms: list[str], mark: str) -> None:
    """An apostrophe belongs to a word only inside it, whichever character writes it, and no term keeps it."""
    assert terms_of(text.replace("'", mark)) == terms


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("\uff21\uff44\uff41", "ada"),  # full-width letters
        ("\ufb01le", "file"),  # a ligature
        ("Stra\u00dfe", "STRASSE"),
        ("cafe\u0301s", "CAF\u00c9"),  # composed or not, singular or plural
        ("\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", "\u03c3\u03af\u03c3\u03c5\u03c6\u03bf\u03c3"),  # sigma
        ("\u03aa\u0301", "\u0390"),  # equal only if normalised again after folding
        ("\uff76\uff9e", "\u30ac"),  # half-width katakana with its voicing mark
        ("co\u00adop", "coop"),  # soft hyphen
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u062e\u0648\u0627\u0647\u0645",
        ),  # Persian
        ("\u845b\U000e0100\u57ce", "\u845b\u57ce"),  # variation selector
        ("one\u200btwo", "one two"),  # zero width space
        ("one\uff3ftwo", "one two"),  # full-width underscore
        ("\u201cso\u201d\u2014he\u00a0said\u2026", "so he said"),
        ("ok \u2764\ufe0f\U0001f600 1\ufe0f\u20e3", "ok 1"),  # emoji and a keycap
    ],
)
def test_terms_are_equal_when_only_the_form_differs(text: str, same_as: str) -> None:
    """Writings of one word that differ only in form give the same terms."""
    assert terms_of(text) == terms_of(same_as) != []


@pytest.mark.parametrize(
    "word",
    [
        "\u0939\u093f\u0928\u094d\u0926\u0940",  # Hindi
        "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd",  # Tamil
        "\u0645\u064f\u062d\u064e\u0645\u0651\u062f",  # Arabic with vowel marks
        "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd",  # Hebrew with points
        "\u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442",  # Russian
        "\U00011013\U00011038\U00011013",  # Brahmi, beyond the basic plane
    ],
)
def test_words_stay_whole_when_they_hold_marks(word: str) -> None:
    """A word of another script stays whole with its combining marks and is not stemmed."""
    assert terms_of(f"{word}, {word}!") == [unicodedata.normalize("NFKC", word)] * 2


def test_marks_give_no_term_when_no_letter_precedes() -> None:
    """Combining marks with nothing to sit on are dropped, at the start of a text and after a space."""
    assert terms_of("\u0301 \u094d x") == ["x"]


@pytest.mark.parametrize(
    "run",
    [
        "\u6211\u559c\u6b22\u82f9\u679c",  # Chinese
        "\U00020bb7\u91ce\u5bb6",  # a rare ideograph beyond the basic plane
        "\u98df\u3079\u30eb\u30fc",  # Han, Hiragana and Katakana in one run
        "\ud55c\uad6d\uc5b4",  # Korean
        "\u0e44\u0e1b\u0e17\u0e35\u0e48",  # Thai, marks included
        "\u0e9e\u0eb2\u0eaa\u0eb2",  # Lao
        "\u1781\u17d2\u1798\u17c2\u179a",  # Khmer
        "\u1019\u103c\u1014\u103a\u1019\u102c",  # Myanmar
    ],
)
def test_terms_are_bigrams_when_the_script_has_no_spaces(run: str) -> None:
    """Each script written without spaces, and Korean, gives overlapping pairs of characters."""
    pairs = [first + second for first, second in itertools.pairwise(run)]
    assert question_terms_of(f"{run} {run}") == pairs * 2


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("\u732b", ["\u732b"]),
        ("iPhone\u624b\u673a", ["iphon", "\u624b\u673a"]),
        ("2026\u5e741\u6708", ["2026", "\u5e74", "1", "\u6708"]),
        ("\u4f60\u597d\uff0c\u4e16\u754c\u3002", ["\u4f60\u597d", "\u4e16\u754c"]),
        ("\u674e\u660e's", ["\u674e\u660e", "s"]),
        ("\u0e51\u0e52\u0e3f", ["\u0e51\u0e52"]),  # Thai digits are a number, the baht sign is nothing
    ],
)
def test_runs_end_when_the_script_changes(text: str, terms: list[str]) -> None:
    """Runs end where the script changes, a lone character is its own term, and punctuation is none."""
    assert question_terms_of(text) == terms


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        ("\u6211\u7684\u732b", ["\u6211", "\u7684", "\u732b"]),
        ("\u304a\u8336\u3092\u98f2\u3080", ["\u8336", "\u98f2"]),  # not the kana between
        ("\ubc30\ub97c \ud0d4\uc5b4", ["\ubc30", "\ub97c", "\ud0d4", "\uc5b4"]),
        ("\U00020bb7\u91ce\u5bb6", ["\U00020bb7", "\u91ce", "\u5bb6"]),  # beyond the basic plane
        ("\u732b", []),  # alone in its run, it is a term already
        ("\u30ab\u30e1\u30e9 \u314b\u314b\u314b", []),  # Katakana, and parts of Korean syllables
        ("\u0e44\u0e1b\u0e17\u0e35\u0e48", []),  # Thai
        ("\u0e44\u0e1b\u732b", ["\u732b"]),  # Thai and Chinese in one run
        ("caf\u00e9 \u0436\u0438", []),
    ],
)
def test_characters_are_terms_when_they_can_be_words(text: str, characters: list[str]) -> None:
    """A stored text has each Chinese character and Korean syllable as a term, beside those of a question."""
    assert Counter(terms_of(text)) == Counter(question_terms_of(text) + characters)


@pytest.mark.parametrize("letter", ["7", "\u0436"])
def test_words_are_cut_when_longer_than_64_characters(letter: str) -> None:
    """A word is cut to its first 64 characters, and what follows them does not count."""
    assert terms_of(letter * 64 + "abc") == terms_of(letter * 65) == [letter * 64]
    assert analyse(letter * 1000) == analyse(letter * 64)


def test_hashes_and_counts_are_packed_when_analysed() -> None:
    """Hashes are packed as ascending little-endian 32-bit numbers with one byte of count for each."""
    expected = sorted([(zlib.crc32(b"dog"), 2), (zlib.crc32(b"bark"), 1)])
    terms = analyse("Dogs bark, dog!")
    assert terms.hashes == b"".join(value.to_bytes(4, "little") for value, _ in expected)
    assert terms.counts == bytes(count for _, count in expected)
    assert analyse("") == Terms(b"", b"")


def test_counts_saturate_when_above_255() -> None:
    """A term seen more than 255 times counts 255, and the count of its neighbour is untouched."""
    assert unpack(analyse("dog " * 300 + "cat")) == {term_hash("dog"): 255, term_hash("cat"): 1}


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("", 0),
        ("123456789", 0xCBF43926),  # the check value published for this CRC
        ("ada", 2372962152),
        ("\u624b\u673a", 2891876723),
        ("\ud800", 499426600),
    ],
)
def test_hash_is_the_stored_one_when_run_again(term: str, value: int) -> None:
    """The hash of a term is the value stored rows already hold, lone surrogates included."""
    assert term_hash(term) == value


def test_version_must_rise_when_terms_change() -> None:
    """The terms of a sample are pinned with the version: a change of the terms must raise the version."""
    sample = (
        "Ada's 3 caf\u00e9s weren't near \u6771\u4eac\u30bf\u30ef\u30fc, \u0939\u093f\u0928\u094d OK_then?"
    )
    latin, bigrams = ["ada", "3", "caf\u00e9", "werent", "near"], ["\u6771\u4eac", "\u4eac\u30bf"]
    bigrams += ["\u30bf\u30ef", "\u30ef\u30fc"]
    characters, others = ["\u6771", "\u4eac"], ["\u0939\u093f\u0928\u094d", "ok", "then"]
    expected = [*latin, *bigrams, *characters, *others]
    assert (ANALYSER_VERSION, terms_of(sample)) == (2, expected)


@given(TEXTS)
def test_packing_holds_every_term_when_text_is_arbitrary(text: str) -> None:
    """Hashes come sorted and unique, one count for each, and the counts add up to the number of terms."""
    terms = analyse(text)
    counts = unpack(terms)
    assert list(counts) == sorted(counts)
    assert len(terms.counts) * 4 == len(terms.hashes) == len(counts) * 4
    assert sum(terms.counts) == len(terms_of(text))
    assert set(counts) == {term_hash(term) for term in terms_of(text)}


@given(TEXTS)
def test_terms_are_well_formed_when_text_is_arbitrary(text: str) -> None:
    """No term is empty, too long or holds a separator, and the same text gives the same terms again."""
    terms = terms_of(text)
    assert all(0 < len(term) <= 64 and not set(term) & set(" \n\0_'\u2019") for term in terms)
    assert (terms_of(text), analyse(text)) == (terms, analyse(text))


@given(TEXTS)
def test_question_finds_the_text_it_repeats_when_text_is_arbitrary(text: str) -> None:
    """Each term of a question is a term of a message with the same text, and as often."""
    asked = question_terms_of(text)
    assert not Counter(asked) - Counter(terms_of(text))
    assert bool(asked) == bool(terms_of(text))


@given(TEXTS, TEXTS)
def test_terms_are_joined_when_texts_are_joined_by_a_newline(first: str, second: str) -> None:
    """Two texts joined by a newline give the terms of the one and then of the other."""
    both = f"{first}\n{second}"
    assert terms_of(both) == terms_of(first) + terms_of(second)
    assert set(unpack(analyse(both))) == set(unpack(analyse(first))) | set(unpack(analyse(second)))


@given(TEXTS)
def test_short_cut_changes_no_term_when_text_is_arbitrary(text: str) -> None:
    """The ASCII short cut gives the same terms as the Unicode rules, which a Greek letter brings on."""
    assert [*terms_of(text), "\u03b1"] == terms_of(f"{text}\n\u03b1")


def test_characters_are_not_cleared_away_when_words_may_hold_them() -> None:
    """No letter, digit or mark is mistaken for one of the symbols that merely part words."""
    for char in map(chr, (*range(0x80, 0x3000), *range(0x1F000, 0x20000))):
        if char.isalnum() or unicodedata.category(char) in {"Mn", "Mc"}:
            assert terms_of(f"a{char}b") != ["a", "b"], f"U+{ord(char):04X}"


def test_letters_become_bigrams_when_named_after_a_bigram_script() -> None:
    """Every letter that Unicode names as one of the bigram scripts is cut into bigrams."""
    names = ("CJK UNIFIED", "HIRAGANA", "KATAKANA LETTER", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR")
    for code in range(0x0E00, 0x32000):
        char = unicodedata.normalize("NFKC", chr(code))
        named = len(char) == 1 and unicodedata.name(char, "").startswith(names)
        if named and unicodedata.category(char) == "Lo" and terms_of(char):
            assert question_terms_of(char * 3) == [char * 2] * 2, f"U+{code:04X}"
            assert terms_of(char * 3)[:2] == [char * 2] * 2, f"U+{code:04X}"


def test_stemmer_loads_when_first_used() -> None:
    """Importing the analyser leaves PyStemmer unloaded until a word needs a stem."""
    code = (
        "import sys; from recollect.text import terms as a; print('Stemmer' in sys.modules);"
        "a.analyse('dogs'); print('Stemmer' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_cache_is_emptied_when_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word cache never outgrows its bound, keeps no long word, and a full one changes no result."""
    hashes = empty_cache()
    monkeypatch.setattr(analyser, "_MAX_CACHED_WORDS", 10)
    words = [f"word{number}" for number in range(25)] + ["x" * 1000]
    for word in words:
        assert set(unpack(analyse(word))) == {term_hash(term) for term in terms_of(word)}
        assert len(hashes) <= 10
    assert max(map(len, hashes)) <= 64


def test_results_are_equal_when_threads_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that start together on a cold and crowded cache all get what one thread gets."""
    monkeypatch.setattr(analyser, "_MAX_CACHED_WORDS", 50)
    texts = [
        f"running{'ly' * (number % 7)} w{number} nations\u2019 \u4e2d\u6587 caf\u00e9s"
        for number in range(300)
    ]
    expected = [analyse(text) for text in texts]
    _ = empty_cache()
    barrier = threading.Barrier(8)

    def work() -> list[Terms]:
        _ = barrier.wait()
        return [analyse(text) for text in texts]

    with ThreadPoolExecutor(8) as pool:
        results = [future.result() for future in [pool.submit(work) for _ in range(8)]]
    assert results == [expected] * 8


def fastest(text: str) -> float:
    """Return the minimum processor time of several analyses of a text; other load does not count."""
    return min(processor_seconds(lambda: analyse(text)) for _ in range(7))


@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_linear_when_text_is_hostile(name: str) -> None:
    """Eight times the text takes nowhere near the sixty-four times that quadratic work would."""
    make = HOSTILE[name]
    _ = analyse(make(100) + "\u00e9")
    assert fastest(make(320_000)) / fastest(make(40_000)) < 24
