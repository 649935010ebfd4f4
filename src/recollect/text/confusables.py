"""Letters of other scripts that look like Latin ones, and the words in which they pose as such.

The table is small on purpose: Cyrillic, Greek, Armenian and Cherokee letters that cannot be told from Latin
ones in common fonts. Only words that mix them with Latin letters are rewritten, so that Russian stays
Russian.
"""

from __future__ import annotations

import re

_PAIRS = (
    # Cyrillic, small
    (
        (
            "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u04cf\u049b"
            "\u04bd\u0475\u0433\u043a\u043c\u043d\u0442\u0432\u043f\u0438\u044d\u044c"
        ),
        "aeopcyxijsdhqwlkevrkmhtbnneb",
    ),
    # Cyrillic, capital
    (
        (
            "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405\u050c"
            "\u04ba\u049a\u04ae"
        ),
        "ABEKMHOPCTYXIJSGhKY",
    ),
    # Greek, small
    (
        "\u03b1\u03b2\u03b3\u03b5\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9\u03f2\u03f3",
        "aByenikvoptuxwcj",
    ),
    # Greek, capital
    (
        "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7",
        "ABEZHIKMNOPTYX",
    ),
    # Armenian
    (
        "\u0561\u0578\u057d\u0581\u0570\u0585\u0575\u0584",
        "wnugholp",
    ),
    # Cherokee
    (
        "\u13a0\u13a1\u13a2\u13aa\u13ab\u13ac\u13b3\u13b7\u13c3\u13ce\u13d4\u13de\u13df\u13e2\u13e6",
        "DRTAJEWMZ4WLCPK",
    ),
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
