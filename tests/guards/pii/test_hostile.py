"""A hostile text costs no more than twenty ordinary ones; in the long tests it is a megabyte."""

import asyncio

import pytest
from tests.support.profiles import IS_LONG
from tests.support.strategies import streamed
from tests.support.timing import assert_costs_little_more, long_text

from recollect import PIIDetector
from recollect.guards.pii.finder import TYPES, PIIFinder

SIZE = 1_000_000 if IS_LONG else 50_000
ORDINARY = "The 3 bears of 2024 paid $12.50 for it; call 415-555-0132 or mail a@b.co, then go on with life. "
CRAFTED = (
    *(
        "a",
        "1",
        "@",
        "a@",
        "1.",
        "1 ",
        "4111 ",
        "4111-",
        "+1",
        "(1",
        ":",
        "00:",
        "-",
        "-----BEGIN PRIVATE KEY-----",
    ),
    *(
        "-----BEGIN PRIVATE KEY-----\nab ",
        "-----BEGIN PRIVATE KEY----- abc: ",
        "-----BEGIN PRIVATE KEY-----\n" + "abc: " * 100,
        "token=",
        "eyJaaaaaaaa.",
        "sk_live_a",
        "password: ",
        "password=a1",
        "born 1 ",
    ),
    *("DE12 ", "://", "http://a:b@", "www.", "a.bc/", "\\n", " ", "AB 12 ", "415-555-0132 ", "123-45-6789 "),
    *(
        "00 1",
        "né ",
        "geb. am ",
        "12345678:AA",
        "tel 1234567 ",
        "x@y.z",
        "4444444444444444-",
        "Bearer ",
        "1/1/",
        "card 4111111111111112 ",
        "iban DE12 3456 7890 1234 5678 90 ",
        "call 1 (",
        "1.2.3.4 ",
        "order 0151 496 0712 ",
        "a 922 74 512 a ",
        "visit a.rs ",
    ),
)


@pytest.mark.parametrize("unit", CRAFTED)
def test_crafted_text_costs_at_most_twenty_ordinary_ones(unit: str) -> None:
    """Whatever is repeated, to find and to say what is open is linear."""
    finder = PIIFinder(TYPES)
    assert_costs_little_more(
        lambda text: (finder.find(text), finder.open_from(text)),
        long_text(ORDINARY, SIZE),
        long_text(unit, SIZE),
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("unit", ["a", "1 ", "a@", "sk-proj-a1", "-----BEGIN PRIVATE KEY-----\nMIIE1234"])
def test_crafted_stream_costs_at_most_twenty_ordinary_ones(unit: str) -> None:
    """In chunks of fifty characters too, also while a secret without end is swallowed."""

    def stream(text: str) -> None:
        asyncio.run(streamed(PIIDetector(), [text[i : i + 50] for i in range(0, len(text), 50)]))

    size = 100_000 if IS_LONG else 20_000
    assert_costs_little_more(stream, long_text(ORDINARY, size), long_text(unit, size))
