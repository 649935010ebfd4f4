"""Private keys: blocks between a line that begins them and one that ends them, also if the end is missing."""

import re
from collections.abc import Iterator

from recollect.guards.pii.finding import Finding

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_MARK = "-----BEGIN "
_BLANK = r"\s{0,40}"  # breaks that are written out are real ones by now
_CODES = r"[A-Za-z0-9+/=]"
_BODY = re.compile(
    rf"(?:{_BLANK}[A-Za-z-]{{3,20}}: [^\n]{{0,80}}(?=\n))*"  # headers, such as how it is encrypted
    rf"(?:{_BLANK}(?:{_CODES}{{20,}}|(?=[A-Za-z]{{0,19}}[0-9+/=]){_CODES}+|{_CODES}+(?={_BLANK}-----END)))+"
    rf"(?:{_BLANK}-----END [A-Z0-9 ]{{0,60}}-----)?"
)
_OPEN_HEADER = re.compile(r"-----BEGIN [A-Z0-9 ]{0,60}-{0,5}\Z")
_OPEN_BODY = re.compile(
    rf"{_BLANK}(?:[A-Za-z-]{{0,20}}(?:: ?[^\n]{{0,80}})?|{_CODES}*"
    rf"|(?:[A-Za-z]{{1,19}}{_BLANK})?(?:-[-A-Z0-9 ]{{0,70}})?)\Z"
)


def find_private_keys(text: str) -> Iterator[Finding]:
    """Find private keys; a mention of the line that begins one, with no key behind it, is none."""
    for begin in _begins(text):
        body = _BODY.match(text, begin.end())
        if body:
            yield Finding("secret", begin.start(), body.end())


def open_private_key(text: str) -> int:
    """Return where a key begins that has not ended at the end of a text."""
    place = text.find(_MARK)
    while place >= 0:
        if _is_open(text, place):
            return place
        place = text.find(_MARK, place + 1)
    return len(text)


def _is_open(text: str, place: int) -> bool:
    """Whether a key that begins at a place may go on behind the end of a text."""
    if _OPEN_HEADER.match(text, place):
        return True
    begin = _BEGIN.match(text, place)
    if not begin:
        return False
    body = _BODY.match(text, begin.end())
    if body and body[0].endswith("-----"):
        return False
    return _OPEN_BODY.match(text, body.end() if body else begin.end()) is not None


def _begins(text: str) -> Iterator[re.Match[str]]:
    place = text.find(_MARK)
    while place >= 0:
        found = _BEGIN.match(text, place)
        if found:
            yield found
        place = text.find(_MARK, place + 1)
