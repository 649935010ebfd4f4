"""The times that a question speaks of are found, and words that only look like times are not."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.timing import assert_costs_little_more, long_text

from recollect import InvalidArgumentError
from recollect.recall.times.phrases import Interval, find_times
from recollect.recall.times.words import DAY_PARTS, MONTHS, NUMBERS, SEASONS, UNITS, WEEKDAYS

NOW = datetime(2023, 9, 13, 15, 30, tzinfo=UTC)
"""A Wednesday."""

# A question, the kind of time, its first day and the day that ends it.
SINGLE: list[tuple[str, str, str, str]] = [
    ("What did I say yesterday?", "day", "2023-09-12", "2023-09-13"),
    ("and the day before yesterday", "day", "2023-09-11", "2023-09-12"),
    ("What's on today?", "day", "2023-09-13", "2023-09-14"),
    ("What was in today's notes", "day", "2023-09-13", "2023-09-14"),
    ("What happened last week?", "week", "2023-09-04", "2023-09-11"),
    ("LAST  WEEK", "week", "2023-09-04", "2023-09-11"),
    ("what did we plan this week", "week", "2023-09-11", "2023-09-18"),
    ("in the past week", "period", "2023-09-06", "2023-09-14"),
    ("over the last month", "period", "2023-08-13", "2023-09-14"),
    ("Where was I last weekend?", "weekend", "2023-09-09", "2023-09-11"),
    ("plans for this weekend", "weekend", "2023-09-16", "2023-09-18"),
    ("What did he do over the weekend?", "weekend", "2023-09-09", "2023-09-11"),
    ("last month", "month", "2023-08-01", "2023-09-01"),
    ("this month", "month", "2023-09-01", "2023-10-01"),
    ("the trip last year", "year", "2022-01-01", "2023-01-01"),
    ("goals of this year", "year", "2023-01-01", "2024-01-01"),
    ("3 days ago", "day", "2023-09-10", "2023-09-11"),
    ("three days ago", "day", "2023-09-10", "2023-09-11"),
    ("a week ago", "week", "2023-09-03", "2023-09-10"),
    ("two weeks ago", "week", "2023-08-27", "2023-09-03"),
    ("a couple of weeks ago", "week", "2023-08-27", "2023-09-03"),
    ("a few days ago", "period", "2023-09-08", "2023-09-12"),
    ("6 months ago", "month", "2023-02-26", "2023-03-29"),
    ("four years ago", "year", "2019-01-01", "2020-01-01"),
    ("in the last 10 days", "period", "2023-09-03", "2023-09-14"),
    ("the past two weeks", "period", "2023-08-30", "2023-09-14"),
    ("last Monday", "day", "2023-09-11", "2023-09-12"),
    ("last Wednesday", "day", "2023-09-06", "2023-09-07"),
    ("on Tuesday", "day", "2023-09-12", "2023-09-13"),
    ("on Wednesday", "day", "2023-09-13", "2023-09-14"),
    ("on Thursday", "day", "2023-09-07", "2023-09-08"),
    ("this Friday", "day", "2023-09-15", "2023-09-16"),
    ("May 2023", "month", "2023-05-01", "2023-06-01"),
    ("the end of may, 2023", "month", "2023-05-01", "2023-06-01"),
    ("December 2022", "month", "2022-12-01", "2023-01-01"),
    ("Sept. 2022", "month", "2022-09-01", "2022-10-01"),
    ("7 May 2023", "day", "2023-05-07", "2023-05-08"),
    ("on 7 May, 2023", "day", "2023-05-07", "2023-05-08"),
    ("May 7th, 2023", "day", "2023-05-07", "2023-05-08"),
    ("the 7th of May 2023", "day", "2023-05-07", "2023-05-08"),
    ("march 1 2023", "day", "2023-03-01", "2023-03-02"),
    ("Feb 29, 2024", "day", "2024-02-29", "2024-03-01"),
    ("31 June 2023", "month", "2023-06-01", "2023-07-01"),
    ("last March", "month", "2023-03-01", "2023-04-01"),
    ("last October", "month", "2022-10-01", "2022-11-01"),
    ("last September", "month", "2022-09-01", "2022-10-01"),
    ("2023-05-07", "day", "2023-05-07", "2023-05-08"),
    ("at 2023-05-07T10:15:00Z?", "day", "2023-05-07", "2023-05-08"),
    ("2023/5/7", "day", "2023-05-07", "2023-05-08"),
    ("in 2023-05", "month", "2023-05-01", "2023-06-01"),
    ("13/05/2023", "day", "2023-05-13", "2023-05-14"),
    ("05/05/2023", "day", "2023-05-05", "2023-05-06"),
    ("7.5.2023", "day", "2023-05-07", "2023-05-08"),
    ("Where did we live in 2022?", "year", "2022-01-01", "2023-01-01"),
    ("at the end of 1999", "year", "1999-01-01", "2000-01-01"),
    ("last summer", "season", "2023-06-01", "2023-09-01"),
    ("last autumn", "season", "2022-09-01", "2022-12-01"),
    ("last winter", "season", "2022-12-01", "2023-03-01"),
    ("this spring", "season", "2023-03-01", "2023-06-01"),
    ("the summer of 2022", "season", "2022-06-01", "2022-09-01"),
    ("fall 2021", "season", "2021-09-01", "2021-12-01"),
    ("the week before August 3, 2023", "period", "2023-07-27", "2023-08-03"),
    ("two weeks before August 11, 2023", "week", "2023-07-25", "2023-08-01"),
    ("the day after 3 August 2023", "day", "2023-08-04", "2023-08-05"),
    ("three days after 3 August 2023", "period", "2023-08-04", "2023-08-07"),
    ("the week of 2023-08-03", "week", "2023-07-31", "2023-08-07"),
    ("the Sunday before October 25, 2022", "day", "2022-10-23", "2022-10-24"),
    ("the Tuesday after October 25, 2022", "day", "2022-11-01", "2022-11-02"),
    ("the weekend before April 10, 2023", "weekend", "2023-04-08", "2023-04-10"),
    ("the weekend after April 10, 2023", "weekend", "2023-04-15", "2023-04-17"),
    ("What have I done recently?", "recent", "2023-08-14", "2023-09-14"),
    ("Was habe ich gestern gesagt?", "day", "2023-09-12", "2023-09-13"),
    ("Was war letzte Woche?", "week", "2023-09-04", "2023-09-11"),
    ("letztes Jahr", "year", "2022-01-01", "2023-01-01"),
    ("letzten Sommer", "season", "2023-06-01", "2023-09-01"),
    ("vor zwei Wochen", "week", "2023-08-27", "2023-09-03"),
    ("am 7. März 2023", "day", "2023-03-07", "2023-03-08"),
    ("¿Qué hice ayer?", "day", "2023-09-12", "2023-09-13"),
    ("la semana pasada", "week", "2023-09-04", "2023-09-11"),
    ("el 7 de mayo de 2023", "day", "2023-05-07", "2023-05-08"),
    ("hace tres días", "day", "2023-09-10", "2023-09-11"),
    ("Qu'est-ce que j'ai dit hier ?", "day", "2023-09-12", "2023-09-13"),
    ("la semaine dernière", "week", "2023-09-04", "2023-09-11"),
    ("l\u2019été dernier", "season", "2023-06-01", "2023-09-01"),
    ("l'an dernier", "year", "2022-01-01", "2023-01-01"),
    ("il y a deux ans", "year", "2021-01-01", "2022-01-01"),
    ("le 7 février 2023", "day", "2023-02-07", "2023-02-08"),
]

# A question without a year: the latest such time, and that of any other year.
ANY_YEAR: list[tuple[str, str, str, str]] = [
    ("What did I do in May?", "month", "2023-05-01", "2023-06-01"),
    ("in may", "month", "2023-05-01", "2023-06-01"),
    ("in September", "month", "2023-09-01", "2023-10-01"),
    ("in October", "month", "2022-10-01", "2022-11-01"),
    ("late May", "month", "2023-05-01", "2023-06-01"),
    ("the beginning of May", "month", "2023-05-01", "2023-06-01"),
    ("on 7 May", "day", "2023-05-07", "2023-05-08"),
    ("on May 7", "day", "2023-05-07", "2023-05-08"),
    ("may 7th", "day", "2023-05-07", "2023-05-08"),
    ("the 24th of december", "day", "2022-12-24", "2022-12-25"),
    ("29 February", "day", "2020-02-29", "2020-03-01"),
    ("in the summer", "season", "2023-06-01", "2023-09-01"),
    ("in winter", "season", "2022-12-01", "2023-03-01"),
    ("im Mai", "month", "2023-05-01", "2023-06-01"),
    ("en mayo", "month", "2023-05-01", "2023-06-01"),
    ("en mars", "month", "2023-03-01", "2023-04-01"),
]

NOTHING = [
    "",
    "   ",
    "May I ask you something?",
    "may i come in",
    "What may happen?",
    "this may be wrong",
    "May 5 people join the call?",
    "you may 7 times a day",
    "the 2 may be related",
    "the 2nd may be better",
    "they march on",
    "March on!",
    "10 march on the capital",
    "the last march of the penguins",
    "What did April say to June?",
    "Which gift did I get for May?",
    "Is Jan home?",
    "What is in June's kitchen?",
    "chicken in mayo",
    "life on Mars",
    "Can you wait a second?",
    "my second cat",
    "What was the last time we met?",
    "will it last a week or will it last two weeks",
    "will it last an hour",
    "was this an answer",
    "my last day at work",
    "the last 5 messages",
    "next week, next Monday, next summer, next May",
    "tomorrow",
    "on Mondays",
    "spring cleaning",
    "Did he fall down?",
    "It costs $2022 or 2,022 euros",
    "upgrade to 2023.1 or v2022 or 2022.05.07",
    "version 1.2.23 of the tool",
    "What's in 10.0.19.1?",
    "room 2012",
    "in 2048 bytes",
    "a block size of 2048",
    "from 2000 users",
    "in 1850",
    "https://example.org/2023/05/07/post",
    "call 555-2023-05",
    "2023-02-30",
    "45/45/2023",
    "0 weekends ago",
    "9999 years ago",
    "Was ist hier passiert?",
    "Who is Maria, and why did she decide to augment the store?",
]


def _days(interval: Interval) -> tuple[str, str]:
    assert interval.start.tzinfo is UTC
    assert interval.end.tzinfo is UTC
    assert (interval.start.time(), interval.end.time()) == (datetime.min.time(), datetime.min.time())
    return interval.start.date().isoformat(), interval.end.date().isoformat()


@pytest.mark.parametrize(("question", "kind", "start", "end"), SINGLE)
def test_time_is_found(question: str, kind: str, start: str, end: str) -> None:
    """A phrase means one span of days."""
    (found,) = find_times(question, NOW)
    assert (found.kind, *_days(found)) == (kind, start, end)
    assert (found.any_year, found.weak) == (False, kind == "recent")


@pytest.mark.parametrize(("question", "kind", "start", "end"), ANY_YEAR)
def test_any_year_is_said_when_none_is_named(question: str, kind: str, start: str, end: str) -> None:
    """Without a year it is the latest such time that has begun, but another year may be meant."""
    (found,) = find_times(question, NOW)
    assert (found.kind, *_days(found), found.any_year) == (kind, start, end, True)


@pytest.mark.parametrize("question", NOTHING)
def test_nothing_is_found_when_words_only_look_like_times(question: str) -> None:
    """Verbs, names, prices, versions and the future are no times to search by."""
    assert find_times(question, NOW) == []


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("05/07/2023", ["2023-05-07", "2023-07-05"]),
        ("5/7/23", ["2023-05-07", "2023-07-05"]),
        ("05-07-2023", ["2023-05-07", "2023-07-05"]),
        ("winter 2022", ["2021-12-01", "2022-12-01"]),
        ("in May 2022 or in June 2023", ["2022-05-01", "2023-06-01"]),
        ("in 2022 and in 2021, but not yesterday", ["2021-01-01", "2022-01-01", "2023-09-12"]),
    ],
)
def test_each_time_is_found_when_a_question_has_several_or_one_is_ambiguous(
    question: str, days: list[str]
) -> None:
    """Both readings of a date count, and each of several times."""
    assert sorted(_days(found)[0] for found in find_times(question, NOW)) == days


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("this morning", "2023-09-13T00", "2023-09-13T12"),
        ("this afternoon", "2023-09-13T12", "2023-09-13T18"),
        ("tonight", "2023-09-13T17", "2023-09-14T00"),
        ("last night", "2023-09-12T17", "2023-09-13T06"),
        ("yesterday evening", "2023-09-12T17", "2023-09-13T00"),
        ("heute Morgen", "2023-09-13T00", "2023-09-13T12"),
    ],
)
def test_part_of_a_day_has_its_hours(question: str, start: str, end: str) -> None:
    """Mornings and nights are shorter than a day."""
    (found,) = find_times(question, NOW)
    assert (found.start.isoformat()[:13], found.end.isoformat()[:13]) == (start, end)


def test_vague_word_is_left_out_when_there_is_a_date() -> None:
    """Next to a date "recently" is relative to that date."""
    (found,) = find_times("What did she recently watch on February 7, 2022?", NOW)
    assert (found.label, found.weak) == ("on February 7, 2022", False)


def test_label_is_the_phrase_of_the_question() -> None:
    """The words come back as they were written, in their order."""
    found = find_times("Was it LAST  week or on 7 May 2023?", NOW)
    assert [interval.label for interval in found] == ["LAST week", "on 7 May 2023"]


def test_days_begin_at_midnight_in_the_zone_of_now() -> None:
    """Yesterday in Tokyo is another UTC interval than elsewhere; a day can have 25 hours."""
    (tokyo,) = find_times("yesterday", datetime(2023, 9, 13, 1, tzinfo=ZoneInfo("Asia/Tokyo")))
    assert tokyo.start == datetime(2023, 9, 11, 15, tzinfo=UTC)
    (berlin,) = find_times("yesterday", datetime(2023, 10, 30, 1, tzinfo=ZoneInfo("Europe/Berlin")))
    assert berlin.end - berlin.start == timedelta(hours=25)


def test_now_is_rejected_when_it_has_no_time_zone() -> None:
    """A time without a zone could be anywhere."""
    with pytest.raises(InvalidArgumentError, match="time zone"):
        find_times("yesterday", datetime(2023, 9, 13))  # noqa: DTZ001 - what is tested


@pytest.mark.parametrize("now", [datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)])
def test_times_outside_the_calendar_are_left_out(now: datetime) -> None:
    """At the ends of the calendar nothing breaks."""
    for question, *_ in [*SINGLE, *ANY_YEAR]:
        assert len(find_times(question, now)) <= 1


TABLES = (MONTHS, WEEKDAYS, UNITS, SEASONS, NUMBERS, DAY_PARTS)
GLUE = ["last", "this", "past", "ago", "in", "on", "of", "the", "before", "vor", "hace", "il y a", ","]
DIGITS = ["0", "7", "31", "1.", "3rd", "2023", "2100", "9999", "2023-05-07", "05/07/2023"]
# Letters that patterns take for s, i and k, and half a character.
ODD = ["augu\u017ft", "fr\u0131day", "\u0130n May", "wee\u212a", "\ud800"]
WORDS = [*sorted({word for table in TABLES for word in table}), *GLUE, *DIGITS, *ODD]


@given(
    st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=12).map(" ".join),
    st.datetimes(timezones=st.just(UTC)),
)
def test_any_words_give_valid_intervals(question: str, now: datetime) -> None:
    """No question and no date raises an error, and each interval begins before it ends."""
    for found in find_times(question, now):
        assert found.start < found.end
        assert found.label


@pytest.mark.parametrize(
    "part",
    ["may ", "last ", "1", "1 ", "2023-", "a few ", " ", "the last two ", "week before ", "5/", "yesterday "],
)
def test_time_is_bounded_when_the_question_is_hostile(part: str) -> None:
    """A megabyte of the beginnings of patterns costs at most 20 times a megabyte of questions."""
    question = long_text(part, 1_000_000)
    assert len(find_times(question, NOW)) <= 16
    ordinary = long_text("What did Ann say last week of the trip on 3 May 2023? Or before? ", 1_000_000)
    assert_costs_little_more(lambda text: find_times(text, NOW), ordinary, question)
