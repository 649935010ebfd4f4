"""The numbers of US social security: written with marks, or in one piece where words name them."""

import re
from collections.abc import Iterator

from recollect.guards.pii.context_words import meaning_before
from recollect.guards.pii.finding import Finding

_NUMBER = re.compile(r"(?<!\d)(?<!\d-)(\d{3})([ .\-\u2011\u2013]?)(\d{2})\2(\d{4})(?!\d)(?!-\d)")
_SURE = 0.9
_UNSURE = 0.6


def find_ssns(text: str, start: int, end: int) -> Iterator[Finding]:
    """Find numbers that could have been given to somebody."""
    for found in _NUMBER.finditer(text, start, end):
        area, mark, group, serial = found.groups()
        if area in ("000", "666") or group == "00" or serial == "0000":
            continue
        meaning = meaning_before(text, found.start())
        if meaning == "ssn":
            yield Finding("ssn", *found.span(), _SURE)
        elif mark:
            sure = _SURE if mark == "-" else _UNSURE
            yield Finding("ssn", *found.span(), sure - 0.3 * (meaning == "other"))
