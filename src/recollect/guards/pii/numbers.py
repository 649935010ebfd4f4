"""Numbers that identify a person or an account: payment cards, US social security, IBANs, national numbers.

A number counts by its form and its check digits, and, where chance could make one, only beside a word that
names it.
"""

import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from importlib import import_module
from string import ascii_letters
from typing import NamedTuple, cast

from recollect.guards.detection import Detection
from recollect.guards.pii.context_words import find_meaning_before, get_text_before, has_any
from recollect.guards.pii.digit_runs import NumberKind
from recollect.guards.pii.kinds import DataKind
from recollect.guards.pii.number_tables import IBAN_LENGTHS

_GROUP = re.compile(r"[0-9]+")
_MAX_CARD, _MIN_CARD = 19, 12
_BRANDS = (
    # The first digits, and how long a number that begins so is.
    (re.compile(r"4"), {13, 16, 19}),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), {16}),
    (re.compile(r"3[47]"), {15}),
    (re.compile(r"6011|64[4-9]|65"), {16, 17, 18, 19}),
    (re.compile(r"30[0-5]|309|36|3[89]"), {14, 16, 19}),
    (re.compile(r"35"), {16, 17, 18, 19}),
    (re.compile(r"1800|2131"), {15}),
    (re.compile(r"62|81"), {16, 17, 18, 19}),
    (re.compile(r"220[0-4]"), {16, 17, 18, 19}),
    (re.compile(r"60|82|508"), {16}),
    (re.compile(r"50|56|57|58|6304|6390|67|0604"), {*range(12, 20)}),
)
_ZERO = ord("0")
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")  # twice a digit, its two digits added up
_LONG = 14  # shorter numbers in groups are mostly parts of others
_EAN = 13
_CARD_WORDS = (
    *("card", "karte", "carte", "tarjeta", "carta", "cartão", "cartao", "kort", "kaart", "карт", "kart"),
    *("visa", "credit", "kredit", "crédit", "debit", "débit", "cc:", "cc ", "pay", "paid", "charg", "refund"),
    *("zahl", "pagar", "pagat", "pagu", "卡"),
)
_FORM = re.compile(
    r"\d{15,16}(?![\d-])|(?:\d{4}([ -])\d{4}\1\d{4}\1\d{4}|\d{4}([ -])\d{6}\2\d{5})(?!\d)(?!\1\d)(?!\2\d)"
)
_CALLED = re.compile(
    r"(?:\b(?:credit|debit)?card|karten?|\bcarte|tarjeta|\bcarta|cartão|cartao|kaart|kort|карт\w{0,5}"
    r"|\bvisa|mastercard|\bamex|maestro|\bcc|\bpan)\b[^\d\n]{0,24}\Z|kartennummer[^\d\n]{0,16}\Z"
)
_MAX_GROUPS = 7
_MIN_GROUP = 3


def _find_cards(text: str, start: int, end: int) -> Iterator[Detection]:
    """Find card numbers in a run of digits: ungrouped, or in groups with one kind of mark between them."""
    if end - start < _MIN_CARD:
        return
    yield from _find_named_card(text, start, end)
    groups = [(found.start(), found.end()) for found in _GROUP.finditer(text, start, end)]
    for place, (begin, stop) in enumerate(groups):
        if stop - begin >= _MIN_GROUP:
            yield from _find_cards_from(
                text, groups[place : place + _MAX_GROUPS], (groups[0][0], groups[-1][1])
            )


def _find_named_card(text: str, start: int, end: int) -> Iterator[Detection]:
    """Yield a number at the beginning of a run that looks like a card's and is called so: typing errs."""
    found = _FORM.match(text, start, end)
    if found and _CALLED.search(get_text_before(text, start, 36)):
        yield Detection("card", *found.span(), 0.6)


def _find_cards_from(text: str, groups: list[tuple[int, int]], run: tuple[int, int]) -> Iterator[Detection]:
    """Yield the card numbers that begin with the first of some groups; a short one is all of its run."""
    start, place = groups[0]
    number, mark = text[start:place], ""
    if _is_card(number) and not _is_product(text, start, number):
        yield Detection("card", start, place)
    for begin, end in groups[1:]:
        between = text[place:begin]
        if between not in (" ", "-", ".", "\u00a0") or (mark and between != mark):
            return
        number, mark, last, place = number + text[begin:end], between, end - begin, end
        is_whole = len(number) >= _LONG or (start, end) == run
        if is_whole and _is_card(number) and not _is_product(text, start, number):
            yield Detection("card", start, end)
        if last < _MIN_GROUP or len(number) > _MAX_CARD:
            return  # only the last group may be short


def _is_card(number: str) -> bool:
    size = len(number)
    if not _MIN_CARD <= size <= _MAX_CARD:
        return False
    if not _is_luhn(number):
        return False
    if not any(size in sizes and brand.match(number) for brand, sizes in _BRANDS):
        return False
    return number.count(number[0]) < size


def _is_product(text: str, start: int, number: str) -> bool:
    """Whether it is rather a bar code: that has as many digits as an old card, and words tell them apart."""
    return (
        len(number) == _EAN and is_bar_code(number) and not has_any(_CARD_WORDS, get_text_before(text, start))
    )


def _is_luhn(digits: str) -> bool:
    """Whether the last digit fits the others by Luhn's rule."""
    codes = digits.encode()
    return (sum(codes[-1::-2]) + sum(codes[-2::-2].translate(_DOUBLED)) - _ZERO * len(codes)) % 10 == 0


def is_bar_code(number: str) -> bool:
    """Whether the last of thirteen digits fits the others as on products and books."""
    return (sum(map(int, number[::2])) + 3 * sum(map(int, number[1::2]))) % 10 == 0


_SSN = re.compile(r"(?<!\d)(?<!\d-)(\d{3})([ .\-\u2011\u2013]?)(\d{2})\2(\d{4})(?!\d)(?!-\d)")
_SURE = 0.9
_UNSURE = 0.6


def _find_ssns(text: str, start: int, end: int) -> Iterator[Detection]:
    """Find numbers that could have been given to somebody."""
    for found in _SSN.finditer(text, start, end):
        area, mark, group, serial = found.groups()
        if area in ("000", "666") or group == "00" or serial == "0000":
            continue
        meaning = find_meaning_before(text, found.start())
        if meaning == "ssn":
            yield Detection("ssn", *found.span(), _SURE)
        elif mark:
            sure = _SURE if mark == "-" else _UNSURE
            yield Detection("ssn", *found.span(), sure - 0.3 * (meaning == "other"))


_LENGTHS = {country: size for size, countries in IBAN_LENGTHS.items() for country in countries.split()}
_BEGIN = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2})[0-9]{2}(?=[ -]?[A-Za-z0-9])")
_RESTS = {
    size: re.compile(rf"(?:[ \u00a0-]?[A-Za-z0-9]){{{size - 4}}}(?![A-Za-z0-9])")
    for size in set(_LENGTHS.values())
}
_UNGROUPED = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{10,30}(?![A-Za-z0-9])")
_OPEN = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2})[0-9]{2}(?:[ \u00a0-]?[A-Za-z0-9])*[ \u00a0-]?\Z")
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]")
_MODULUS = 97
_AS_DIGITS = {ord(char): str(int(char, 36)) for char in ascii_letters}
_MAX_IBAN = 44
_IBAN_WORDS = (
    *("iban", "account", "konto", "compte", "cuenta", "conto", "conta", "rekening", "rachun", "счет", "счёт"),
    *("bank", "wire", "transfer", "überweis", "virer", "virement", "bonific", "payee", "beneficiar"),
)


def _find_ibans(text: str) -> Iterator[Detection]:
    """Find account numbers whose check digits are right, or that are called so and have the right length.

    An ungrouped one may have another length, and where words name it, another country.
    """
    for begin in _BEGIN.finditer(text):
        size = _LENGTHS.get(begin[1].upper())
        end = _find_iban_end(text, begin.start(), size) if size else 0
        if end and _is_valid_iban(_NOT_ALPHANUMERIC.sub("", text[begin.start() : end])):
            yield Detection("iban", begin.start(), end)
        elif end and "iban" in get_text_before(text, begin.start(), 16):
            yield Detection("iban", begin.start(), end, 0.6)  # typing errs
        elif size or has_any(_IBAN_WORDS, get_text_before(text, begin.start())):
            ungrouped = _UNGROUPED.match(text, begin.start())
            if ungrouped and _is_valid_iban(ungrouped[0]):
                yield Detection("iban", *ungrouped.span(), 0.7)


def _open_iban(text: str) -> int:
    """Return where a number at the end of a text may have begun that is not complete."""
    begin = max(0, len(text) - _MAX_IBAN - 4)
    found = _OPEN.search(text, begin) if _GROUP.search(text, begin) else None
    return found.start() if found and found[1].upper() in _LENGTHS else len(text)


def _find_iban_end(text: str, start: int, size: int) -> int:
    """Return where so many letters and digits end, or 0 if there are not as many or more follow."""
    rest = _RESTS[size].match(text, start + 4)
    return rest.end() if rest and rest.end() - start <= _MAX_IBAN + 4 else 0


def _is_valid_iban(number: str) -> bool:
    return int((number[4:] + number[:4]).translate(_AS_DIGITS)) % _MODULUS == 1


_DAY = r"(?:0[1-9]|[12]\d|3[01])"
_MONTH = r"(?:0[1-9]|1[0-2])"
_SPANISH_CHECK = "[TRWAGMYFPDXBNJZSQVHLCKE]"
_UNLIKE = r"(?!(\d)(?:\D?\1){10})"  # the same digit eleven times fits, and is nobody's
_SEPARATORS = re.compile(r"[ .\-/+()\u00a0\u202f\u2011]")
_NATIONAL_SCORE = 0.85
_MAX_LETTERED = 28
# As in "AB 12 34 56 C", and French numbers from Corsica; others have no blank beside a letter.
_LETTERED_OPEN = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Z]{2} (?:\d ?){0,6}[A-Z]?|[1-478](?: ?\d){4} ?2[AB](?: ?\d){0,7} ?)\Z"
)


@cache
def _load_check(module: str) -> Callable[..., bool]:
    return cast("Callable[..., bool]", import_module(f"stdnum.{module}").is_valid)


def _make_check(module: str, **options: bool) -> Callable[[str], bool]:
    """Return a check by a module of stdnum, which loads when a number of its form is first met."""
    return lambda number: _load_check(module)(number, **options)


def _accept(_: str) -> bool:
    """Accept what has no check digits, or none that every number keeps to: its form must do."""
    return True


def _ends_in_luhn(number: str) -> bool:
    return _is_luhn(_SEPARATORS.sub("", number)[-10:])  # a Swedish number may begin with its century


class _Number(NamedTuple):
    """A kind of number: where it is used, its form and check, and the words without which it is not one.

    `sizes` says how many digits one has that has no letters.
    """

    region: str
    sizes: tuple[int, ...]
    form: str
    is_valid: Callable[[str], bool]
    named: str = ""
    score: float = _NATIONAL_SCORE

    def judge(self, text: str, found: re.Match[str]) -> Iterator[Detection]:
        """Yield the number if its check digits fit and it is named, where it must be."""
        if self.named and not re.search(self.named, get_text_before(text, found.start())):
            return
        if self.is_valid(found[0]):
            yield Detection("national_id", *found.span(), self.score)


_NUMBERS = (
    _Number(
        "GB",
        (),
        r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]",
        _accept,
    ),
    _Number("GB", (10,), r"\d{3}[ -]?\d{3}[ -]?\d{4}", _make_check("gb.nhs"), r"\bnhs\b"),
    _Number("DE", (11,), r"[1-9]\d ?\d{3} ?\d{3} ?\d{3}", _make_check("de.idnr"), r"steuer|\bidnr|tax"),
    _Number(
        "FR",
        (),
        r"[1-478] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}",
        _make_check("fr.nir"),
    ),
    _Number("ES", (), rf"\d{{8}}[ -]?{_SPANISH_CHECK}", _make_check("es.dni")),
    _Number("ES", (), rf"[XYZ]\d{{7}}[ -]?{_SPANISH_CHECK}", _make_check("es.nie")),
    _Number("IT", (), r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", _make_check("it.codicefiscale")),
    _Number("NL", (9,), r"\d{4}[ .]?\d{2}[ .]?\d{3}", _make_check("nl.bsn"), r"\bbsn\b|burgerservice|sofi"),
    _Number("BE", (11,), rf"\d{{2}}[.]?{_MONTH}[.]?{_DAY}[- ]\d{{3}}[. ]?\d{{2}}", _make_check("be.nn")),
    _Number("CH", (13,), r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d{2}", _make_check("ch.ssn")),
    _Number("SE", (10, 12), rf"(?:19|20)?\d{{2}}{_MONTH}{_DAY}[-+]\d{{4}}", _make_check("se.personnummer")),
    # Sweden adds 60 to the day for people who do not live there; stdnum does not know these.
    _Number("SE", (10, 12), rf"(?:19|20)?\d{{2}}{_MONTH}(?:6[1-9]|[78]\d|9[01])[-+]\d{{4}}", _ends_in_luhn),
    _Number("DK", (10,), rf"{_DAY}{_MONTH}\d{{2}}-?\d{{4}}", _accept, r"\bcpr\b|personnummer"),
    _Number(
        "NO", (11,), rf"(?:{_DAY}|[4-7]\d){_MONTH}\d{{2}} ?\d{{5}}", _make_check("no.fodselsnummer"), "", 0.7
    ),
    _Number(
        "FI",
        (),
        rf"{_DAY}{_MONTH}\d{{2}}[-+A-FU-Y]\d{{3}}[0-9A-FHJ-NPR-Y]",
        _make_check("fi.hetu", allow_temporary=True),
    ),
    _Number("PL", (11,), r"\d{2}[0-389]\d[0-3]\d{6}", _make_check("pl.pesel"), r"pesel"),
    _Number("BR", (11,), _UNLIKE + r"\d{3}\.\d{3}\.\d{3}-\d{2}", _make_check("br.cpf")),
    _Number("BR", (11,), _UNLIKE + r"\d{11}", _make_check("br.cpf"), r"\bcpf\b"),
    _Number("IN", (12,), r"[2-9]\d{3}[ -]\d{4}[ -]\d{4}", _make_check("in_.aadhaar")),
    _Number("IN", (12,), r"[2-9]\d{11}", _make_check("in_.aadhaar"), r"aadha+r|uidai"),
    _Number("IN", (), r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]", _accept, "", 0.75),
    # stdnum rejects a first digit 0, which the tax agency gives to people without a number.
    _Number("CA", (9,), r"\d{3}[ -]\d{3}[ -]\d{3}", _ends_in_luhn, r"\bsin\b|social insurance|\bnas\b"),
    # Not "cn.ric": it fails on places that it knows no county of.
    _Number(
        "CN", (), rf"[1-8]\d{{5}}(?:19|20)\d{{2}}{_MONTH}{_DAY}\d{{3}}[0-9X]", _make_check("iso7064.mod_11_2")
    ),
    _Number("KR", (13,), rf"\d{{2}}{_MONTH}{_DAY}-[1-8]\d{{6}}", _accept),
    _Number(
        "MX",
        (),
        rf"[A-Z][AEIOUX][A-Z]{{2}}\d{{2}}{_MONTH}{_DAY}[HMX][A-Z]{{5}}[A-Z0-9]\d",
        _accept,
    ),
    _Number("TR", (11,), r"[1-9]\d{10}", _make_check("tr.tckimlik"), r"kimlik|\bt\.?c\.? ?no|tckn"),
)

REGIONS = ("US", *sorted({number.region for number in _NUMBERS}))
"""The countries whose national numbers are known."""


class NationalIds:
    """The numbers of some countries: those of digits are found in runs, those with letters in a text."""

    def __init__(self, regions: Collection[str]) -> None:
        chosen = [number for number in _NUMBERS if number.region in regions]
        self._digits = {
            size: [(number, _compile_form(number.form)) for number in chosen if size in number.sizes]
            for size in {size for number in chosen for size in number.sizes}
        }
        self._lettered = [number for number in chosen if not number.sizes]
        forms = "|".join(f"(?P<n{place}>{number.form})" for place, number in enumerate(self._lettered))
        self._form = re.compile(rf"(?<![A-Za-z0-9+])(?<!\d\.)(?:{forms})(?![A-Za-z0-9])") if forms else None

        self.lettered = DataKind("national_id", self._find, _open_lettered, best=_NATIONAL_SCORE)
        self.in_runs = NumberKind("national_id", self._find_in_run, best=_NATIONAL_SCORE)

    def _find(self, text: str) -> Iterator[Detection]:
        if self._form:
            for found in self._form.finditer(text):
                yield from self._lettered[int(str(found.lastgroup)[1:])].judge(text, found)

    def _find_in_run(self, text: str, start: int, end: int) -> Iterator[Detection]:
        for number, form in self._digits.get(len(_SEPARATORS.sub("", text[start:end])), ()):
            for found in form.finditer(text, start, end):
                yield from number.judge(text, found)


def _compile_form(form: str) -> re.Pattern[str]:
    """Return a form that is not part of a longer number."""
    return re.compile(rf"(?<![\d+])(?<!\d[ .\-]){form}(?!\d)(?![ .\-]\d)")


def has_open_letters(text: str) -> bool:
    """Whether a text ends with two letters that a number may follow."""
    return _LETTERED_OPEN.search(text, max(0, len(text) - 4)) is not None


def _open_lettered(text: str) -> int:
    if text[-1:].islower():
        return len(text)
    found = _LETTERED_OPEN.search(text, max(0, len(text) - _MAX_LETTERED))
    return found.start() if found else len(text)


CARDS = NumberKind("card", _find_cards, _find_cards)
SSNS = NumberKind("ssn", _find_ssns, _find_ssns, best=_SURE)
IBANS = DataKind("iban", _find_ibans, _open_iban)
