"""Leaks in whole texts, for tests that do not stream."""

from recollect.guards.leaks.index import LeakIndex
from recollect.guards.leaks.matcher import Leak, LeakMatcher


def find_leaks(text: str, index: LeakIndex, *, limit: int = 160) -> list[Leak]:
    """Return the leaks in a whole text."""
    matcher = LeakMatcher(index, limit=limit, replacement="")
    matcher.feed(text)
    matcher.finish()
    return matcher.leaks
