"""Reckon with spans of days: the week, month, season or year that a phrase means, seen from a given day.

A span is a pair of dates, the second of them not included. Nothing here reads text or knows of hours;
`phrases.py` finds the phrases. Weeks begin on Monday, seasons are those of the northern half of the world.
"""

from __future__ import annotations

import calendar
from datetime import date, timedelta
from typing import NamedTuple

__all__ = [
    "Span",
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
_LEAP = 8  # within so many years every day of the calendar has come


class Span(NamedTuple):
    """The days from `first` up to but not including `end`."""

    first: date
    end: date


def day(first: date) -> Span:
    """Return one day."""
    return Span(first, first + _DAY)


def week(inside: date) -> Span:
    """Return the week that holds a day, from Monday to Sunday."""
    monday = inside - timedelta(days=inside.weekday())
    return Span(monday, monday + _WEEK)


def weekend(inside: date) -> Span:
    """Return the Saturday and Sunday of the week that holds a day."""
    saturday = week(inside).first + timedelta(days=_SATURDAY)
    return Span(saturday, saturday + 2 * _DAY)


def weekday(number: int, latest: date) -> Span:
    """Return the latest day of that name, Monday being 0, that is not after a day."""
    return day(latest - timedelta(days=(latest.weekday() - number) % 7))


def month(of_year: int, number: int) -> Span:
    """Return a month, which may be counted beyond the year's end."""
    following = number + 1
    return Span(_month_start(of_year, number), _month_start(of_year, following))


def year(number: int) -> Span:
    """Return a year."""
    return Span(date(number, 1, 1), date(number + 1, 1, 1))


def season(name: str, of_year: int) -> Span:
    """Return a season by the year in which it begins."""
    first = _SEASONS[name]
    return Span(_month_start(of_year, first), _month_start(of_year, first + 3))


def last_season(name: str, today: date, *, ended: bool) -> Span:
    """Return the latest season of that name that has begun or, if asked for, has ended."""
    for back in range(3):
        span = season(name, today.year - back)
        if (span.end if ended else span.first) <= today:
            return span
    raise ValueError(name)  # within three years each season has come and gone


def month_day(number: int, of_month: int, today: date) -> Span:
    """Return the latest such day that is not after today."""
    for back in range(_LEAP + 1):
        if number <= calendar.monthrange(today.year - back, of_month)[1]:
            found = date(today.year - back, of_month, number)
            if found <= today:
                return day(found)
    raise ValueError(number)  # no month has such a day


def months_before(today: date, count: int) -> date:
    """Return the same day some months earlier, or the last of that month if it is shorter."""
    first = _month_start(today.year, today.month - count)
    return first.replace(day=min(today.day, calendar.monthrange(first.year, first.month)[1]))


def ago(unit: str, count: int, today: date) -> Span:
    """Return the time that so many days, weeks, months or years before a day mean, with some slack."""
    if unit == "day":
        return day(today - count * _DAY)
    if unit == "week":
        return around(today - count * _WEEK, 3)
    if unit == "month":
        return around(months_before(today, count), 15)
    return year(today.year - count)


def around(middle: date, slack: int) -> Span:
    """Return a day with some days before and after it."""
    return Span(middle - slack * _DAY, middle + (slack + 1) * _DAY)


def _month_start(of_year: int, number: int) -> date:
    years, index = divmod(number - 1, 12)
    return date(of_year + years, index + 1, 1)
