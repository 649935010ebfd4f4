"""Taking an attack out of a text: whole sentences go, since the rest of a cut one may still be an order."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_END = re.compile(r"[.!?\u3002\uff01\uff1f]+(?=[\s\"'\u201d\u00bb\u300d)]|$)|[\n\u3002\uff01\uff1f]+")


def without_sentences(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text without the sentences that spans touch, and without marks of chat formats."""
    hit = sorted(spans)
    kept = [
        text[start:end]
        for start, end in _sentences(text)
        if not any(first < end and start < last for first, last in hit)
    ]
    return "".join(kept).strip()


def _sentences(text: str) -> list[tuple[int, int]]:
    places = [0, *(match.end() for match in _END.finditer(text)), len(text)]
    return [(start, end) for start, end in pairwise(places) if start < end]
