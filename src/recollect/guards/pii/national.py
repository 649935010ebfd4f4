"""National numbers besides the US's: tax, health and identity numbers, by form, check digits and names."""

import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from recollect.guards.pii import checksums
from recollect.guards.pii.context_words import words_before
from recollect.guards.pii.finding import Finding

_DAY = r"(?:0[1-9]|[12]\d|3[01])"
_MONTH = r"(?:0[1-9]|1[0-2])"
_MARKS = re.compile(r"[ .\-/+()\u00a0\u202f\u2011]")


class _Number(NamedTuple):
    """A kind of number: where it is used, its form and check, and the words without which it is not one.

    `sizes` says how many digits one has that has no letters.
    """

    region: str
    sizes: tuple[int, ...]
    form: str
    fits: Callable[[str], bool]
    named: str = ""
    score: float = 0.85

    def judged(self, text: str, found: re.Match[str]) -> Iterator[Finding]:
        """Yield the number if its check digits fit and it is named, where it must be."""
        if self.named and not re.search(self.named, words_before(text, found.start())):
            return
        if self.fits(_MARKS.sub("", found[0])):
            yield Finding("national_id", *found.span(), self.score)


_NUMBERS = (
    _Number(
        "GB",
        (),
        r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]",
        checksums.unchecked,
    ),
    _Number("GB", (10,), r"\d{3}[ -]?\d{3}[ -]?\d{4}", checksums.british_health, r"\bnhs\b"),
    _Number("DE", (11,), r"[1-9]\d ?\d{3} ?\d{3} ?\d{3}", checksums.german, r"steuer|\bidnr|tax"),
    _Number(
        "FR",
        (),
        r"[1-478] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}",
        checksums.french,
    ),
    _Number("ES", (), r"(?:\d{8}|[XYZ]\d{7})[ -]?[TRWAGMYFPDXBNJZSQVHLCKE]", checksums.spanish),
    _Number("IT", (), r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", checksums.italian),
    _Number("NL", (9,), r"\d{4}[ .]?\d{2}[ .]?\d{3}", checksums.dutch, r"\bbsn\b|burgerservice|sofi"),
    _Number("BE", (11,), rf"\d{{2}}[.]?{_MONTH}[.]?{_DAY}[- ]\d{{3}}[. ]?\d{{2}}", checksums.belgian),
    _Number("CH", (13,), r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d{2}", checksums.swiss),
    _Number(
        "SE", (10, 12), rf"(?:19|20)?\d{{2}}{_MONTH}(?:0[1-9]|[1-8]\d|9[01])[-+]\d{{4}}", checksums.swedish
    ),
    _Number("DK", (10,), rf"{_DAY}{_MONTH}\d{{2}}-?\d{{4}}", checksums.unchecked, r"\bcpr\b|personnummer"),
    _Number("NO", (11,), rf"(?:{_DAY}|[4-7]\d){_MONTH}\d{{2}} ?\d{{5}}", checksums.norwegian, "", 0.7),
    _Number("FI", (), rf"{_DAY}{_MONTH}\d{{2}}[-+A-FU-Y]\d{{3}}[0-9A-FHJ-NPR-Y]", checksums.finnish),
    _Number("PL", (11,), r"\d{2}[0-389]\d[0-3]\d{6}", checksums.polish, r"pesel"),
    _Number("BR", (11,), r"\d{3}\.\d{3}\.\d{3}-\d{2}", checksums.brazilian),
    _Number("BR", (11,), r"\d{11}", checksums.brazilian, r"\bcpf\b"),
    _Number("IN", (12,), r"[2-9]\d{3}[ -]\d{4}[ -]\d{4}", checksums.indian),
    _Number("IN", (12,), r"[2-9]\d{11}", checksums.indian, r"aadha+r|uidai"),
    _Number("IN", (), r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]", checksums.unchecked, "", 0.75),
    _Number("CA", (9,), r"\d{3}[ -]\d{3}[ -]\d{3}", checksums.is_luhn, r"\bsin\b|social insurance|\bnas\b"),
    _Number("CN", (), rf"[1-8]\d{{5}}(?:19|20)\d{{2}}{_MONTH}{_DAY}\d{{3}}[0-9X]", checksums.chinese),
    _Number("KR", (13,), rf"\d{{2}}{_MONTH}{_DAY}-[1-8]\d{{6}}", checksums.unchecked),
    _Number(
        "MX",
        (),
        rf"[A-Z][AEIOUX][A-Z]{{2}}\d{{2}}{_MONTH}{_DAY}[HMX][A-Z]{{5}}[A-Z0-9]\d",
        checksums.unchecked,
    ),
    _Number("TR", (11,), r"[1-9]\d{10}", checksums.turkish, r"kimlik|\bt\.?c\.? ?no|tckn"),
)

REGIONS = ("US", *sorted({number.region for number in _NUMBERS}))
"""The countries whose national numbers are known."""


class NationalIds:
    """Finds the numbers of some countries."""

    def __init__(self, regions: Collection[str]) -> None:
        """Sort the kinds: those of digits are looked for in runs of digits, those with letters in one go."""
        chosen = [number for number in _NUMBERS if number.region in regions]
        self._digits = {
            size: [(number, _compiled(number.form)) for number in chosen if size in number.sizes]
            for size in {size for number in chosen for size in number.sizes}
        }
        self._lettered = [number for number in chosen if not number.sizes]
        forms = "|".join(f"(?P<n{place}>{number.form})" for place, number in enumerate(self._lettered))
        self._form = re.compile(rf"(?<![A-Za-z0-9+])(?<!\d\.)(?:{forms})(?![A-Za-z0-9])") if forms else None

    def find(self, text: str) -> Iterator[Finding]:
        """Find numbers that have a letter in them."""
        if self._form:
            for found in self._form.finditer(text):
                yield from self._lettered[int(str(found.lastgroup)[1:])].judged(text, found)

    def find_in_run(self, text: str, start: int, end: int) -> Iterator[Finding]:
        """Find numbers of digits in a run of them."""
        for number, form in self._digits.get(len(_MARKS.sub("", text[start:end])), ()):
            for found in form.finditer(text, start, end):
                yield from number.judged(text, found)


def _compiled(form: str) -> re.Pattern[str]:
    """Return a form that is not part of a longer number."""
    return re.compile(rf"(?<![\d+])(?<!\d[ .\-]){form}(?!\d)(?![ .\-]\d)")
