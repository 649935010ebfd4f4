"""Letters of other scripts that look like Latin ones, and the words in which they pose as such.

The table is small on purpose: Cyrillic, Greek, Armenian and Cherokee letters that cannot be told from Latin ones
in common fonts. Only words that mix them with Latin letters are rewritten, so that Russian stays Russian.
"""

from __future__ import annotations

import re

_PAIRS = (
    # Cyrillic
    ("аеорсухіјѕԁһԛԝӏқҽѵгкмнтвпиэь", "aeopcyxijsdhqwlkevrkmhtbnneb"),
    ("АВЕКМНОРСТУХІЈЅԌҺҚҮ", "ABEKMHOPCTYXIJSGhKY"),
    # Greek
    ("αβγεηικνορτυχωϲϳ", "aByenikvoptuxwcj"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX"),
    # Armenian and Cherokee
    ("աոսցհօյք", "wnugholp"),
    ("ᎠᎡᎢᎪᎫᎬᎳᎷᏃᏎᏔᏞᏟᏢᏦ", "DRTAJEWMZ4WLCPK"),
)
LOOK_ALIKES: dict[int, str] = {
    ord(other): latin.lower() if other.islower() else latin
    for others, latins in _PAIRS
    for other, latin in zip(others, latins, strict=True)
}
"""For each letter the Latin one it looks like."""

_LETTERS = "A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u052f\u0531-\u0587\u13a0-\u13ff"
_WORD = re.compile(f"[{_LETTERS}]{{2,}}")
_LETTER = re.compile(f"[{_LETTERS}]")
_LATIN = re.compile(r"[A-Za-z]")
_OTHER = re.compile("[" + "".join(map(chr, LOOK_ALIKES)) + "]")


def unmixed(text: str) -> str:
    """Write words in Latin letters in which look-alikes stand among Latin ones; the length stays."""
    return text if text.isascii() else _WORD.sub(_latin, text)


def is_foldable(character: str) -> bool:
    """Whether a character can be part of a word that is rewritten."""
    return _LETTER.match(character) is not None


def _latin(match: re.Match[str]) -> str:
    word = match[0]
    if word.isascii() or not _LATIN.search(word) or not _OTHER.search(word):
        return word
    return word.translate(LOOK_ALIKES)
