"""Telephone numbers and IBANs of every country, against the libraries that know them."""

import re
from collections.abc import Iterator

import phonenumbers
import pytest
from phonenumbers import PhoneNumber, PhoneNumberFormat, PhoneNumberType
from stdnum import iban, numdb
from tools import make_number_tables

from recollect.guards.pii.finder import PIIFinder

REGISTERED = [prefix[1] for prefix in numdb.get("iban").prefixes]
UNREGISTERED = (
    # An account of each country whose IBANs are not in the registry.
    *("AO06004400006729503010102", "BF42BF0840101300463574000390", "BJ66BJ0610100100144390000769"),
    *("CF4220001000010120069700160", "CG3930011000101013451300019", "CI93CI0080111301134291200589"),
    *("CM2110002000300277976315008", "CV64000500000020108215144", "DZ580002100001113000000570"),
    *("GA2140021010032001890020126", "GQ7050002001003715228190196", "GW04GW1430010181800637601"),
    *("IR580540105180021273113007", "KM4600005000010010904400137", "MA64011519000001205000534921"),
    *("MG4600005030071289421016045", "ML13ML0160120102600100668497", "MZ59000301080016367102371"),
    *("NE58NE0380100100130305000268", "SN08SN0100152000048500003035", "TD8960002000010271091600153"),
    "TG53TG0090604310346500400070",
)
# People have numbers of these types; others belong to companies, and some are too short to tell.
TYPES = {
    PhoneNumberType.FIXED_LINE: "fixed line",
    PhoneNumberType.MOBILE: "mobile",
    PhoneNumberType.VOIP: "voip",
    PhoneNumberType.PERSONAL_NUMBER: "personal",
    PhoneNumberType.PAGER: "pager",
}


def test_the_shipped_tables_are_what_the_tool_writes() -> None:
    """Nobody edits them by hand; a new release of a library calls for a new table."""
    assert make_number_tables.TARGET.read_text(encoding="utf-8") == make_number_tables.render_module()


@pytest.mark.parametrize("region", sorted(phonenumbers.SUPPORTED_REGIONS))
def test_example_numbers_of_every_region_are_found(region: str) -> None:
    """Exactly, with the calling code, in groups and in one run, beside words that say nothing."""
    examples = {
        name: phonenumbers.example_number_for_type(region, number_type) for number_type, name in TYPES.items()
    }
    numbers = {name: number for name, number in examples.items() if number}
    assert numbers
    for name, number in numbers.items():
        for written in _written(number):
            assert _found("phone", written) == [written], name


@pytest.mark.parametrize("code", sorted(phonenumbers.COUNTRY_CODES_FOR_NON_GEO_REGIONS))
def test_example_numbers_of_no_region_are_found(code: int) -> None:
    """Satellites, international networks and freephone."""
    number = phonenumbers.example_number_for_non_geo_entity(code)
    assert number
    for written in _written(number):
        assert _found("phone", written) == [written]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("+45 12 34 56 78 2024", ["+45 12 34 56 78"]),
        ("+65 555 123 4567", ["+65 555 123 4567"]),
        ("+49 (0)30 1234567", ["+49 (0)30 1234567"]),
        ("+225 07 12 34 56", ["+225 07 12 34 56"]),
        ("+27.59160 and +352.1234", []),
        ("+12345678", []),
        ("+45123456789012345", []),
    ],
)
def test_a_number_ends_where_its_country_says(text: str, found: list[str]) -> None:
    """Mistyped, made-up and old numbers count too, decimals and longer digits do not."""
    assert _found("phone", text) == found


@pytest.mark.parametrize("country", REGISTERED)
def test_ibans_of_every_country_are_found(country: str) -> None:
    """Of the structure that the registry gives, with right check digits, grouped or not."""
    account = _iban(country)
    assert iban.is_valid(account, check_country=False)
    assert _found("iban", account) == [account]
    assert _found("iban", iban.format(account)) == [iban.format(account)]
    assert _found("iban", f"{iban.format(account)} 12") == [iban.format(account)]


@pytest.mark.parametrize("account", UNREGISTERED)
def test_ibans_of_unregistered_countries_are_found(account: str) -> None:
    """They are in use all the same."""
    assert _found("iban", iban.format(account)) == [iban.format(account)]


def test_no_country_of_the_tables_is_left_untested() -> None:
    """A code that is added to the tool needs an example here."""
    tested = {*REGISTERED, *(account[:2] for account in UNREGISTERED)}
    assert set(make_number_tables.read_iban_lengths()) == tested


def _written(number: PhoneNumber) -> Iterator[str]:
    for form in (PhoneNumberFormat.INTERNATIONAL, PhoneNumberFormat.E164):
        yield phonenumbers.format_number(number, form)


def _iban(country: str) -> str:
    structure: str = numdb.get("iban").info(country + "00")[0][1]["bban"]
    characters = {"n": "7", "a": "Q", "c": "7"}
    parts = re.findall(r"(\d+)!([nac])", structure)
    account = "".join(characters[kind] * int(size) for size, kind in parts)
    return country + iban.calc_check_digits(f"{country}00{account}") + account


def _found(kind: str, written: str) -> list[str]:
    text = f"See {written}, again."
    return [text[found.start : found.end] for found in PIIFinder([kind]).find(text)]
