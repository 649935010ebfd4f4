"""Text within text: what is written in base64, in hexadecimal, as a URL, in rot13 or backwards."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator

_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,20000}={0,2}(?![A-Za-z0-9+/_=-])")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:(?:0x|\\x|%)?[0-9A-Fa-f]{2}[ :,]?){8,10000}(?![0-9A-Za-z])")
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2}[^\s%]{0,200}){2,2000}")
_BEFORE_PERCENT = re.compile(r"[^\s%]{0,200}")  # read backwards
_HEX_DIGITS = re.compile(r"[0-9A-Fa-f]{2}")
# Small words that ordinary text in these languages rarely does without, as rot13 and backwards write them.
_ROT13_WORDS = frozenset(("gur", "naq", "lbhe", "lbh", "nyy", "gb", "vtaber", "cerivbhf"))
_BACKWARD_WORDS = frozenset(("eht", "dna", "ruoy", "uoy", "lla", "ot", "erongi", "suoiverp", "tpmorp"))
_WORD = re.compile(r"[A-Za-z]{2,30}")
_LONGEST_WORD = 200
_SHORTEST = 8
_READABLE = 0.9


class Encoded(NamedTuple):
    """A part of a text and what it says once it is decoded."""

    start: int
    end: int
    text: str


def find_encoded(text: str) -> Iterator[Encoded]:
    """Find what is hidden in a text by a common encoding; each part is decoded once."""
    for find, decode in ((_BASE64.finditer, _from_base64), (_HEX.finditer, _from_hex)):
        for match in find(text):
            plain = decode(match[0])
            if _is_readable(plain):
                yield Encoded(*match.span(), plain)
    for start, end in _find_percent(text):
        plain = unquote(text[start:end])
        if plain != text[start:end] and _is_readable(plain):
            yield Encoded(start, end, plain)
    words = {match[0].lower() for match in _WORD.finditer(text[:20_000])}
    if len(words & _ROT13_WORDS) > 1:
        yield Encoded(0, len(text), codecs.encode(text, "rot13"))
    if len(words & _BACKWARD_WORDS) > 1 or (words & _BACKWARD_WORDS and len(words) < _SHORTEST):
        yield Encoded(0, len(text), text[::-1])


def _find_percent(text: str) -> Iterator[tuple[int, int]]:
    """Find URL escapes with the word before them; looked for from there, text would be read often."""
    place = 0
    for match in _PERCENT.finditer(text):
        before = text[max(match.start() - _LONGEST_WORD, place) : match.start()][::-1]
        word = _BEFORE_PERCENT.match(before)
        yield match.start() - (word.end() if word else 0), match.end()
        place = match.end()


def _from_base64(part: str) -> str:
    letters = part.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(letters + "=" * (-len(letters) % 4)).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""


def _from_hex(part: str) -> str:
    try:
        return bytes.fromhex("".join(_HEX_DIGITS.findall(part))).decode("utf-8")
    except (UnicodeDecodeError, ValueError):
        return ""


def _is_readable(text: str) -> bool:
    """Whether something looks like words, nearly all of it letters and spaces, or is encoded once more."""
    if len(text) < _SHORTEST:
        return False
    if _BASE64.fullmatch(text):
        return True
    plain = sum(character.isalpha() or character.isspace() or character in ".,:;!?'\"-" for character in text)
    return plain / len(text) >= _READABLE
