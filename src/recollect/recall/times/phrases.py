"""Find the times that a question speaks of, such as "last week", "in May" or "7 May 2023".

`times_in` returns spans of UTC time with the words they come from. They are hints for ranking, not filters: a
phrase that could mean two dates gives both, and a month without a year says so (`any_year`). English is read
best; German, Spanish and French by their common words. What to do with a time is left to others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from recollect.errors import InvalidArgumentError
from recollect.recall.times import spans as timespans
from recollect.recall.times.spans import Span
from recollect.recall.times.words import (
    FRENCH,
    MONTHS,
    NUMBERS,
    PARTS,
    SEASONS,
    TRIGGERS,
    UNITS,
    WEEKDAYS,
    exact,
    relative,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Interval", "Kind", "times_in"]

Kind: TypeAlias = Literal["day", "week", "weekend", "month", "season", "year", "period", "recent"]

_MAX_CHARACTERS = 2_000  # a question is short; what is longer is read up to here
_MAX_INTERVALS = 16
_RECENT_DAYS = 30
_FIRST_YEAR, _LAST_YEAR = 1990, 2100
_CENTURY = 2000
_SATURDAY = 5
_LENGTHS = {"day": 1, "week": 7, "month": 31, "year": 366}
_HOURS = 24
# Letters that a pattern takes for i, s or k when it ignores case, although lower() does not make them so.
_ODD_LETTERS = str.maketrans("\u0130\u0131\u017f\u212a\u2019", "IisK'")
_DIGIT = re.compile(r"[0-9]")
_WORD = re.compile(r"[^\W\d_]+")

# English words, and a sandwich and a planet, that are months only where the words around them say so.
_WORDS_TOO = ("may", "march", "mar")
_FOREIGN_TOO = ("mayo", "mars")


@dataclass(frozen=True, slots=True)
class Interval:
    """A time that a question speaks of: from `start` up to but not including `end`, both in UTC.

    `label` is the phrase as it stands in the question. `any_year` says that no year was named: `start` is the
    latest such time, but the same days of any year may be meant. `weak` says that the phrase is vague.
    """

    start: datetime
    end: datetime
    label: str
    kind: Kind
    any_year: bool = False
    weak: bool = False


class _Meaning(NamedTuple):
    kind: Kind
    span: Span
    any_year: bool = False
    hours: tuple[int, int] | None = None


def times_in(question: str, now: datetime) -> list[Interval]:
    """Return the times that a question speaks of, in its order; days begin at midnight in `now`'s zone."""
    if now.utcoffset() is None:
        raise InvalidArgumentError("now", "must have a time zone, e.g. datetime.now(UTC)")
    text = " ".join(question[:_MAX_CHARACTERS].translate(_ODD_LETTERS).split())
    found = sorted(_found(text, now), key=lambda pair: pair[0])[:_MAX_INTERVALS]
    intervals = [interval for _, interval in found]
    # Beside a date "recently" says nothing: it is seen from that date.
    return [one for one in intervals if not one.weak] or intervals


def _found(text: str, now: datetime) -> Iterator[tuple[int, Interval]]:
    """Yield each time with its place in the text."""
    taken: list[tuple[int, int]] = []
    for name, pattern in _patterns_for(text).items():
        for match in pattern.finditer(text):
            if any(begin < match.end() and match.start() < end for begin, end in taken):
                continue
            for interval in _intervals(name, match, now):
                taken.append(match.span())
                yield match.start(), interval


def _patterns_for(text: str) -> dict[str, re.Pattern[str]]:
    """Return the patterns that can match at all; most questions need none."""
    with_numbers = exact() if _DIGIT.search(text) else {}
    return with_numbers | ({} if TRIGGERS.isdisjoint(_WORD.findall(text.lower())) else relative())


def _intervals(name: str, match: re.Match[str], now: datetime) -> Iterator[Interval]:
    try:
        for meaning in _READERS[name](match, now.date()):
            first, last = meaning.hours or (0, 0)
            yield Interval(
                _instant(meaning.span.first, first, now),
                _instant(meaning.span.first if meaning.hours else meaning.span.end, last, now),
                match.group(),
                meaning.kind,
                any_year=meaning.any_year,
                weak=meaning.kind == "recent",
            )
    except (ValueError, OverflowError):  # 31 June, or 9999 years ago: no such day
        return


def _instant(of_day: date, hour: int, now: datetime) -> datetime:
    """Return an hour of a day as UTC, where the day begins at midnight in the zone of `now`."""
    whole = of_day + timedelta(days=hour // _HOURS)
    return datetime.combine(whole, clock(hour % _HOURS), now.tzinfo).astimezone(UTC)


def _read_iso(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    del today
    yield _anchored(match, date(int(match["year"]), int(match["month"]), int(match["day"])))


def _read_numeric(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    """Read 05/07/2023 both ways; with dots the day comes first."""
    del today
    first, second, year = int(match["first"]), int(match["second"]), int(match["year"])
    if year < 100:  # noqa: PLR2004 - a year of two digits
        if match["sign"] != "/":
            return  # 1.2.23 is a version more often than a date
        year += _CENTURY
    orders = {(first, second)} if match["sign"] == "." else {(first, second), (second, first)}
    for number, month in sorted(orders):
        if 1 <= month <= 12 and 1 <= number <= 31:  # noqa: PLR2004 - months of a year, days of a month
            yield _anchored(match, date(year, month, number))


def _read_day(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    """Read a day and a month, with a year or without."""
    number, month = int(match["day"]), MONTHS[match["month"].lower()]
    if match["year"]:
        yield _anchored(match, date(int(match["year"]), month, number))
    elif _is_date(match):
        meaning = _anchored(match, timespans.month_day(number, month, today).first)
        yield meaning._replace(any_year=True)


def _read_month_year(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    del today
    month = match["month"].lower()
    yield _Meaning("month", timespans.month(int(match["year"]), MONTHS.get(month) or int(month)))


def _read_month(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    """Read "in May": the latest May that has begun, and that of any other year."""
    name, preposition = match["month"].lower(), match["prep"].lower()
    if name in _FOREIGN_TOO and preposition != "en":
        return
    if preposition in ("early", "late", "mid") and _is_word(match, "month"):
        return
    number = MONTHS[name]
    of_year = today.year if number <= today.month else today.year - 1
    yield _Meaning("month", timespans.month(of_year, number), any_year=True)


def _read_season_year(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    del today
    name, of_year = SEASONS[match["season"].lower()], int(match["year"])
    if name == "winter":  # the winter of a year may be the one that began it or the one that ended it
        yield _Meaning("season", timespans.season(name, of_year - 1))
    yield _Meaning("season", timespans.season(name, of_year))


def _read_season(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    span = timespans.last_season(SEASONS[match["season"].lower()], today, ended=False)
    yield _Meaning("season", span, any_year=True)


def _read_year(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    del today
    if _FIRST_YEAR <= int(match["year"]) <= _LAST_YEAR:
        yield _Meaning("year", timespans.year(int(match["year"])))


def _read_ago(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    unit = UNITS.get(match["unit"].lower(), "year")
    if unit == "weekend":
        return
    if match.groupdict().get("vague"):
        near, far = timespans.ago(unit, 2, today), timespans.ago(unit, 5, today)
        yield _Meaning("period", Span(far.first, near.end))
    else:
        yield _Meaning(_kind(unit), timespans.ago(unit, _number(match["count"]), today))


def _read_last_many(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    yield from _window(UNITS[match["unit"].lower()], _number(match["count"]), today)


def _read_part(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    phrase = match["part"].lower()
    if phrase == "hier" and not FRENCH.search(match.string):
        return
    days, first, last = PARTS[phrase]
    span = timespans.day(today + timedelta(days=days))
    yield _Meaning("day", span, hours=(first, last))


def _read_which(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    """Read "last week", "this summer", "past month" and the like."""
    groups = match.groupdict()
    which, word = (groups.get("which") or "last").lower(), match["unit"].lower()
    this = which in ("this", "cette", "cet", "ce") or which.startswith(("dies", "est"))
    unit = "year" if word == "an" else UNITS.get(word)
    if unit in ("week", "month", "year") and not this and (groups.get("window") or which == "past"):
        yield from _window(unit, 1, today)
    elif unit:
        yield from _this(unit, today) if this else _last(unit, today)
    elif word in SEASONS:
        name = SEASONS[word]
        span = timespans.season(name, today.year) if this else timespans.last_season(name, today, ended=True)
        yield _Meaning("season", span)
    elif word in WEEKDAYS:
        latest = timespans.week(today).end if this else today
        yield _Meaning("day", timespans.weekday(WEEKDAYS[word], latest - timedelta(days=1)))
    elif word not in _FOREIGN_TOO and not _is_word(match, "unit"):
        number = MONTHS[word]
        back = 0 if this or number < today.month else 1
        yield _Meaning("month", timespans.month(today.year - back, number))


def _this(unit: str, today: date) -> Iterator[_Meaning]:
    if unit == "week":
        yield _Meaning("week", timespans.week(today))
    elif unit == "weekend":
        yield _Meaning("weekend", timespans.weekend(today))
    elif unit == "month":
        yield _Meaning("month", timespans.month(today.year, today.month))
    elif unit == "year":
        yield _Meaning("year", timespans.year(today.year))


def _last(unit: str, today: date) -> Iterator[_Meaning]:
    before = timespans.week(today).first - timedelta(days=1)
    if unit == "week":
        yield _Meaning("week", timespans.week(before))
    elif unit == "weekend":
        yield _Meaning("weekend", timespans.weekend(before))
    elif unit == "month":
        yield _Meaning("month", timespans.month(today.year, today.month - 1))
    elif unit == "year":
        yield _Meaning("year", timespans.year(today.year - 1))


def _read_weekend(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    """Read "over the weekend": the one that is now, or the last."""
    del match
    span = timespans.weekend(today)
    yield _Meaning("weekend", span if span.first <= today else timespans.weekend(today - timedelta(days=7)))


def _read_weekday(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    yield _Meaning("day", timespans.weekday(WEEKDAYS[match["unit"].lower()], today))


def _read_recent(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    del match
    yield _Meaning("recent", Span(today - timedelta(days=_RECENT_DAYS), today + timedelta(days=1)))


def _window(unit: str, count: int, today: date) -> Iterator[_Meaning]:
    """Return the time from so many units ago until now."""
    if unit == "weekend":
        return
    if unit in ("month", "year"):
        first = timespans.months_before(today, count * (12 if unit == "year" else 1))
    else:
        first = today - timedelta(days=count * (7 if unit == "week" else 1))
    yield _Meaning("period", Span(first, today + timedelta(days=1)))


def _anchored(match: re.Match[str], of_day: date) -> _Meaning:
    """Return a day, or what stands beside it in "the week before 3 August" or "the Sunday after"."""
    word, side, many = (match[name] and match[name].lower() for name in ("anchor", "side", "many"))
    if not word or side == "of":
        unit = UNITS.get(word) if word else "day"
        span = timespans.week(of_day) if unit == "week" else timespans.day(of_day)
        return _Meaning("week" if unit == "week" else "day", span)
    unit = UNITS.get(word, "weekday")
    if unit in ("weekday", "weekend"):
        return _named_day_beside(of_day, WEEKDAYS.get(word), after=side == "after")
    if many and side == "before":
        return _Meaning(_kind(unit), timespans.ago(unit, _number(many), of_day))
    length = timedelta(days=_LENGTHS[unit] * (_number(many) if many else 1))
    following = of_day + timedelta(days=1)
    span = Span(of_day - length, of_day) if side == "before" else Span(following, following + length)
    return _Meaning("day" if length.days == 1 else "period", span)


def _named_day_beside(of_day: date, weekday: int | None, *, after: bool) -> _Meaning:
    """Return the nearest day of that name, or the nearest whole weekend, before or after a day."""
    if weekday is not None:
        return _Meaning("day", timespans.weekday(weekday, of_day + timedelta(days=7 if after else -1)))
    saturday = timespans.weekday(_SATURDAY, of_day + timedelta(days=7 if after else -2)).first
    return _Meaning("weekend", timespans.weekend(saturday))


def _kind(unit: str) -> Kind:
    return "day" if unit == "day" else "week" if unit == "week" else "month" if unit == "month" else "year"


def _number(word: str) -> int:
    return NUMBERS.get(word.lower()) or int(word)


def _is_date(match: re.Match[str]) -> bool:
    """Say whether a day and a month without a year are a date, not "the 2 may be" or "you may 7 times"."""
    groups = match.groupdict()
    if groups["prep"] or groups.get("of") or not _is_word(match, "month"):
        return True
    return bool(groups["ordinal"]) and match.start("ordinal") > match.start("month")


def _is_word(match: re.Match[str], group: str) -> bool:
    """Say whether "may" or "march" may be the verb here: written small, or as the first word."""
    name = match[group]
    if name.lower() not in _WORDS_TOO:
        return False
    return name.islower() or not match.string[: match.start(group)].strip()


_READERS: dict[str, Callable[[re.Match[str], date], Iterator[_Meaning]]] = {
    "iso": _read_iso,
    "numeric": _read_numeric,
    "day_month": _read_day,
    "month_day": _read_day,
    "month_year": _read_month_year,
    "year_month": _read_month_year,
    "season_year": _read_season_year,
    "ago": _read_ago,
    "ago_before": _read_ago,
    "last_many": _read_last_many,
    "part": _read_part,
    "which": _read_which,
    "which_after": _read_which,
    "weekend": _read_weekend,
    "weekday": _read_weekday,
    "month": _read_month,
    "season": _read_season,
    "year": _read_year,
    "recent": _read_recent,
}
