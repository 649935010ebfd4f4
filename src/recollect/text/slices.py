"""Cutting a long text into slices, so that no call into C takes long.

A regular expression, a normalization or a sort is one such call. Python runs no other thread during it, so on
several megabytes it would stop the event loop even from a thread of its own.
"""

from collections.abc import Callable, Iterator

STREAM_SLICE = 4_096
"""How many characters a stream is fed at once."""


_BREAKS = " \n\t\r\u3002\uff01\uff1f\uff0c\u3001"  # whitespace, and what ends a Chinese or Japanese clause


def split_into_slices(text: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield the places of slices that make up a text, at most `size` characters each.

    A slice ends after whitespace or a clause, if there is such a place in its second half.
    """
    start = 0
    while len(text) - start > size:
        last = max(text.rfind(mark, start + size // 2, start + size) for mark in _BREAKS)
        end = last + 1 if last >= 0 else start + size
        yield start, end
        start = end
    yield start, len(text)


def feed_in_slices(feed: Callable[[str], str], text: str) -> str:
    """Return what a stream returns for a text, which is the same however the text is chunked."""
    if len(text) <= STREAM_SLICE:
        return feed(text)
    return "".join(feed(text[start : start + STREAM_SLICE]) for start in range(0, len(text), STREAM_SLICE))
