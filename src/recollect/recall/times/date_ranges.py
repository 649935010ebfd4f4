"""Date arithmetic: the range of days that "last week", "in May" or "this summer" means on a given day.

Nothing here reads text or knows of hours; `phrases.py` finds the phrases. Weeks begin on Monday, seasons are
those of the northern hemisphere.
"""

from __future__ import annotations

import calendar
from datetime import date, timedelta
from typing import NamedTuple

__all__ = [
    "DateRange",
    "ago",
    "around",
    "day",
    "last_season",
    "month",
    "month_day",
    "months_before",
    "season",
    "week",
    "weekday",
    "weekend",
    "year",
]

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)
_SATURDAY = 5
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}
_LEAP_YEARS = 8  # years within which every calendar day occurs, 29 February too


class DateRange(NamedTuple):
    """The days from `first` up to but not including `end`."""

    first: date
    end: date


def day(first: date) -> DateRange:
    """Return the range of one day."""
    return DateRange(first, first + _DAY)


def week(inside: date) -> DateRange:
    """Return the week of a day, from Monday to Sunday."""
    monday = inside - timedelta(days=inside.weekday())
    return DateRange(monday, monday + _WEEK)


def weekend(inside: date) -> DateRange:
    """Return the Saturday and Sunday of the week of a day."""
    saturday = week(inside).first + timedelta(days=_SATURDAY)
    return DateRange(saturday, saturday + 2 * _DAY)


def weekday(number: int, latest: date) -> DateRange:
    """Return the last such weekday (0 is Monday) on or before a day."""
    return day(latest - timedelta(days=(latest.weekday() - number) % 7))


def month(of_year: int, number: int) -> DateRange:
    """Return a month; 13 is January of the next year, and 0 December of the year before."""
    following = number + 1
    return DateRange(_month_start(of_year, number), _month_start(of_year, following))


def year(number: int) -> DateRange:
    """Return a whole year."""
    return DateRange(date(number, 1, 1), date(number + 1, 1, 1))


def season(name: str, of_year: int) -> DateRange:
    """Return a season by the year in which it begins."""
    first = _SEASONS[name]
    return DateRange(_month_start(of_year, first), _month_start(of_year, first + 3))


def last_season(name: str, today: date, *, ended: bool) -> DateRange:
    """Return the last season of that name that has begun or, with `ended`, that is over."""
    for back in range(3):
        span = season(name, today.year - back)
        if (span.end if ended else span.first) <= today:
            return span
    raise ValueError(name)  # cannot happen: each season ends at least once in three years


def month_day(number: int, of_month: int, today: date) -> DateRange:
    """Return the last such day of the year on or before today."""
    for back in range(_LEAP_YEARS + 1):
        if number <= calendar.monthrange(today.year - back, of_month)[1]:
            found = date(today.year - back, of_month, number)
            if found <= today:
                return day(found)
    raise ValueError(number)  # the month has no such day


def months_before(today: date, count: int) -> date:
    """Return the same day some months earlier, or the last day of a shorter month."""
    first = _month_start(today.year, today.month - count)
    return first.replace(day=min(today.day, calendar.monthrange(first.year, first.month)[1]))


def ago(unit: str, count: int, today: date) -> DateRange:
    """Return the days that "two weeks ago" and the like can mean, with some slack."""
    if unit == "day":
        return day(today - count * _DAY)
    if unit == "week":
        return around(today - count * _WEEK, 3)
    if unit == "month":
        return around(months_before(today, count), 15)
    return year(today.year - count)


def around(middle: date, slack: int) -> DateRange:
    """Return a day with `slack` days before and after it."""
    return DateRange(middle - slack * _DAY, middle + (slack + 1) * _DAY)


def _month_start(of_year: int, number: int) -> date:
    years, index = divmod(number - 1, 12)
    return date(of_year + years, index + 1, 1)
