"""Payment cards: the first digits say whose it is, the last one proves the others."""

import re
from collections.abc import Iterator

from recollect.guards.pii.checksums import is_luhn
from recollect.guards.pii.context_words import has_any, words_before
from recollect.guards.pii.finding import Finding

_GROUP = re.compile(r"[0-9]+")
_LONGEST, _SHORTEST = 19, 12
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
_MOST_GROUPS = 7
_LEAST_GROUP = 3


def find_cards(text: str, start: int, end: int) -> Iterator[Finding]:
    """Find card numbers in a run of digits: in one piece, or in groups with one kind of mark between them."""
    if end - start < _SHORTEST:
        return
    yield from _named(text, start, end)
    groups = [(found.start(), found.end()) for found in _GROUP.finditer(text, start, end)]
    for place, (begin, stop) in enumerate(groups):
        if stop - begin >= _LEAST_GROUP:
            yield from _cards_from(text, groups[place : place + _MOST_GROUPS], (groups[0][0], groups[-1][1]))


def _named(text: str, start: int, end: int) -> Iterator[Finding]:
    """Yield a number at the beginning of a run that looks like a card's and is called so: typing errs."""
    found = _FORM.match(text, start, end)
    if found and _CALLED.search(words_before(text, start, 36)):
        yield Finding("card", *found.span(), 0.6)


def _cards_from(text: str, groups: list[tuple[int, int]], run: tuple[int, int]) -> Iterator[Finding]:
    """Yield the card numbers that begin with the first of some groups; a short one is all of its run."""
    start, place = groups[0]
    number, mark = text[start:place], ""
    if _is_card(number) and not _is_product(text, start, number):
        yield Finding("card", start, place)
    for begin, end in groups[1:]:
        between = text[place:begin]
        if between not in (" ", "-", ".", "\u00a0") or (mark and between != mark):
            return
        number, mark, last, place = number + text[begin:end], between, end - begin, end
        is_whole = len(number) >= _LONG or (start, end) == run
        if is_whole and _is_card(number) and not _is_product(text, start, number):
            yield Finding("card", start, end)
        if last < _LEAST_GROUP or len(number) > _LONGEST:
            return  # only the last group may be short


def _is_card(number: str) -> bool:
    size = len(number)
    if not _SHORTEST <= size <= _LONGEST:
        return False
    if not is_luhn(number):
        return False
    if not any(size in sizes and brand.match(number) for brand, sizes in _BRANDS):
        return False
    return number.count(number[0]) < size


def _is_product(text: str, start: int, number: str) -> bool:
    """Whether it is rather a bar code: that has as many digits as an old card, and words tell them apart."""
    return len(number) == _EAN and is_bar_code(number) and not has_any(_CARD_WORDS, words_before(text, start))


def is_bar_code(number: str) -> bool:
    """Whether the last of thirteen digits fits the others as on products and books."""
    return (sum(map(int, number[::2])) + 3 * sum(map(int, number[1::2]))) % 10 == 0
