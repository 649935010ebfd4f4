"""National numbers: which check digits fit, and that their checks load only when they are needed."""

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.profiles import examples

from recollect.guards.pii.finder import PIIFinder

NUMBERS = [
    # One that fits, and another of the same form that does not.
    ("12345678Z", "12345678A"),
    ("X1234567L", "X1234567T"),
    ("RSSMRA85T10A562S", "RSSMRA85T10A562T"),
    ("1 84 12 76 451 089 46", "1 84 12 76 451 089 47"),
    ("1 84 12 2A 451 089 33", "1 84 12 2B 451 089 33"),
    ("131052-308T", "131052-308U"),
    ("131052-900W", "131052-900X"),
    ("85.07.30-033.28", "85.07.30-033.29"),
    ("17.07.30-033.84", "17.07.30-033.85"),
    ("756.9217.0769.85", "756.9217.0769.86"),
    ("19811218-9876", "19811218-9877"),
    ("811218-9876", "811318-9876"),
    ("701063-2391", "701063-2392"),
    ("19701063-2391", "19701063-2392"),
    ("PESEL 44051401359", "PESEL 44051401358"),
    ("15108695088", "15108695089"),
    ("BSN 111222333", "BSN 111222334"),
    ("Steuer-ID 86 095 742 719", "Steuer-ID 86 095 742 718"),
    ("Steuer-ID 36574261809", "Steuer-ID 11111111116"),
    ("NHS 943 476 5919", "NHS 943 476 5918"),
    ("529.982.247-25", "111.111.111-11"),
    ("CPF 52998224725", "CPF 11111111111"),
    ("2341 2341 2346", "2341 2341 2347"),
    ("aadhaar 234123412346", "aadhaar 234123412347"),
    ("SIN 046 454 286", "SIN 046 454 287"),
    ("11010519491231002X", "110105194912310021"),
    ("810000199408230021", "810000199408230022"),
    ("TCKN 10000000146", "TCKN 10000000145"),
]


def count_in(text: str) -> int:
    """Return how many national numbers are found in a sentence with this text."""
    return len(PIIFinder(["national_id"]).find(f"It is {text}."))


@pytest.mark.parametrize(("good", "bad"), NUMBERS)
def test_a_number_counts_if_its_check_digits_fit(good: str, bad: str) -> None:
    """As each country gives them out, with the words without which it would be any number."""
    assert count_in(good) == 1
    assert count_in(bad) == 0


@given(st.data(), st.sampled_from([good for good, _ in NUMBERS]))
@examples(5)
def test_no_digits_of_a_known_form_make_a_check_fail(data: st.DataObject, good: str) -> None:
    """Whatever they are: a check that raised would stop the run."""
    other = re.sub(r"\d", lambda _: data.draw(st.sampled_from("0123456789")), good)
    assert count_in(other) <= 1


def test_checks_load_when_a_number_of_their_form_is_met() -> None:
    """Neither the package nor a detector nor other numbers load them; then only one country's load."""
    code = """
import sys, recollect
recollect.PIIDetector()
from recollect.guards.pii.finder import PIIFinder
PIIFinder().find("Call +49 30 1234567, order 12345678901, pay DE89370400440532013000 or 4111111111111111")
print("stdnum" in sys.modules)
PIIFinder().find("DNI 12345678Z")
print({name.split(".")[1] for name in sys.modules if name.startswith("stdnum.") and name.count(".") > 1})
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False", "{'es'}"]
