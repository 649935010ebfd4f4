"""The words before a number that say what it is, in the languages that people write to agents in."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from recollect.guards.pii.kinds import REACH

Meaning: TypeAlias = Literal["phone", "ssn", "other"]
"""What words say that a number is; `other` is all that is counted, sold or filed."""

# A stem with a mark stands for the word itself only, one without for all words that begin so.
_STEMS: dict[Meaning, str] = {
    "phone": (
        "phone office! telef teléf télép teleph tel! tél! tfno! handset caller mobil móvil movil handy "
        "celular cellul cell! cells! cellphone portable fax whats sms call! calls! called! calling! "
        "dial! dials! dialing! dialling! ring! text! texted! reach contact "
        "hotline helpline landline voicemail rufnummer anruf erreich ruf! "
        "appel joindre joignable llam chiam bellen bel! ligar ligue! zadzwo dzwo телефон тел! звон моб! "
        "мобил gsm kontakt contatt contato fon! puhelin ringe soita τηλ cep! tlf! hívj ph!"
    ),
    "ssn": "ssn social itin! tin! taxpayer",
    "other": (
        "order invoice ticket track ref! refs! reference isbn issn serial sku part! parts! case! policy "
        "build! commit version ver! account acct customer client transaction receipt confirmation product "
        "model! item! items! barcode ean! upc! timestamp epoch id! ids! bestell rechnung kunden konto "
        "auftrag commande facture pedido factura ordine fattura zamówien faktur bestelling population total "
        "price amount sum! score! coordinates latitude longitude lat! lon! lng! doi! arxiv pid! port! ports! "
        "line! lines! row! rows! page bytes size! npi! routing aba! заказ счет dollars euro vat! batch lot! "
        "revision rev! measurement patent card! cards! passport licen badge tax! steuer member employee "
        "driv permit student prescription claim! loan! docket grant! mrn! vin! imei! dl! parcel seat! "
        "flight room! zip! plz! usd! eur! gbp! chf! jpy! inr! pln! sek! rs! ip! mac!"
    ),
}
_NUMBER = ("number", "numbers", "no", "nr", "nummer", "numéro", "numero", "número", "numer", "номер", "my #")
_NON_LATIN = ("电话", "手机", "電話", "携帯", "전화", "联系", "هاتف", "جوال", "फ़ोन", "फोन", "मोबाइल")
_KEY_SIZE = 2
_SHORT = 3  # articles, prepositions and most forms of "to be" are no longer, and no names
_BETWEEN, _NUMBER_BETWEEN = 0, 2
_WORD = re.compile(r"caller id|my #|[^\W\d_]+", re.IGNORECASE)
_REACHED = re.compile(r"\b(?:at|on|via|au|al|unter) \Z", re.IGNORECASE)
_COUNTED = re.compile(r"[0-9]{3}")
_DIGIT = re.compile(r"[0-9]")
_MONEY = re.compile(r"[$€£¥₹₽₩]\s?\Z")


def _iter_stems() -> Iterator[tuple[str, Meaning]]:
    for meaning, stems in _STEMS.items():
        for stem in stems.split():
            yield stem, meaning


_INDEX = {
    key: [item for item in _iter_stems() if item[0][:_KEY_SIZE] == key]
    for key in {stem[:_KEY_SIZE] for stem, _ in _iter_stems()}
}


class _Word(NamedTuple):
    """A word before a number: what it says, whether that is still said of this number, or just "number"."""

    meaning: Meaning | None
    is_near: bool
    is_number: bool


def find_meaning_before(text: str, start: int) -> Meaning | None:
    """Return what the words before a number say; the nearest counts, and they may be 48 characters away."""
    window = _cut_half_word(text, max(0, start - 48), start)
    if _MONEY.search(window):
        return "other"
    is_reached = _REACHED.search(window) is not None
    is_number, counted = False, list[_Word]()
    for word in _read_words_backwards(window):
        if word.meaning == "other" and (is_reached or not word.is_near):
            counted.append(word)  # as in "call us about your order at" or "customer Ada Byron,"
        elif word.meaning:
            return word.meaning
        is_number = is_number or word.is_number
    if counted:
        return "other" if any(word.is_near for word in counted) else None
    return "phone" if is_number or has_any(_NON_LATIN, window) else None


def look_up_meaning(word: str) -> Meaning | None:
    """Return what a word in small letters says of a number after it."""
    for stem, meaning in _INDEX.get(word[:_KEY_SIZE], ()):
        if (stem[-1] == "!" and word == stem[:-1]) or word.startswith(stem):
            return meaning
    return None


def _cut_half_word(text: str, begin: int, end: int) -> str:
    """Return a part of a text, without a word's end at its beginning."""
    if begin and text[begin - 1].isalpha():
        while begin < end and text[begin].isalpha():
            begin += 1
    return text[begin:end]


def _read_words_backwards(window: str) -> Iterator[_Word]:
    """Yield the words before a number, the nearest first, but not what other lines count."""
    line, after, between, is_used = window.rfind("\n"), len(window), 0, False
    for found in reversed(list(_WORD.finditer(window))):
        word = found[0].lower()
        meaning = look_up_meaning(word)
        if meaning == "other" and found.start() < line:
            continue
        # What is counted has its own number already if words follow that.
        is_used = is_used or (after < len(window) and _COUNTED.search(window, found.end(), after) is not None)
        is_name = word in _NUMBER
        yield _Word(
            meaning,
            is_near=not is_used and between <= _BETWEEN,
            is_number=is_name and between <= _NUMBER_BETWEEN and not _DIGIT.search(window, found.end()),
        )
        is_small = is_name or (len(word) <= _SHORT and found[0].islower())
        after, between = found.start(), between + (not is_small)


def get_text_before(text: str, start: int, size: int = REACH - 15) -> str:
    """Return the text before a place in small letters: no more of it than a stream still knows."""
    return text[max(0, start - size) : start].lower()


def has_any(words: Sequence[str], text: str) -> bool:
    """Whether one of some words is in a text: a loop, because this is asked for every chunk of a stream."""
    for word in words:  # noqa: SIM110 - `any` costs twice as much
        if word in text:
            return True
    return False


def find_word_start(text: str) -> int:
    """Return where the last word begins, however long it is."""
    return max(text.rfind(" "), text.rfind("\n"), text.rfind("\t")) + 1
