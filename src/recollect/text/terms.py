"""Turn text into search terms, of stored messages and of questions.

Text is normalized (NFKC, case folded) and split into words. English Snowball stems words of Latin letters;
scripts written without spaces between words, and Korean, become character bigrams. A single Chinese
character or Korean syllable can be a word, so each of them is a term of a message too; a question has such a
term only for one that stands alone. Storage keeps a 32-bit hash of each term with its count. This runs for
every message, so ASCII text skips the Unicode tables, and a known word is one dictionary lookup.
"""

from __future__ import annotations

import importlib
import re
import string
import struct
import threading
import unicodedata
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import add
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from recollect.text.slices import split_into_slices
from recollect.text.unicode import IGNORABLE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = [
    "ANALYSER_VERSION",
    "Terms",
    "analyse",
    "has_question_mark",
    "question_terms_of",
    "term_hash",
    "terms_of",
]

ANALYSER_VERSION = 2
"""Raise this whenever the same text may give other terms: stored ones of another version count as missing."""

_MAX_WORD = 64
_MAX_CACHED_WORDS = 50_000
_MAX_COUNT = 255
_SLICE = 8_192  # characters that are split into words in one go; normalizing can make 18 of one
_BUCKET_BITS = 24  # of a hash that do not choose its bucket: 256 buckets sort the terms of any text

# One table lowercases A-Z, keeps letters, digits and apostrophes, and replaces everything else by a space.
_KEPT = string.ascii_letters + string.digits + "'"
_ASCII_FOLD = bytes(ord(chr(code).lower() if chr(code) in _KEPT else " ") for code in range(256))

# An apostrophe without a letter or digit on both sides is a quotation mark, not part of a word. It comes
# first in the pattern so that the search jumps from apostrophe to apostrophe.
_STRAY_APOSTROPHE = re.compile(r"'(?:(?!\w)|(?<!\w'))")

# Quotation marks, dashes, arrows, emoji: common in English text, and only ever between words. Clearing them
# first lets most such text take the ASCII short cut; it changes no term.
_PLAIN_BREAK = re.compile(
    r"[\u00a0\u2010-\u2018\u201a-\u201f\u2022\u2026\u2190-\u21ff\u2600-\u2775\U0001f300-\U0001faff]"
)

# The English endings written after an apostrophe; without this "we'll" would become the term "well".
_CLITIC = re.compile(r"'(?:[sdm]|ll|re|ve)\Z")

_LATIN_WORD = re.compile(
    r"[a-z'\u00df-\u00f6\u00f8-\u02af\u0300-\u036f\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua7ff\uab30-\uab64]+"
)

# Letters and marks of the scripts cut into bigrams. Their digits and punctuation are left to the word rule.
_LETTERS = (  # of which one alone is seldom a word
    r"\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    r"\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"  # Lao
    r"\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"  # Myanmar
    r"\u1780-\u17d3\u17d7\u17dc\u17dd"  # Khmer
    r"\u1100-\u11ff\ua960-\ua97c\ud7b0-\ud7fb"  # Hangul, parts of a syllable
    r"\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    r"\U0001aff0-\U0001b16f"  # kana, rare
)
_CHARACTERS = (  # of which one alone can be a word
    r"\uac00-\ud7a3"  # Hangul syllables
    r"\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    r"\U00020000-\U0003ffff"  # Han, rare
)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one text: sorted unique hashes as little-endian uint32, and a one-byte count for each."""

    hashes: bytes
    counts: bytes


class _Stemmer(Protocol):
    def stemWord(self, word: str, /) -> str:  # noqa: N802 - the name PyStemmer gives it
        ...


class _StemmerModule(Protocol):
    def Stemmer(self, algorithm: str, max_cache_size: int, /) -> _Stemmer:  # noqa: N802 - PyStemmer's name
        ...


class _Local(threading.local):
    stemmer: _Stemmer | None = None


class _Patterns(NamedTuple):
    ignorable: re.Pattern[str]
    long_marks: re.Pattern[str]
    bigram_run: re.Pattern[str]
    character: re.Pattern[str]
    word: re.Pattern[str]


class _HashCache(dict[str, int]):
    """The hash of the term of each word, computed on first use and emptied when full."""

    def __missing__(self, word: str) -> int:
        value = term_hash(_make_term(word))
        # Only short words are kept, so that a bound on their number is a bound on memory too.
        if len(word) <= _MAX_WORD:
            if len(self) >= _MAX_CACHED_WORDS:
                self.clear()
            self[word] = value
        return value


_local = _Local()
_hashes = _HashCache()


def analyse(text: str) -> Terms:
    """Return the terms of a message as hashes and counts, ready to be stored."""
    if len(text) > _SLICE:
        return _analyse_long(text)
    # Counting sorted hashes leaves the counter in order, ready to be packed.
    counts = Counter(sorted(map(_hashes.__getitem__, _split_words(text))))
    return _pack(counts, counts.values())


def _analyse_long(text: str) -> Terms:
    """Do the same for a text of any length, in calls that are all short."""
    counts: Counter[int] = Counter()
    for words in _split_slices(text):
        counts.update(map(_hashes.__getitem__, words))
    buckets: dict[int, list[int]] = {}
    for value in counts:
        buckets.setdefault(value >> _BUCKET_BITS, []).append(value)
    ordered = [sorted(buckets[place]) for place in sorted(buckets)]
    packed = [_pack(bucket, [counts[value] for value in bucket]) for bucket in ordered]
    return Terms(b"".join(one.hashes for one in packed), b"".join(one.counts for one in packed))


def has_question_mark(text: str) -> bool:
    """Whether a text contains a question mark, also that of Chinese and Japanese or of Arabic."""
    return "?" in text or "？" in text or "؟" in text  # noqa: RUF001 - meant


def terms_of(text: str) -> list[str]:
    """Return the terms of a stored text as strings, with repeats: those that `analyse` packs."""
    return [_make_term(word) for words in _split_slices(text) for word in words]


def question_terms_of(text: str) -> list[str]:
    """Return the terms to look for, in order and with repeats: of 我的猫 its bigrams, of 猫 the character."""
    words = _split_slices(text, with_characters=False)
    return [_make_term(word) for found in words for word in found]


def term_hash(term: str) -> int:
    """Return the 32-bit hash of a term, the same in every process, platform and version."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def _pack(hashes: Collection[int], counts: Collection[int]) -> Terms:
    packed = struct.pack(f"<{len(hashes)}I", *hashes)
    try:
        return Terms(packed, bytes(counts))
    except ValueError:  # a count above 255: so rare that checking beforehand would cost more
        return Terms(packed, bytes(min(count, _MAX_COUNT) for count in counts))


def _split_slices(text: str, *, with_characters: bool = True) -> Iterator[list[str]]:
    """Yield the words of each slice; only a word that is longer than half a slice may be cut in two."""
    slices = split_into_slices(text, _SLICE)
    return (_split_words(text[start:end], with_characters=with_characters) for start, end in slices)


def _split_words(text: str, *, with_characters: bool = True) -> list[str]:
    """Split a text into folded words, bigrams and characters, each of which is exactly one term."""
    if not text.isascii():
        # U+FE0F follows many emoji and would be ignored later anyway.
        text = _PLAIN_BREAK.sub(" ", text.replace("\u2019", "'").replace("\ufe0f", ""))
        if not text.isascii():
            return _split_unicode_words(_fold(text), with_characters=with_characters)
    folded = text.encode("ascii").translate(_ASCII_FOLD).decode("ascii")
    if "'" in folded:
        folded = _STRAY_APOSTROPHE.sub(" ", folded)
    return folded.split()


def _fold(text: str) -> str:
    patterns = _compile_patterns()
    text = patterns.ignorable.sub("", text)
    # Half-width kana voicing marks count as letters but normalize to combining marks. Replaced here, the next
    # rule sees them. Normalizing sorts a run of marks in quadratic time, so no long one may reach it.
    text = text.replace("\uff9e", "\u3099").replace("\uff9f", "\u309a")
    text = patterns.long_marks.sub(" ", text)
    text = unicodedata.normalize("NFKC", text).casefold()
    # Case folding can decompose ("ΐ"), so normalize again; that costs little when nothing changed.
    text = unicodedata.normalize("NFKC", text)
    return text.replace("\u2019", "'").replace("\u02bc", "'").replace("_", " ")


def _split_unicode_words(text: str, *, with_characters: bool) -> list[str]:
    patterns = _compile_patterns()
    words: list[str] = []
    # A split on one capturing group gives the text between runs at even places and the runs at odd ones.
    parts = cast("list[str]", patterns.bigram_run.split(text))
    for place, part in enumerate(parts):
        if place % 2 == 0:
            words += patterns.word.findall(part)
        elif len(part) == 1:
            words.append(part)
        else:
            words += map(add, part, part[1:])
            if with_characters:
                words += patterns.character.findall(part)
    return words


def _make_term(word: str) -> str:
    word = _CLITIC.sub("", word[:_MAX_WORD])
    if _LATIN_WORD.fullmatch(word):
        word = _stem(word)
    return word.replace("'", "")


def _stem(word: str) -> str:
    # A stemmer is not thread-safe. Each thread has its own: a lock held across a fork is never released.
    stemmer = _local.stemmer
    if stemmer is None:
        stemmer = _local.stemmer = _new_stemmer()
    return stemmer.stemWord(word)


def _new_stemmer() -> _Stemmer:
    # PyStemmer has no type stubs, and is loaded on first use to keep the import of this module cheap.
    module = cast("_StemmerModule", cast("object", importlib.import_module("Stemmer")))
    return module.Stemmer("english", 0)  # 0: no cache of its own; `_HashCache` does that


@cache
def _compile_patterns() -> _Patterns:
    """Compile the patterns that only non-ASCII text needs; reading the mark table takes milliseconds."""
    marks = _build_mark_class()
    # The look-ahead keeps ASCII from being compared with the long list of marks at every word's end.
    letters = rf"\w++(?:(?![\x00-\x7f])[{marks}]++\w*+)*+"
    return _Patterns(
        # Invisible inside a word, so they must not split it. ZERO WIDTH SPACE does split words.
        ignorable=re.compile("[{}]+".format(IGNORABLE.replace("\u200b-", "\u200c-"))),
        # 30 marks is the bound of Unicode's stream-safe format (UAX 15); words never come near it. Symbols
        # match too, which is harmless: they separate words as the space does.
        long_marks=re.compile(r"[^\w\x00-\x7f]{31,}+"),
        bigram_run=re.compile(f"([{_LETTERS}{_CHARACTERS}]+)"),
        character=re.compile(f"[{_CHARACTERS}]"),
        word=re.compile(f"{letters}(?:'{letters})*+"),
    )


def _build_mark_class() -> str:
    # Python's \w leaves out combining marks, without which Indic words fall apart. Enclosing marks (Me) are
    # left out here as well: they turn a digit into a keycap. All marks above U+1F000 are ignorable.
    marks = [code for code in range(0x300, 0x1F000) if unicodedata.category(chr(code)) in {"Mn", "Mc"}]
    runs = [list(run) for _, run in groupby(enumerate(marks), lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0][1])}-{chr(run[-1][1])}" for run in runs)
