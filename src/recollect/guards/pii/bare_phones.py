"""Telephone numbers that no word names: by how their digits are grouped, in the middle of a sentence.

Digits in one piece are left alone: most of them count or name something else.
"""

import re

_BARE_FORMS = {
    # By the mark between the groups; what is not here is also written for amounts, dates or ranges.
    " ": frozenset(
        {
            *(
                (2, 6),
                (3, 4),
                (3, 7),
                (4, 4),
                (4, 6),
                (5, 5),
                (3, 2, 2),
                (3, 2, 3),
                (3, 3, 3),
                (4, 2, 2),
                (4, 3, 3),
            ),
            *((1, 4, 4), (5, 2, 3), (2, 2, 2, 2), (2, 3, 3, 4), (2, 3, 4, 3)),
        }
    ),
    "-": frozenset({(3, 4), (3, 5), (3, 7), (2, 6), (5, 5), (3, 2, 2), (3, 3, 3), (1, 4, 4), (2, 2, 2, 2)}),
}
_WHOLE_YEAR = re.compile(r"(?:19|20)\d{2}")
_BEFORE = re.compile(
    r"(?:(?:\A|[\s(\"'\u201c\u2019-])(?:[^\W\d_]{2,}|[Ia])[,:;.!?]?\s[(\"'\u201c\u201e]?"
    r"|[\u3040-\u9fff\uac00-\ud7af\uff1a\uff0c])\Z"
)
_BEHIND = re.compile(
    r"[,.;:!?)\"'\n\u201c\u201d\u3002\uff0c\u3040-\u9fff\uac00-\ud7af]|\Z| (?![-=+*/<>|&%^0-9])"
)
_END = re.compile(r"[,.;:!?)\"'\n]|\Z")
_REACH = 32
_COLOUR = 255
_COLOURS = 3
_TEN = 10
_COLUMNS = 2  # what begins a line may be a table's


def is_bare_phone(text: str, start: int, end: int) -> bool:
    """Whether digits that nothing explains are grouped like a phone's and stand where words do."""
    piece = text[start:end].replace("\u00a0", " ")
    groups = _DIGITS.findall(piece)
    marks = set(_DIGITS.split(piece)[1:-1])
    sizes = tuple(map(len, groups))
    if len(marks) != 1 or sizes not in _BARE_FORMS.get(marks.pop(), ()) or _is_counted(groups):
        return False
    before = text[max(0, start - _REACH) : start]
    is_first = (not before or before[-1] == "\n") and (len(groups) > _COLUMNS or "-" in piece)
    if not (is_first or _BEFORE.search(before)) or not _BEHIND.match(text, end):
        return False
    # Amounts are written in threes too, but begin with small digits more often, and something follows them.
    return set(sizes) != {3} or "-" in piece or (piece[0] in "56789" and _END.match(text, end) is not None)


def _is_counted(groups: list[str]) -> bool:
    """Whether groups are rather years, a range of round numbers, numbers in a row, or a colour's parts."""
    if any(_WHOLE_YEAR.fullmatch(group) for group in groups):
        return True
    numbers = [int(group) for group in groups]
    if len(numbers) == _COLUMNS and 0 < numbers[0] < numbers[1]:
        return numbers[1] % numbers[0] == 0 or all(number % _TEN == 0 for number in numbers)
    return max(numbers) <= _COLOUR and (len(numbers) == _COLOURS or numbers == sorted(numbers))
