"""Words that say when something happened: messages that have some often answer questions for a time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from recollect.text.terms import term_hash, terms_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST = 2
"""From how many on it makes no difference how many there are."""

# "May" is left out: it is more often a verb.
_WORDS = """
    yesterday today tonight tomorrow last next ago week weekend month year night morning recently since soon
    monday tuesday wednesday thursday friday saturday sunday
    january february march april june july august september october november december
    spring summer fall winter
"""


def count_time_words(hashes: Sequence[bytes]) -> NDArray[np.uint8]:
    """Count the different time words of each row, up to `MOST`; a row's hashes are uint32."""
    sizes = np.fromiter(map(len, hashes), dtype=np.int64, count=len(hashes)) // 4
    rows = np.repeat(np.arange(len(hashes)), sizes)
    found = np.isin(np.frombuffer(b"".join(hashes), dtype="<u4"), _hashes())
    counts = np.bincount(rows[found], minlength=len(hashes))
    return np.minimum(counts, MOST).astype(np.uint8)


@cache
def _hashes() -> NDArray[np.uint32]:
    terms = {term for word in _WORDS.split() for term in terms_of(word)}
    return np.array(sorted(map(term_hash, terms)), dtype=np.uint32)
