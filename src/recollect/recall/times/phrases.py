"""Find the times that a question names, such as "last week", "in May" or "7 May 2023".

`find_times` returns UTC intervals with their phrases. On 13 September 2023 "last week" gives the days from
4 to 10 September. Intervals are hints for ranking, not filters: an ambiguous date gives both readings, and
a month without a year is marked with `any_year`. English has the best coverage; of German, Spanish and
French the common phrases are known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from recollect.errors import InvalidArgumentError
from recollect.recall.times import date_ranges
from recollect.recall.times.date_ranges import DateRange
from recollect.recall.times.words import (
    DAY_PARTS,
    FRENCH,
    MONTHS,
    NUMBERS,
    SEASONS,
    TRIGGERS,
    UNITS,
    WEEKDAYS,
    exact_patterns,
    relative_patterns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Interval", "IntervalKind", "find_times"]

IntervalKind: TypeAlias = Literal["day", "week", "weekend", "month", "season", "year", "period", "recent"]

_MAX_CHARACTERS = 2_000  # questions are short; the rest of a longer text is ignored
_MAX_INTERVALS = 16
_RECENT_DAYS = 30
_FIRST_YEAR, _LAST_YEAR = 1990, 2100
_CENTURY = 2000
_SATURDAY = 5
_LENGTHS = {"day": 1, "week": 7, "month": 31, "year": 366}
_HOURS = 24
# Letters that match i, s or k with re.IGNORECASE, although lower() does not turn them into these.
_ODD_LETTERS = str.maketrans("\u0130\u0131\u017f\u212a\u2019", "IisK'")
_DIGIT = re.compile(r"[0-9]")
_WORD = re.compile(r"[^\W\d_]+")

# Months that are also other English words ("mayo", the planet Mars); the words around them decide.
_AMBIGUOUS_MONTHS = ("may", "march", "mar")
_AMBIGUOUS_FOREIGN_MONTHS = ("mayo", "mars")


@dataclass(frozen=True, slots=True)
class Interval:
    """A time that a question names: from `start` up to but not including `end`, both in UTC.

    `label` is the phrase in the question. `any_year` means that it names no year: `start` is the last such
    time, but the same days of any year may be meant. `weak` means that the phrase is vague.
    """

    start: datetime
    end: datetime
    label: str
    kind: IntervalKind
    any_year: bool = False
    weak: bool = False


class _Meaning(NamedTuple):
    kind: IntervalKind
    days: DateRange
    any_year: bool = False
    hours: tuple[int, int] | None = None


def find_times(question: str, now: datetime) -> list[Interval]:
    """Return the times that a question names, in its order; days begin at midnight in the zone of `now`."""
    if now.utcoffset() is None:
        raise InvalidArgumentError("now", "must have a time zone, e.g. datetime.now(UTC)")
    text = " ".join(question[:_MAX_CHARACTERS].translate(_ODD_LETTERS).split())
    found = sorted(_find_in(text, now), key=lambda pair: pair[0])[:_MAX_INTERVALS]
    intervals = [interval for _, interval in found]
    # Next to a date "recently" means nothing: it is relative to that date.
    return [interval for interval in intervals if not interval.weak] or intervals


def _find_in(text: str, now: datetime) -> Iterator[tuple[int, Interval]]:
    """Yield each time with its position in the text."""
    taken: list[tuple[int, int]] = []
    for name, pattern in _patterns_for(text).items():
        for match in pattern.finditer(text):
            if any(begin < match.end() and match.start() < end for begin, end in taken):
                continue
            for interval in _read_intervals(name, match, now):
                taken.append(match.span())
                yield match.start(), interval


def _patterns_for(text: str) -> dict[str, re.Pattern[str]]:
    """Return the patterns that can match; most questions need none."""
    with_numbers = exact_patterns() if _DIGIT.search(text) else {}
    return with_numbers | ({} if TRIGGERS.isdisjoint(_WORD.findall(text.lower())) else relative_patterns())


def _read_intervals(name: str, match: re.Match[str], now: datetime) -> Iterator[Interval]:
    try:
        for meaning in _READERS[name](match, now.date()):
            first, last = meaning.hours or (0, 0)
            yield Interval(
                _to_utc(meaning.days.first, first, now),
                _to_utc(meaning.days.first if meaning.hours else meaning.days.end, last, now),
                match.group(),
                meaning.kind,
                any_year=meaning.any_year,
                weak=meaning.kind == "recent",
            )
    except (ValueError, OverflowError):  # 31 June, or 9999 years ago: no such day
        return


def _to_utc(of_day: date, hour: int, now: datetime) -> datetime:
    """Return an hour of a day in UTC; the day begins at midnight in the zone of `now`."""
    whole = of_day + timedelta(days=hour // _HOURS)
    return datetime.combine(whole, clock(hour % _HOURS), now.tzinfo).astimezone(UTC)


def _read_iso(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    del today
    yield _read_anchor(match, date(int(match["year"]), int(match["month"]), int(match["day"])))


def _read_numeric(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    """Read 05/07/2023 both ways; with dots, the day is first."""
    del today
    first, second, year = int(match["first"]), int(match["second"]), int(match["year"])
    if year < 100:  # noqa: PLR2004 - a year of two digits
        if match["separator"] != "/":
            return  # 1.2.23 is a version more often than a date
        year += _CENTURY
    orders = {(first, second)} if match["separator"] == "." else {(first, second), (second, first)}
    for number, month in sorted(orders):
        if 1 <= month <= 12 and 1 <= number <= 31:  # noqa: PLR2004 - months of a year, days of a month
            yield _read_anchor(match, date(year, month, number))


def _read_day(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    """Read a day and a month, with or without a year."""
    number, month = int(match["day"]), MONTHS[match["month"].lower()]
    if match["year"]:
        yield _read_anchor(match, date(int(match["year"]), month, number))
    elif _is_date(match):
        meaning = _read_anchor(match, date_ranges.month_day(number, month, today).first)
        yield meaning._replace(any_year=True)


def _read_month_year(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    del today
    month = match["month"].lower()
    yield _Meaning("month", date_ranges.month(int(match["year"]), MONTHS.get(month) or int(month)))


def _read_month(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    """Read "in May": the last May that has begun, or that of any other year."""
    name, preposition = match["month"].lower(), match["prep"].lower()
    if name in _AMBIGUOUS_FOREIGN_MONTHS and preposition != "en":
        return
    if preposition in ("early", "late", "mid") and _may_be_verb(match, "month"):
        return
    number = MONTHS[name]
    of_year = today.year if number <= today.month else today.year - 1
    yield _Meaning("month", date_ranges.month(of_year, number), any_year=True)


def _read_season_year(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    del today
    name, of_year = SEASONS[match["season"].lower()], int(match["year"])
    if name == "winter":  # winter 2022 may have begun in 2021 or in 2022
        yield _Meaning("season", date_ranges.season(name, of_year - 1))
    yield _Meaning("season", date_ranges.season(name, of_year))


def _read_season(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    span = date_ranges.last_season(SEASONS[match["season"].lower()], today, ended=False)
    yield _Meaning("season", span, any_year=True)


def _read_year(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    del today
    if _FIRST_YEAR <= int(match["year"]) <= _LAST_YEAR:
        yield _Meaning("year", date_ranges.year(int(match["year"])))


def _read_ago(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    unit = UNITS.get(match["unit"].lower(), "year")
    if unit == "weekend":
        return
    if match.groupdict().get("vague"):
        near, far = date_ranges.ago(unit, 2, today), date_ranges.ago(unit, 5, today)
        yield _Meaning("period", DateRange(far.first, near.end))
    else:
        yield _Meaning(_unit_to_kind(unit), date_ranges.ago(unit, _parse_number(match["count"]), today))


def _read_last_many(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    yield from _read_window(UNITS[match["unit"].lower()], _parse_number(match["count"]), today)


def _read_part(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    phrase = match["part"].lower()
    if phrase == "hier" and not FRENCH.search(match.string):
        return
    days, first, last = DAY_PARTS[phrase]
    span = date_ranges.day(today + timedelta(days=days))
    yield _Meaning("day", span, hours=(first, last))


def _read_which(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    """Read "last week", "this summer", "past month" and the like."""
    groups = match.groupdict()
    which, word = (groups.get("which") or "last").lower(), match["unit"].lower()
    this = which in ("this", "cette", "cet", "ce") or which.startswith(("dies", "est"))
    unit = "year" if word == "an" else UNITS.get(word)
    if unit in ("week", "month", "year") and not this and (groups.get("window") or which == "past"):
        yield from _read_window(unit, 1, today)
    elif unit:
        yield from _read_this(unit, today) if this else _read_last(unit, today)
    elif word in SEASONS:
        name = SEASONS[word]
        span = (
            date_ranges.season(name, today.year) if this else date_ranges.last_season(name, today, ended=True)
        )
        yield _Meaning("season", span)
    elif word in WEEKDAYS:
        latest = date_ranges.week(today).end if this else today
        yield _Meaning("day", date_ranges.weekday(WEEKDAYS[word], latest - timedelta(days=1)))
    elif word not in _AMBIGUOUS_FOREIGN_MONTHS and not _may_be_verb(match, "unit"):
        number = MONTHS[word]
        back = 0 if this or number < today.month else 1
        yield _Meaning("month", date_ranges.month(today.year - back, number))


def _read_this(unit: str, today: date) -> Iterator[_Meaning]:
    if unit == "week":
        yield _Meaning("week", date_ranges.week(today))
    elif unit == "weekend":
        yield _Meaning("weekend", date_ranges.weekend(today))
    elif unit == "month":
        yield _Meaning("month", date_ranges.month(today.year, today.month))
    elif unit == "year":
        yield _Meaning("year", date_ranges.year(today.year))


def _read_last(unit: str, today: date) -> Iterator[_Meaning]:
    before = date_ranges.week(today).first - timedelta(days=1)
    if unit == "week":
        yield _Meaning("week", date_ranges.week(before))
    elif unit == "weekend":
        yield _Meaning("weekend", date_ranges.weekend(before))
    elif unit == "month":
        yield _Meaning("month", date_ranges.month(today.year, today.month - 1))
    elif unit == "year":
        yield _Meaning("year", date_ranges.year(today.year - 1))


def _read_weekend(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    """Read "over the weekend": the current or the last one."""
    del match
    span = date_ranges.weekend(today)
    yield _Meaning("weekend", span if span.first <= today else date_ranges.weekend(today - timedelta(days=7)))


def _read_weekday(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    yield _Meaning("day", date_ranges.weekday(WEEKDAYS[match["unit"].lower()], today))


def _read_recent(match: re.Match[str], today: date) -> Iterator[_Meaning]:
    del match
    yield _Meaning("recent", DateRange(today - timedelta(days=_RECENT_DAYS), today + timedelta(days=1)))


def _read_window(unit: str, count: int, today: date) -> Iterator[_Meaning]:
    """Yield the time from so many units ago until now."""
    if unit == "weekend":
        return
    if unit in ("month", "year"):
        first = date_ranges.months_before(today, count * (12 if unit == "year" else 1))
    else:
        first = today - timedelta(days=count * (7 if unit == "week" else 1))
    yield _Meaning("period", DateRange(first, today + timedelta(days=1)))


def _read_anchor(match: re.Match[str], of_day: date) -> _Meaning:
    """Return a day, or the days next to it in "the week before 3 August" or "the Sunday after"."""
    word, side, many = (match[name] and match[name].lower() for name in ("anchor", "side", "many"))
    if not word or side == "of":
        unit = UNITS.get(word) if word else "day"
        span = date_ranges.week(of_day) if unit == "week" else date_ranges.day(of_day)
        return _Meaning("week" if unit == "week" else "day", span)
    unit = UNITS.get(word, "weekday")
    if unit in ("weekday", "weekend"):
        return _find_day_beside(of_day, WEEKDAYS.get(word), after=side == "after")
    if many and side == "before":
        return _Meaning(_unit_to_kind(unit), date_ranges.ago(unit, _parse_number(many), of_day))
    length = timedelta(days=_LENGTHS[unit] * (_parse_number(many) if many else 1))
    following = of_day + timedelta(days=1)
    span = (
        DateRange(of_day - length, of_day) if side == "before" else DateRange(following, following + length)
    )
    return _Meaning("day" if length.days == 1 else "period", span)


def _find_day_beside(of_day: date, weekday: int | None, *, after: bool) -> _Meaning:
    """Return the nearest such weekday, or the nearest whole weekend, before or after a day."""
    if weekday is not None:
        return _Meaning("day", date_ranges.weekday(weekday, of_day + timedelta(days=7 if after else -1)))
    saturday = date_ranges.weekday(_SATURDAY, of_day + timedelta(days=7 if after else -2)).first
    return _Meaning("weekend", date_ranges.weekend(saturday))


def _unit_to_kind(unit: str) -> IntervalKind:
    return "day" if unit == "day" else "week" if unit == "week" else "month" if unit == "month" else "year"


def _parse_number(word: str) -> int:
    return NUMBERS.get(word.lower()) or int(word)


def _is_date(match: re.Match[str]) -> bool:
    """Whether a day and a month without a year are a date, unlike "the 2 may be" or "you may 7 times"."""
    groups = match.groupdict()
    if groups["prep"] or groups.get("of") or not _may_be_verb(match, "month"):
        return True
    return bool(groups["ordinal"]) and match.start("ordinal") > match.start("month")


def _may_be_verb(match: re.Match[str], group: str) -> bool:
    """Whether "may" or "march" can be the verb: in lower case, or as the first word."""
    name = match[group]
    if name.lower() not in _AMBIGUOUS_MONTHS:
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
