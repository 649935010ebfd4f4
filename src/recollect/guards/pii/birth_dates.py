"""Dates of birth: a date after words that say whose day it is."""

import re
from collections.abc import Iterator

from recollect.guards.detection import Detection
from recollect.guards.pii.context_words import has_any
from recollect.guards.pii.kinds import DataKind

_LABEL = (
    r"(?<!\w)(?:d\.?o\.?b\.?|date[ _]of[ _]birth|birth[ _-]?(?:date|day)|born"
    r"|geb(?:oren|urtsdatum|urtstag|\.)?|né(?:e|\(e\))?"
    r"|date de naissance|naissance|nacid[oa]|nacimiento|nat[oa]"
    r"|data di nascita|nascita"
    r"|nascid[oa]|data de nascimento|nascimento:"
    r"|geboortedatum|född|födelsedatum|født"
    r"|urodzon[yae]|urodzenia|ur\.|дата рождения|родил(?:ся|ась)|рождения)"
    r"|出生日期|生年月日|生日|生于|출생"
)
_MONTHS = (
    r"(?:jan|feb|mar|m[äa]r|apr|may|mai|mag|jun|jui|jul|lug|aug|ago|ao[uû]|sep|set"
    r"|oct|okt|ott|out|nov|dec|dez|dic|d[ée]c|gen|ene"
    r"|f[ée]v|f[ée]b|abr|avr|maj|mei|giu|sty|lut|kwi|cze|lip|sie|wrz|pa[zź]|lis|gru"
    r"|янв|фев|мар|апр|ма[йя]|июн|июл|авг|сен|окт|ноя|дек)[a-zé-ûа-я]{0,9}\.?"
)
_DATE = (
    rf"(?:\d{{1,2}}(?P<m>[./-]) ?\d{{1,2}}(?P=m) ?\d{{2,4}}|\d{{4}}[./-]\d{{1,2}}[./-]\d{{1,2}}"
    rf"|\d{{4}}年\d{{1,2}}月\d{{1,2}}日"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er|º|\.)?(?: de| of)? ?-?{_MONTHS}(?: de| of|,)? ?-?\d{{4}}"
    rf"|{_MONTHS} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}|\d{{8}})(?!\d)"
)
_PADDING = r"[ \t\u00a0.|_:=\u00b7\u2026\u2013-]{0,36}"  # of a table's column, or dots that lead to the date
_GAP = rf"(?:[^\d\n]{{0,16}}?|[^\w\n]{{0,3}}{_PADDING}[^\w\n]{{0,2}})"
_BIRTH = re.compile(rf"(?:{_LABEL}){_GAP}(?<![\d\w])(?P<date>{_DATE})", re.IGNORECASE)
_MAX_REST = 48  # a gap and a date
_OPEN = re.compile(
    rf"(?:{_LABEL})(?P<rest>(?:[^\w\n]{{0,3}}{_PADDING})?[^\n]{{0,{_MAX_REST}}})\Z", re.IGNORECASE
)
_LABELS = re.compile(_LABEL, re.IGNORECASE)
_WORDS = ("dob", "d.o.b", "born", "birth", "geb", "naiss", "naci", "nato", "nata", "nasci", "urodz", "ur.")
_OTHER_WORDS = ("né", "föd", "fød", "рожд", "родил", "生", "출생")
_MAX_LABEL = 20
_WIDTH = _MAX_LABEL + 40 + _MAX_REST


def _find(text: str) -> Iterator[Detection]:
    if _has_words(text.lower()):
        for found in _BIRTH.finditer(text):
            yield Detection("dob", *found.span("date"), 0.9)


def _open_from(text: str) -> int:
    """Return where a date at the end of a text may begin: after the word that names it."""
    tail = text[-_WIDTH:]
    if not _has_words(tail.lower()):
        return len(text)
    found = _OPEN.search(tail)
    return len(text) - len(tail) + found.start("rest") if found else len(text)


BIRTHS = DataKind("dob", _find, _open_from, best=0.9)


def has_birth_words(text: str, start: int) -> bool:
    """Whether words at or after a place say that a date of birth follows."""
    start = max(0, start - _MAX_LABEL)
    return _has_words(text[start:].lower()) and _LABELS.search(text, start) is not None


def _has_words(text: str) -> bool:
    return has_any(_WORDS, text) or (not text.isascii() and has_any(_OTHER_WORDS, text))
