"""Telephone numbers: international ones by country code and length, others by how people write them.

A number that no word names counts only if its digits are grouped as telephone numbers are. Digits in one
run are left alone: most of them count or name something else.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from recollect.guards.detection import Detection
from recollect.guards.pii.context_words import find_meaning_before, look_up_meaning
from recollect.guards.pii.digit_runs import NumberKind
from recollect.guards.pii.number_tables import PHONE_LENGTHS
from recollect.guards.pii.numbers import is_bar_code

_UNLABELLED_GROUPINGS = {
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
_AFTER = re.compile(
    r"[,.;:!?)\"'\n\u201c\u201d\u3002\uff0c\u3040-\u9fff\uac00-\ud7af]|\Z| (?![-=+*/<>|&%^0-9])"
)
_END = re.compile(r"[,.;:!?)\"'\n]|\Z")
_REACH = 32
_COLOUR = 255
_COLOURS = 3
_TEN = 10
_COLUMNS = 2  # what begins a line may be a table's
_LENGTHS = {code: sizes for sizes, codes in PHONE_LENGTHS.items() for code in codes.split()}
_MAX_CODE = 3
_MAX_WRITTEN = 15  # with the code; what is longer than its country's numbers is mistyped or made up
_YEAR = r"(?:19|20)\d{2}"
_DATE = re.compile(
    rf"(?<![\d+])(?:\d{{1,2}}([./-])\d{{1,2}}\1{_YEAR}|{_YEAR}([./-])\d{{1,2}}\2\d{{1,2}})(?!\d)"
)
_EXTENSION = re.compile(r" ?(?:x|ext\.?|extension|#) ?\d{1,6}(?!\w)", re.IGNORECASE)
_SEPARATOR = r"[ .\-/()\u00a0\u202f\u2011]"
_INTERNATIONAL = re.compile(
    r"(?:\(?\+|(?<![\d+])(?<!\d[ .\-/])(?:00|011[ -]))[ ()-]{0,2}"
    rf"\d(?:{_SEPARATOR}{{0,3}}\d){{6,16}}"
)
_PREFIX = re.compile(r"\(?\+\D*|\(?00\D*|011\D+")
_NORTH_AMERICAN = re.compile(
    r"(?<!\d)(?:1[ .\-])?(?:\(\d{3}\)[ \-]{0,2}|\d{3}(?P<mark>[.\-/ \u2011]))"
    r"\d{3}(?:(?P=mark)|[ .\-])\d{4}(?!\d)"
)
_TRUNK = re.compile(r"\(0\d{1,5}\)[ /-]{0,3}\d|0\d{1,5}[ ./\-\u00a0]{1,3}[\d(]|0\(\d")
_BRACKETS = re.compile(rf"(?:\d ?)?\((?!{_YEAR}\))\d{{2,5}}\)[ ./-]{{0,2}}\d")
_SLASH = re.compile(r"\d{2}/\d{3}[ -]\d{4}")
_NAME = re.compile(r"[^\W\d_]+\Z")
_CALL = re.compile(r"([A-Za-z_]+[0-9]?)\(\Z")
_NAME_IN = re.compile(r"[^\W\d_]")
_DIGITS = re.compile(r"\d+")
_CANDIDATE = re.compile(r"\(?\d(?:.*\d)?")
_OTHERS = re.compile(r"[1-9]\d{0,2}(?:[ .\u00a0\u202f]\d{3})+|\d{5}-\d{4}")  # amounts, US postal codes
_GROUPINGS = frozenset(
    {
        *((2, 5, 4), (2, 4, 4), (2, 3, 2, 2), (3, 4, 4), (3, 2, 2, 2), (3, 3, 4), (3, 3, 2, 2)),
        *((1, 3, 3, 4), (1, 3, 3, 2, 2)),
    }
)
# Ranges of years, parts of versions and decimals: never a phone's, whatever the words say.
_NEVER = re.compile(rf"{_YEAR} ?- ?{_YEAR}\Z|.*(?:(?<!\d)\d\.\d{{1,2}}(?!\d)|\.\.)|\d\.\d+\Z|[^(]*\)")
_POSTAL = re.compile(r"\b[A-Z]{2} {1,2}\d{5}-\d{4}\Z")  # after a state
_IN_ORDER = "01234567890123456789 98765432109876543210"
_ROUND, _ALL = "00000", "0123456"
_SHORT = 9
_MIN_DIGITS, _MAX_DIGITS = 7, 15
_BOOK = 13
_TRUNK_MIN, _TRUNK_MAX = 9, 13
_ALONE_MIN = 8
_MIN_GROUPS, _MAX_GROUPS = 3, 6
_MOBILE = re.compile(r"[2-9]\d{9}|1[3-9]\d{9}")
_LONG_ZERO = re.compile(r"0[1-9]\d{8,9}")


class _Candidate(NamedTuple):
    """A part of a run that may be one number, and what is known about what stands around it."""

    text: str
    groups: tuple[str, ...]
    meaning: str | None
    alone: bool
    in_line: bool  # whether the words that say what it is stand in its own line


def _find(text: str, start: int, end: int) -> Iterator[Detection]:
    """Find telephone numbers in a run of digits and of the marks between them."""
    start = _skip_name(text, start, end)
    for begin, stop in _split_at_dates(text, start, end):
        place = begin
        for strong in _find_strong(text, begin, stop):
            yield from _find_loose(text, place, strong.start)
            yield strong
            place = strong.end
        yield from _find_loose(text, place, stop)


def _skip_name(text: str, start: int, end: int) -> int:
    """Skip what goes on with letters, as in "X-400-123-4567", unless they say that it is a phone's."""
    if text[start - 1 : start] != "-" or not text[start - 2 : start - 1].isalpha():
        return start
    name = _NAME.search(text, max(0, start - 20), start - 1)
    if name and look_up_meaning(name[0].lower()) == "phone":
        return start
    blank = text.find(" ", start, end)
    return blank + 1 if blank >= 0 else end


def _split_at_dates(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield what is left of a run when dates are taken out."""
    place = start
    for date in _DATE.finditer(text, start, end):
        yield place, date.start()
        place = date.end()
    yield place, end


def _find_strong(text: str, start: int, end: int) -> list[Detection]:
    """Find numbers whose form says what they are: with a country code, or grouped as in North America."""
    international = list(_find_international(text, start, end))
    found, place = list(international), 0
    for match in _NORTH_AMERICAN.finditer(text, start, end):
        while place < len(international) and international[place].end <= match.start():
            place += 1
        if place == len(international) or match.end() <= international[place].start:
            meaning = find_meaning_before(text, match.start())
            found.append(
                _make_detection(
                    text, *match.span(), (0.7 if match["mark"] == " " else 0.85) - _get_penalty(meaning)
                )
            )
    return sorted(found, key=lambda item: item.start)


def _find_international(text: str, start: int, end: int) -> Iterator[Detection]:
    if "0" in text[start : start + 2] or "+" in text[start:end]:
        for match in _INTERNATIONAL.finditer(text, start, end):
            stop = _find_international_end(match[0])
            if stop and not text[match.start() - 1 : match.start()].isalnum():
                yield _make_detection(text, match.start(), match.start() + stop, 0.95)


def _find_international_end(number: str) -> int:
    """Return where a number with a country code ends: at the last group with which it is not too long.

    "+45 12 34 56 78 2024" ends before the year, since Danish numbers have eight digits. The first group with
    which a number is long enough may make it too long.
    """
    prefix = _PREFIX.match(number)
    begin = prefix.end() if prefix else 0
    code = _find_code(re.sub(r"\D", "", number[begin : begin + 6]))
    if not code:
        return 0
    least, most = _LENGTHS[code]
    best = seen = 0
    for group in _DIGITS.finditer(number, begin):
        if group[0] == "0" and number[group.start() - 1] == "(":
            continue  # "(0)" is dialled only inside the country
        seen += len(group[0])
        longest = _MAX_WRITTEN if not best else len(code) + most + 1  # one more is a zero for "(0)"
        if len(code) + least <= seen <= longest:
            best = group.end()
    return best


def _find_code(digits: str) -> str:
    return next((digits[:size] for size in range(1, _MAX_CODE + 1) if digits[:size] in _LENGTHS), "")


def _find_loose(text: str, start: int, end: int) -> Iterator[Detection]:
    """Judge what has no form of its own by the words before it, its groups, and whether it stands alone."""
    if end - start < _MIN_DIGITS:
        return
    match = _CANDIDATE.search(text, start, end)
    if not match or match.end() - match.start() < _MIN_DIGITS:
        return
    begin, stop = _trim_brackets(text, *match.span())
    number = text[begin:stop]
    groups = tuple(_DIGITS.findall(number))
    if not _MIN_DIGITS <= sum(map(len, groups)) <= _MAX_DIGITS or _NEVER.match(number):
        return
    if _POSTAL.search(text, max(0, begin - 5), stop) or (len(groups) == 1 and _is_argument(text, begin)):
        return
    meaning = find_meaning_before(text, begin)
    in_line = meaning != "phone" or _is_named_in_line(text, begin)
    score = _compute_score(_Candidate(number, groups, meaning, _is_alone(text, begin, stop), in_line))
    if score:
        yield _make_detection(text, begin, stop, score - _get_penalty(meaning))
    elif meaning is None and _is_unlabelled_phone(text, begin, stop):
        yield _make_detection(text, begin, stop, 0.5)


def _is_argument(text: str, start: int) -> bool:
    """Whether digits stand in brackets right after a name, as in code, that is not one of a phone."""
    name = _CALL.search(text, max(0, start - 20), start + text.startswith("(", start))
    return name is not None and look_up_meaning(name[1].lower()) != "phone"


def _is_named_in_line(text: str, start: int) -> bool:
    """Whether words in the same line say that it is a phone's, or no words stand there."""
    line = text.rfind("\n", max(0, start - 48), start) + 1
    before = text[line:start]
    return not line or _NAME_IN.search(before) is None or find_meaning_before(before, len(before)) == "phone"


def _trim_brackets(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out a bracket that is not closed: one at the beginning alone, another with what follows it."""
    opened = text.rfind("(", start, end)
    if opened < 0 or ")" in text[opened:end]:
        return start, end
    return (start + 1, end) if opened == start else (start, start + len(text[start:opened].rstrip(" .-/")))


def _compute_score(number: _Candidate) -> float:
    if number.meaning == "phone":
        return 0.9 if len(number.groups) > 1 or _can_be_phone(number) else 0
    count = sum(map(len, number.groups))
    if len(number.groups) == 1 and "(" not in number.text:
        return _score_ungrouped(number)
    if count < _ALONE_MIN or _OTHERS.fullmatch(number.text) or _is_book(number.groups):
        return 0
    least = _ALONE_MIN if "(" in number.text else _TRUNK_MIN
    score = _score_grouping(number) if least <= count <= _TRUNK_MAX else 0
    if score or not number.alone or "." in number.text or "  " in number.text:
        return score
    return 0.55 if _MIN_GROUPS <= len(number.groups) < _MAX_GROUPS else 0


def _can_be_phone(number: _Candidate) -> bool:
    """Whether ungrouped digits that words call a phone's may be one: not round ones, nor far away."""
    digits = number.groups[0]
    return (
        not digits.startswith(_ALL)
        and not digits.endswith(_ROUND)
        and (number.in_line or len(digits) > _SHORT)
    )


def _is_book(groups: tuple[str, ...]) -> bool:
    number = "".join(groups)
    return number.startswith(("978", "979")) and len(number) == _BOOK and is_bar_code(number)


def _score_grouping(number: _Candidate) -> float:
    """Judge how the digits are grouped."""
    if _TRUNK.match(number.text) and _is_grouped(number.groups):
        return 0.75
    if _BRACKETS.match(number.text):
        return 0.7
    if _SLASH.fullmatch(number.text):
        return 0.6
    return 0.6 if tuple(map(len, number.groups)) in _GROUPINGS and "." not in number.text else 0


def _score_ungrouped(number: _Candidate) -> float:
    """Judge ungrouped digits: most of them are something else."""
    if number.groups[0] in _IN_ORDER:
        return 0
    if _LONG_ZERO.fullmatch(number.text):
        return 0.55
    return 0.6 if number.alone and _MOBILE.fullmatch(number.text) else 0


def _is_alone(text: str, start: int, end: int) -> bool:
    """Whether nothing but a bracket or a table's line stands beside it, as in a list of contacts."""
    before, after = text[max(0, start - 2) : start].rstrip(" ")[-1:], text[end : end + 1]
    return before in ("", "\n", "|", "(", "\t") and (
        after in ("", "\n", "|", ")", "\t") or (before, after) == ("|", " ")
    )


def _is_grouped(groups: tuple[str, ...]) -> bool:
    """Whether digits stand in pairs, threes or longer, and not one by one."""
    return len(groups) < _MAX_GROUPS and all(len(group) > 1 for group in groups[1:])


def _get_penalty(meaning: str | None) -> float:
    return 0.35 if meaning == "other" else 0.2 if meaning == "ssn" else 0


def _make_detection(text: str, start: int, end: int, score: float) -> Detection:
    extension = _EXTENSION.match(text, end)
    return Detection("phone", start, extension.end() if extension else end, score)


def _is_unlabelled_phone(text: str, start: int, end: int) -> bool:
    """Whether digits that nothing explains are grouped like a phone's and stand where words do."""
    number = text[start:end].replace("\u00a0", " ")
    groups = _DIGITS.findall(number)
    marks = set(_DIGITS.split(number)[1:-1])
    sizes = tuple(map(len, groups))
    if len(marks) != 1 or sizes not in _UNLABELLED_GROUPINGS.get(marks.pop(), ()) or _is_counted(groups):
        return False
    before = text[max(0, start - _REACH) : start]
    is_first = (not before or before[-1] == "\n") and (len(groups) > _COLUMNS or "-" in number)
    if not (is_first or _BEFORE.search(before)) or not _AFTER.match(text, end):
        return False
    # Amounts are written in threes too, but begin with small digits more often, and something follows them.
    return set(sizes) != {3} or "-" in number or (number[0] in "56789" and _END.match(text, end) is not None)


def _is_counted(groups: list[str]) -> bool:
    """Whether groups are rather years, a range of round numbers, numbers in a row, or a colour's parts."""
    if any(_WHOLE_YEAR.fullmatch(group) for group in groups):
        return True
    numbers = [int(group) for group in groups]
    if len(numbers) == _COLUMNS and 0 < numbers[0] < numbers[1]:
        return numbers[1] % numbers[0] == 0 or all(number % _TEN == 0 for number in numbers)
    return max(numbers) <= _COLOUR and (len(numbers) == _COLOURS or numbers == sorted(numbers))


PHONES = NumberKind("phone", _find, _find_strong, best=0.95)
