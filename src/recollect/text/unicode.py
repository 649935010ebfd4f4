"""Invisible characters, grapheme breaks, and letters that look like Latin ones.

Zero-width characters, bidirectional controls, tag characters and variation selectors can carry hidden
words. `remove_invisible` keeps them only where writing needs them: in emoji (families, flags, skin tones,
keycaps), between letters of Arabic and Indic scripts, and one variation selector after a Chinese character
or a Mongolian letter.

The table of look-alikes is small on purpose: Cyrillic, Greek, Armenian and Cherokee letters that common
fonts draw like Latin ones. `replace_look_alikes` rewrites only words that mix them with Latin letters, so
that Russian stays Russian.
"""

from __future__ import annotations

import re
import unicodedata

IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's default-ignorable characters, for a regex class: joiners, direction marks, tags and so on."""

HIDDEN = f"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufff9-\ufffb{IGNORABLE}"
"""All characters that are invisible by themselves, for a regex class: control characters too."""

_ZWNJ, _ZWJ = "\u200c", "\u200d"
# Symbols that can be drawn as emoji.
_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935"
    "\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff"
)
_SKIN = "\U0001f3fb-\U0001f3ff"
_ONE_EMOJI = f"[{_EMOJI}](?:\ufe0f?[{_SKIN}]|\ufe0f\u20e3?|\ufe0e)?"
_SEQUENCE = f"{_ONE_EMOJI}(?:{_ZWJ}{_ONE_EMOJI}){{0,9}}"
_KEYCAP = "[0-9#*]\ufe0f?\u20e3"
_TAG_FLAG = "\U0001f3f4[\U000e0030-\U000e007a]{2,7}\U000e007f"
# Scripts in which an invisible joiner connects letters or keeps them apart.
_JOINING = (
    "\u0600-\u0605\u0608-\u061b\u061e-\u085f\u0860-\u086f\u08a0-\u0fff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff"
    "\u1820-\u18af\u1a20-\u1aad\ua840-\ua877\ufb50-\ufdff\ufe70-\ufefc\U0001e900-\U0001e95f"
)
# The marks that remove the vowel of an Indic syllable.
_VIRAMA = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca\u1039\u17d2"
_JOINER = f"(?<=[{_JOINING}])[{_ZWNJ}{_ZWJ}](?=[{_JOINING}])|(?<=[{_VIRAMA}]){_ZWJ}"
_VARIANT = (
    "(?<=[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\ufe00-\ufe02\U000e0100-\U000e011f]"
    "|(?<=[\u1820-\u18af])[\u180b-\u180d\u180f]"
)
_MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20e2\u20e4-\u20ff\ufe20-\ufe2f"
_MOST_MARKS = 16
_INVISIBLE = re.compile(
    f"(?P<keep>{_KEYCAP}|{_TAG_FLAG}|{_SEQUENCE}|{_JOINER}|{_VARIANT})|[{HIDDEN}]+"
    f"|(?P<marks>[{_MARKS}]{{{_MOST_MARKS}}})[{_MARKS}]+"
)
_HIDDEN = re.compile(f"[{HIDDEN}]")


def remove_invisible(text: str) -> str:
    """Remove invisible characters that writing does not need, and accents beyond 16 on one letter."""
    if text.isascii() and not _HIDDEN.search(text):
        return text
    return _INVISIBLE.sub(_choose_kept, text)


def is_hidden(character: str) -> bool:
    """Whether a character is invisible by itself, needed or not."""
    return _HIDDEN.match(character) is not None


_VIRAMA_CLASS = 9  # the combining class of marks that join two Indic consonants
_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_MOST_FLAG_LETTERS = 1_000  # how many in a row are counted
# Vowels and final consonants of a Korean syllable, skin tones, the tag letters of a regional flag.
_EXTENDING = re.compile(f"[\u1160-\u11ff{_SKIN}\U000e0020-\U000e007f]")


def is_grapheme_break(text: str, place: int) -> bool:
    """Whether a text can be cut at a place without splitting what people see as one character."""
    before, after = text[place - 1], text[place]
    if after.isascii():
        return (before, after) != ("\r", "\n")
    if _ZWJ in (before, after) or unicodedata.category(after).startswith("M"):
        return False
    if unicodedata.combining(before) == _VIRAMA_CLASS or _is_surrogate_pair(before, after):
        return False
    if after in _FLAG_LETTERS:
        letters = text[max(0, place - _MOST_FLAG_LETTERS) : place]
        return (len(letters) - len(letters.rstrip(_FLAG_LETTERS))) % 2 == 0  # two letters make a flag
    return not _EXTENDING.match(after)


def _is_surrogate_pair(before: str, after: str) -> bool:
    return "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"


def _choose_kept(match: re.Match[str]) -> str:
    return match["keep"] or match["marks"] or ""


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
"""The Latin letter that each letter looks like, by code point."""

_LETTERS = "A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u052f\u0531-\u0587\u13a0-\u13ff"
_WORD = re.compile(f"[{_LETTERS}]{{2,}}")
_LETTER = re.compile(f"[{_LETTERS}]")
_LATIN = re.compile(r"[A-Za-z]")
_OTHER = re.compile("[" + "".join(map(chr, LOOK_ALIKES)) + "]")


def replace_look_alikes(text: str) -> str:
    """Replace look-alikes by Latin letters in words that mix both; the length stays the same."""
    return text if text.isascii() else _WORD.sub(_to_latin, text)


def is_foldable(character: str) -> bool:
    """Whether a character can be part of a word that `replace_look_alikes` rewrites."""
    return _LETTER.match(character) is not None


def _to_latin(match: re.Match[str]) -> str:
    word = match[0]
    if word.isascii() or not _LATIN.search(word) or not _OTHER.search(word):
        return word
    return word.translate(LOOK_ALIKES)
