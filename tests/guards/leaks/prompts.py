"""Leaks in whole texts, for tests that do not stream."""

from recollect.guards.leaks.matcher import Leak, LeakMatcher
from recollect.guards.leaks.ngram_index import NgramIndex


def find_leaks(text: str, index: NgramIndex, *, limit: int = 160) -> list[Leak]:
    """Return the leaks in a whole text."""
    matcher = LeakMatcher(index, limit=limit, replacement="")
    matcher.feed(text)
    matcher.finish()
    return matcher.leaks
