"""Writes `number_tables.py` of the PII guard, after a new release of one of its sources.

`python -m tools.make_number_tables` writes it. Calling codes and the lengths of telephone numbers come from
`phonenumbers`, the lengths of IBANs from `python-stdnum`.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from textwrap import wrap
from typing import TypeVar

import phonenumbers
from phonenumbers import PhoneMetadata
from stdnum import numdb

import recollect.guards.pii as package

Length = TypeVar("Length", int, tuple[int, int])

TARGET = Path(package.__path__[0]) / "number_tables.py"
WIDTH = 110

KINDS = ("fixed_line", "mobile", "voip", "personal_number", "pager")
"""The numbers that people have; those of companies alone may be as short as four digits or overlong."""

LONGEST = 15
"""How many digits a number has at most, with its calling code (E.164)."""

SHORT = 7
"""Where no number is longer than this, numbers are short; elsewhere few digits are rather a decimal."""

MINIMUM = 8
"""How many digits a number has at least, with its code, where numbers are not short."""

OLD = {1: 10, 2: 8, 3: 7}
"""How many digits are enough, by the length of the code, since numbering plans grow and texts are old.

Ivory Coast's numbers had 8 digits until 2021 and have 10 now.
"""

UNREGISTERED = {
    # Not in SWIFT's registry, from which stdnum takes its table, but in use.
    **dict.fromkeys(("AO", "CV", "GW", "MZ"), 25),
    **dict.fromkeys(("DZ", "IR"), 26),
    **dict.fromkeys(("CF", "CG", "CM", "GA", "GQ", "KM", "MG", "TD"), 27),
    **dict.fromkeys(("BF", "BJ", "CI", "MA", "ML", "NE", "SN", "TG"), 28),
}

HEADER = f'''"""How long telephone numbers and IBANs are.

Written by tools/make_number_tables.py, not by hand, from phonenumbers {version("phonenumbers")} (Apache-2.0)
and python-stdnum {version("python-stdnum")} (LGPL-2.1 or later): codes and lengths only.
"""
'''


def read_phone_lengths() -> dict[str, tuple[int, int]]:
    """Return the fewest and the most digits after each calling code."""
    return {
        str(code): _compute_bounds(len(str(code)), set(_iter_lengths(code, regions)))
        for code, regions in phonenumbers.COUNTRY_CODE_TO_REGION_CODE.items()
    }


def read_iban_lengths() -> dict[str, int]:
    """Return the length of each country's IBANs."""
    known = {
        country: 4 + sum(map(int, re.findall(r"(\d+)!", properties["bban"])))
        for _, country, _, properties, _ in numdb.get("iban").prefixes
    }
    return UNREGISTERED | known


def render_module() -> str:
    """Return the text of the module."""
    phones = _render_table(
        "PHONE_LENGTHS", read_phone_lengths(), "Calling codes by how many digits may follow them."
    )
    ibans = _render_table(
        "IBAN_LENGTHS", read_iban_lengths(), "Countries by how many letters and digits an IBAN has."
    )
    return f"{HEADER}\n{phones}\n{ibans}"


def main() -> None:
    """Write the module."""
    TARGET.write_text(render_module(), encoding="utf-8")


def _iter_lengths(code: int, regions: Iterable[str]) -> Iterator[int]:
    for region in regions:
        found = PhoneMetadata.metadata_for_region_or_calling_code(code, region)
        yield from _get_lengths(found, KINDS) or _get_lengths(found, ["general_desc"])


def _get_lengths(found: PhoneMetadata | None, kinds: Iterable[str]) -> set[int]:
    described = [getattr(found, kind) for kind in kinds]
    # A kind that a region does not have has the length -1.
    return {size for each in described if each for size in each.possible_length if size > 0}


def _compute_bounds(code_size: int, sizes: Collection[int]) -> tuple[int, int]:
    most = min(max(sizes), LONGEST - code_size)
    least = min(sizes) if most <= SHORT else max(min(sizes), MINIMUM - code_size)
    return min(least, OLD[code_size]), most


def _render_table(name: str, lengths: Mapping[str, Length], meaning: str) -> str:
    keys: dict[Length, list[str]] = defaultdict(list)
    for key, length in sorted(lengths.items()):
        keys[length].append(key)
    lines = [line for length in sorted(keys) for line in _render_entry(length, " ".join(keys[length]))]
    return "\n".join([f"{name} = {{", *lines, "}", f'"""{meaning}"""', ""])


def _render_entry(length: object, keys: str) -> list[str]:
    line = f'    {length}: "{keys}",'
    if len(line) <= WIDTH:
        return [line]
    *first, last = wrap(keys, WIDTH - 11)
    return [f"    {length}: (", *(f'        "{part} "' for part in first), f'        "{last}"', "    ),"]


if __name__ == "__main__":
    main()
