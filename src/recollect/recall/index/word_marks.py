"""Which segments have words of time, and which say "I", found by their term hashes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from recollect.text.terms import term_hash, terms_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_TIME_WORDS = 2
"""More time words than this make no difference."""

# "May" is left out: it is more often a verb.
_TIME_WORDS = """
    yesterday today tonight tomorrow last next ago week weekend month year night morning recently since soon
    monday tuesday wednesday thursday friday saturday sunday
    january february march april june july august september october november december
    spring summer fall winter
"""
_FIRST_PERSON = "i me my we our us ich mein meine wir unser yo mi mis nosotros je mon ma mes nous notre"


def count_time_words(
    hashes: NDArray[np.uint32], segments: NDArray[np.int64], total: int
) -> NDArray[np.uint8]:
    """Count the distinct time words of each segment, up to `MAX_TIME_WORDS`."""
    counts = np.bincount(segments[np.isin(hashes, _hash_words(_TIME_WORDS))], minlength=total)
    return np.minimum(counts, MAX_TIME_WORDS).astype(np.uint8)


def has_first_person(
    hashes: NDArray[np.uint32], segments: NDArray[np.int64], total: int
) -> NDArray[np.bool_]:
    """Return which segments say "I" or "we", in English, German, Spanish or French."""
    return np.bincount(segments[np.isin(hashes, _hash_words(_FIRST_PERSON))], minlength=total) > 0


@cache
def _hash_words(words: str) -> NDArray[np.uint32]:
    terms = {term for word in words.split() for term in terms_of(word)}
    return np.array(sorted(map(term_hash, terms)), dtype=np.uint32)
