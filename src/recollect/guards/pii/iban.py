"""Account numbers in the international form: a country, two check digits, and as many more as it uses."""

import re
from collections.abc import Iterator
from string import ascii_letters

from recollect.guards.pii.context_words import has_any, words_before
from recollect.guards.pii.finding import Finding

_LENGTHS = {
    name: int(size)
    for size, names in {
        "15": "NO",
        "16": "BE BI",
        "18": "DK FI FO GL NL SD",
        "19": "MK SI",
        "20": "AT BA EE KZ LT LU MN XK",
        "21": "CH CR HR LI LV",
        "22": "BG BH DE GB GE IE ME RS VA",
        "23": "AE GI IL IQ OM SO TL",
        "24": "AD CZ ES MD PK RO SA SE SK TN VG",
        "25": "AO CV GW LY MZ PT ST",
        "26": "IR IS TR",
        "27": "BF BJ CF CG CI CM DJ FR GA GQ GR IT KM MC MG ML MR NE SM SN TD TG",
        "28": "AL AZ BY CY DO DZ GT HN HU LB MA NI PL SV",
        "29": "BR EG FK PS QA UA",
        "30": "JO KW MU YE",
        "31": "MT SC",
        "32": "LC",
        "33": "RU",
    }.items()
    for name in names.split()
}
_BEGIN = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2})[0-9]{2}(?=[ -]?[A-Za-z0-9])")
_RESTS = {
    size: re.compile(rf"(?:[ \u00a0-]?[A-Za-z0-9]){{{size - 4}}}(?![A-Za-z0-9])")
    for size in set(_LENGTHS.values())
}
_PIECE = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{10,30}(?![A-Za-z0-9])")
_OPEN = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2})[0-9]{2}(?:[ \u00a0-]?[A-Za-z0-9])*[ \u00a0-]?\Z")
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]")
_MODULUS = 97
_AS_DIGITS = {ord(char): str(int(char, 36)) for char in ascii_letters}
_WIDEST = 44
_IBAN_WORDS = (
    *("iban", "account", "konto", "compte", "cuenta", "conto", "conta", "rekening", "rachun", "счет", "счёт"),
    *("bank", "wire", "transfer", "überweis", "virer", "virement", "bonific", "payee", "beneficiar"),
)


def find_ibans(text: str) -> Iterator[Finding]:
    """Find account numbers whose check digits are right, or that are called so and have the right length.

    One in one piece may have another length, and where words name it, another country.
    """
    for begin in _BEGIN.finditer(text):
        size = _LENGTHS.get(begin[1].upper())
        end = _end(text, begin.start(), size) if size else 0
        if end and _is_valid(_NOT_ALPHANUMERIC.sub("", text[begin.start() : end])):
            yield Finding("iban", begin.start(), end)
        elif end and "iban" in words_before(text, begin.start(), 16):
            yield Finding("iban", begin.start(), end, 0.6)  # typing errs
        elif size or has_any(_IBAN_WORDS, words_before(text, begin.start())):
            piece = _PIECE.match(text, begin.start())
            if piece and _is_valid(piece[0]):
                yield Finding("iban", *piece.span(), 0.7)


def open_iban(text: str) -> int:
    """Return where a number at the end of a text may have begun that is not complete."""
    found = _OPEN.search(text, max(0, len(text) - _WIDEST))
    return found.start() if found and found[1].upper() in _LENGTHS else len(text)


def _end(text: str, start: int, size: int) -> int:
    """Return where so many letters and digits end, or 0 if there are not as many or more stand behind."""
    rest = _RESTS[size].match(text, start + 4)
    return rest.end() if rest and rest.end() - start <= _WIDEST + 4 else 0


def _is_valid(number: str) -> bool:
    return int((number[4:] + number[:4]).translate(_AS_DIGITS)) % _MODULUS == 1
