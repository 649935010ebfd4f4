"""The words for times in English, German, Spanish and French, and the patterns made of them.

Only vocabulary: `phrases` knows what the words mean. The patterns expect single spaces, and every repeat is
bounded, so that no text makes them slow.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DAY_PARTS",
    "FRENCH",
    "MONTHS",
    "NUMBERS",
    "SEASONS",
    "TRIGGERS",
    "UNITS",
    "WEEKDAYS",
    "exact_patterns",
    "relative_patterns",
]

_MONTH_NAMES = (
    "january jan januar jänner enero janvier",
    "february feb februar febrero février",
    "march mar märz marzo mars",
    "april apr abril avril",
    "may mai mayo",
    "june jun juni junio juin",
    "july jul juli julio juillet",
    "august aug agosto août",
    "september sep sept septiembre septembre",
    "october oct oktober octubre octobre",
    "november nov noviembre novembre",
    "december dec dezember diciembre décembre",
)
_WEEKDAY_NAMES = (
    "monday montag lunes lundi",
    "tuesday dienstag martes mardi",
    "wednesday mittwoch miércoles mercredi",
    "thursday donnerstag jueves jeudi",
    "friday freitag viernes vendredi",
    "saturday samstag sonnabend sábado samedi",
    "sunday sonntag domingo dimanche",
)
_UNIT_NAMES = {
    "day": "day days tag tage tagen día días dia dias jour jours",
    "week": "week weeks woche wochen semana semanas semaine semaines",
    "weekend": "weekend week-end wochenende fin|de|semana",
    "month": "month months monat monate monaten mes meses mois",
    "year": "year years jahr jahre jahren año años année années",
}
_SEASON_NAMES = {
    "spring": "spring springtime frühling frühjahr primavera printemps",
    "summer": "summer summertime sommer verano été",
    "autumn": "autumn fall herbst otoño automne",
    "winter": "winter wintertime invierno hiver",
}
_NUMBER_NAMES = (
    "a an one ein eine einem einer un una une",
    "two couple|of couple zwei dos deux",
    "three few drei tres trois",
    "four several vier cuatro quatre",
    "five fünf cinco cinq",
    "six sechs seis",
    "seven sieben siete sept",
    "eight acht ocho huit",
    "nine neun nueve neuf",
    "ten zehn diez dix",
    "eleven elf once onze",
    "twelve zwölf doce douze",
)


def _map_to_numbers(names: tuple[str, ...], first: int) -> dict[str, int]:
    return {
        word.replace("|", " "): number for number, line in enumerate(names, first) for word in line.split()
    }


def _map_to_names(names: dict[str, str]) -> dict[str, str]:
    return {word.replace("|", " "): name for name, line in names.items() for word in line.split()}


def _match_any(*tables: Iterable[str]) -> str:
    words = sorted({word for table in tables for word in table}, key=len, reverse=True)
    return "(?:" + "|".join(map(re.escape, words)) + ")"


MONTHS = _map_to_numbers(_MONTH_NAMES, 1)
WEEKDAYS = _map_to_numbers(_WEEKDAY_NAMES, 0)
NUMBERS = _map_to_numbers(_NUMBER_NAMES, 1)
UNITS = _map_to_names(_UNIT_NAMES)
SEASONS = _map_to_names(_SEASON_NAMES)

DAY_PARTS: dict[str, tuple[int, int, int]] = {
    "the day before yesterday": (-2, 0, 24),
    "day before yesterday": (-2, 0, 24),
    "vorgestern": (-2, 0, 24),
    "anteayer": (-2, 0, 24),
    "avant-hier": (-2, 0, 24),
    "yesterday morning": (-1, 0, 12),
    "yesterday afternoon": (-1, 12, 18),
    "yesterday evening": (-1, 17, 24),
    "yesterday": (-1, 0, 24),
    "gestern": (-1, 0, 24),
    "ayer": (-1, 0, 24),
    "hier": (-1, 0, 24),
    "last night": (-1, 17, 30),
    "anoche": (-1, 17, 30),
    "today": (0, 0, 24),
    "heute": (0, 0, 24),
    "hoy": (0, 0, 24),
    "aujourd'hui": (0, 0, 24),
    "this morning": (0, 0, 12),
    "heute morgen": (0, 0, 12),
    "esta mañana": (0, 0, 12),
    "ce matin": (0, 0, 12),
    "this afternoon": (0, 12, 18),
    "this evening": (0, 17, 24),
    "tonight": (0, 17, 24),
    "heute abend": (0, 17, 24),
    "esta noche": (0, 17, 24),
    "ce soir": (0, 17, 24),
}
"""Phrases for a day or a part of one: days from today, first hour, end hour (above 24: the next day)."""

FRENCH = re.compile(
    r"\b(?:je|tu|nous|vous|que|quoi|où|qui|avons|avez|est-ce|suis)\b|\b(?:j|qu|l|d)'", re.IGNORECASE
)
"""Words that only French questions have: there "hier" means yesterday, in German it means here."""

_RECENT = {
    "recently",
    "lately",
    "neulich",
    "kürzlich",
    "recientemente",
    "últimamente",
    "récemment",
    "dernièrement",
}

# "An" means year in French and is a common word in English, so only the words around it can tell.
_FRENCH_YEAR = {"il", "ans", "dernier", "passé"}

TRIGGERS = frozenset(
    word
    for table in (MONTHS, WEEKDAYS, UNITS, SEASONS, DAY_PARTS, _RECENT, _FRENCH_YEAR)
    for phrase in table
    for word in re.findall(r"[^\W\d_]+", phrase)
) - {"a", "an", "the", "this", "de", "before", "last", "ce", "d"}
"""A question without one of these words and without a digit names no time."""

_DAY = r"(?P<day>0?[1-9]|[12][0-9]|3[01])(?P<ordinal>st|nd|rd|th|er|\.)?"
_YEAR = r"(?P<year>(?:19|20)[0-9]{2}|2100)(?![0-9]|[.,][0-9]|[-/][0-9])"
_MONTH = rf"(?P<month>{_match_any(MONTHS)})\b\.?"
_SEASON = rf"(?P<season>{_match_any(SEASONS)})"
_UNIT = rf"(?P<unit>{_match_any(UNITS)})"
_COUNT = rf"(?P<count>[0-9]{{1,4}}|{_match_any(NUMBERS)})"
# Units that turn a number after a month or a preposition into a quantity: "in may 7 users".
_NO_UNIT = (
    r"(?! ?(?:%|[$€£]|:[0-9]|(?:[ap]m|percent|dollars?|euros?|pounds?|words?|bytes?|bits?|tokens?|people|"
    r"users?|messages?|pages?|lines?|files?|rows?|items?|times|things|steps|points|miles|meters|metres|km|kg|hours?|"
    r"minutes?|seconds?|days?|weeks?|months?|years?)\b))"
)
_PART_OF = r"(?:(?:beginning|start|middle|end|half|quarter|rest|most|all|weeks?|weekend|days?|month) of)"
_START = r"(?<![\w$€£#./,:-])"
_END = r"(?!\w|-[0-9])"
# "The week before", "the Sunday after", "two weeks before" a date.
_ANCHOR = (
    rf"(?:(?:(?P<many>[0-9]{{1,3}}|{_match_any(NUMBERS)}) )?(?P<anchor>{_match_any(UNITS, WEEKDAYS)}) "
    r"(?P<side>before|after|of) (?:the )?)?"
)


def _compile(*parts: str) -> re.Pattern[str]:
    return re.compile(_START + "".join(parts) + _END, re.IGNORECASE)


@cache
def exact_patterns() -> dict[str, re.Pattern[str]]:
    """Return the patterns of phrases with a calendar number, the most exact first."""
    return {
        "iso": _compile(
            _ANCHOR,
            r"(?P<year>(?:19|20)[0-9]{2})(?P<separator>[-/])(?P<month>0?[1-9]|1[0-2])(?P=separator)",
            r"(?P<day>0?[1-9]|[12][0-9]|3[01])(?:[T ][0-9]{2}:[0-9]{2}[0-9:.Z+-]{0,16})?",
        ),
        "numeric": _compile(
            _ANCHOR,
            r"(?P<first>[0-9]{1,2})(?P<separator>[-/.])(?P<second>[0-9]{1,2})(?P=separator)",
            r"(?P<year>(?:19|20)[0-9]{2}|[0-9]{2})",
        ),
        "day_month": _compile(
            _ANCHOR,
            rf"(?P<prep>on (?:the )?|am |le |el )?{_DAY} (?P<of>of |de )?{_MONTH}",
            rf"(?:,? (?:of |de |del )?{_YEAR})?",
        ),
        "month_day": _compile(
            _ANCHOR,
            rf"(?P<prep>on |by |of |since |until |around )?{_MONTH} (?:the )?{_DAY}\b(?:,? {_YEAR})?",
            r"(?! of [a-z])",
            _NO_UNIT,
        ),
        "month_year": _compile(rf"{_MONTH},? (?:of |de |del )?{_YEAR}"),
        "year_month": _compile(r"(?P<year>(?:19|20)[0-9]{2})-(?P<month>0[1-9]|1[0-2])"),
        "season_year": _compile(rf"{_SEASON},? (?:of |in |de |del )?{_YEAR}"),
        "year": _compile(
            rf"(?:in|during|from|year|jahr|en|año|année|{_PART_OF}) (?:the year )?{_YEAR}", _NO_UNIT
        ),
    }


@cache
def relative_patterns() -> dict[str, re.Pattern[str]]:
    """Return the patterns of phrases that count from today, the most exact first."""
    return {
        "ago": _compile(rf"(?:(?P<vague>a few |several )|(?:a )?{_COUNT} ){_UNIT} ago"),
        "ago_before": _compile(rf"(?:vor|hace|il y a) {_COUNT} (?P<unit>{_match_any(UNITS)}|ans?)"),
        # The article shows that "last" is no verb here, unlike in "will it last two weeks".
        "last_many": _compile(
            r"(?:the|these|my|our|den|las|los|les) (?:last|past|letzten|últim[ao]s|derni(?:ers|ères)) ",
            rf"{_COUNT} {_UNIT}",
        ),
        "part": _compile(rf"(?P<part>{_match_any(DAY_PARTS)})"),
        "which": _compile(
            r"(?P<window>(?:in|over|during|within|for) the )?",
            r"(?P<which>last|previous|past|this|(?:letzt|vergangen|vorig|dies)e[nrsm]?|est[ae]|",
            r"cet|cette|ce) ",
            rf"(?P<unit>{_match_any(UNITS, SEASONS, WEEKDAYS, MONTHS)})",
        ),
        "which_after": _compile(
            rf"(?P<unit>{_match_any(UNITS, SEASONS, WEEKDAYS)}|an) (?:pasad[oa]|derni(?:er|ère)|passée?)"
        ),
        "weekend": _compile(
            r"(?:(?:over|at|on|during) the weekend|am wochenende|le week-end|el fin de semana)"
        ),
        "weekday": _compile(rf"(?:on|am|el) (?P<unit>{_match_any(WEEKDAYS)})"),
        "month": _compile(
            rf"(?P<prep>in|during|im|en|early(?: in)?|late(?: in)?|mid|{_PART_OF})[ -]{_MONTH}(?!'s)"
        ),
        "season": _compile(rf"(?:in|during|over|im|en|au) (?:the |el |la |l')?{_SEASON}"),
        "recent": _compile(rf"(?:{'|'.join(sorted(_RECENT))})"),
    }
