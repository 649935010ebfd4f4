"""E-mail addresses: a mark, up to 63 characters before it and a domain behind it."""

import re
from collections.abc import Iterator

from recollect.guards.pii.finding import REACH, Finding

_LETTERS = "A-Za-z\u00c0-\u024f\u0370-\u052f"
_LOCAL = re.compile(rf"[{_LETTERS}0-9._%&'+\u2019-]+")
_DOMAIN = re.compile(
    rf"(?:[{_LETTERS}0-9](?:[{_LETTERS}0-9-]{{0,61}}[{_LETTERS}0-9])?\.){{1,9}}(?:xn--[a-z0-9-]{{2,24}}|[{_LETTERS}]{{2,24}})(?![{_LETTERS}0-9])"
)
_NUMERIC = re.compile(r"\[\d{1,3}(?:\.\d{1,3}){3}\]")
_DOMAIN_OPEN = re.compile(rf"[{_LETTERS}0-9.\[-]*\]?")
_LONGEST = 120  # of a domain: with the rest it stays below what a stream may hold back
_LEADING = ".%&'-\u2019"  # at the start of an address more likely to belong to the text around it
_NOT_PEOPLE = ("git", "hg", "svn")


def find_emails(text: str) -> Iterator[Finding]:
    """Find e-mail addresses; `git@host` is how one clones, not whom one writes to."""
    place = text.find("@")
    while place >= 0:
        found = _DOMAIN.match(text, place + 1, place + 1 + _LONGEST) or _NUMERIC.match(text, place + 1)
        start = _start(text, place) if found else place
        if found and start < place and text[start:place].lower() not in _NOT_PEOPLE:
            yield Finding("email", start, found.end())
        place = text.find("@", place + 1)


def open_email(text: str) -> int:
    """Return where an address at the end of a text may have begun, if its mark is there already."""
    place = text.rfind("@")
    if place < 0 or len(text) - place > _LONGEST:
        return len(text)
    tail = _DOMAIN_OPEN.match(text, place + 1)
    return _start(text, place) if tail and tail.end() == len(text) else len(text)


def _start(text: str, place: int) -> int:
    """Return where the part before the mark begins: looked for backwards, so that no text costs more."""
    before = text[max(0, place - REACH) : place]
    found = _LOCAL.match(before[::-1])
    start = place - (found.end() if found else 0)
    while start < place and text[start] in _LEADING:
        start += 1
    return start
