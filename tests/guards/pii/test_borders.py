"""What stands around a detection stays as it is: after written breaks, and around long secrets."""

import json
from itertools import combinations

import pytest
from tests.guards.pii.texts import PRIVATE_KEY, Sample, each_sample
from tests.support.strategies import cleaned, streamed

from recollect import PIIDetector
from recollect.guards.pii.finder import TYPES, PIIFinder

pytestmark = pytest.mark.anyio

BREAKS = ("\\n", "\\r\\n", "\\t", "\\\\n", '\\n"', "\\")
WRITTEN = (
    "to\\nGB29 NWBK60161331926819\\nby",
    "see\\nAB 12 34 56 C\\nand",
    "x\\n030 901820\\nFax",
    "Phone:\\n922 74 512\\ny",
    '{"a":"b\\nada@example.org\\tor"}',
    "a\\tborn 12.05.1980\\\\nor",
    "a\\nSG.abcdefghijklmnop.abcdefghijklmnop\\n",
)
LONG = {
    "token": "sk-proj-" + "Zx9" * 120,
    "web token": "eyJhbGciOiJIUzI1NiJ9." + "Zx9" * 120 + ".Zx9Zx9",
    "web token with a long head": "eyJ" + "hbGci1" * 60 + "." + "Zx9" * 120 + ".Zx9Zx9",
    "private key": PRIVATE_KEY,
    "private key on one line": PRIVATE_KEY.replace("\n", "\\n"),
    "private key in JSON in JSON": PRIVATE_KEY.replace("\n", "\\\\n"),
    "private key that is cut off": PRIVATE_KEY[:700],
    "address": "https://example.org/" + "Zx9/" * 90 + "a",
}
AROUND = (
    ("Here: ", " and so on."),
    ('{"key":"', '","next":5}'),
    ("call 030 ", " 901820."),
    ("(", "). Then 5 more"),
    ("x=`", "`\n\nThanks, Ada"),
    ("|a|", "|b|\n|c|"),
    ("first:", ", or 4111 1111 1111 1111."),
    ("密钥:", "。谢谢"),
    ("\\n", "\\nThanks"),
)


def ways(text: str) -> list[list[str]]:
    """Return a text cut into chunks of several lengths."""
    return [
        [text[start : start + size] for start in range(0, len(text), size)]
        for size in (1, 2, 7, 24, 64, 255, 300)
    ]


@pytest.mark.parametrize("text", WRITTEN)
async def test_stream_is_the_same_when_breaks_are_written_out(text: str) -> None:
    """Cut once or twice, also within the break: what begins after it waits for its end."""
    tested = PIIDetector(method="placeholder")
    expected = await cleaned(tested, text)
    assert expected != text
    inside = range(1, len(text))
    for places in [*((place,) for place in inside), *combinations(inside, 2), tuple(inside)]:
        bounds = zip((0, *places), (*places, len(text)), strict=True)
        assert await streamed(tested, [text[a:b] for a, b in bounds]) == expected, places


@pytest.mark.parametrize("written", BREAKS)
@each_sample
async def test_stream_is_the_same_for_each_kind_between_written_breaks(sample: Sample, written: str) -> None:
    """As if words stood there, in single characters and in chunks."""
    tested = PIIDetector(types=TYPES)
    text = sample.text.replace(" ", written, 2) + written + sample.text.replace(sample.secret, "x")
    expected = await cleaned(tested, text)
    for chunks in ways(text):
        assert await streamed(tested, chunks) == expected


def test_backslash_waits_with_what_stands_before_it() -> None:
    """It may become a break, which makes a number of the digits before it; many backslashes do not wait."""
    finder = PIIFinder()
    assert finder.open_from("is 030 901820\\") == 0
    assert finder.open_from("so \\") == 3
    assert finder.open_from("so \\n") == 5
    assert finder.open_from("so " + "\\" * 900) > 700


@pytest.mark.parametrize("method", ["mask", "remove"])
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize(("before", "behind"), AROUND)
async def test_what_stands_around_a_long_secret_stays(
    name: str, before: str, behind: str, method: str
) -> None:
    """Right before it and right behind it, however it is cut."""
    tested = PIIDetector(types=["secret", "card", "phone", "url"], method=method)  # type: ignore[arg-type]
    text = before + LONG[name] + behind
    expected = await cleaned(tested, text)
    assert "Zx9Zx9" not in expected
    assert "MIIEpAIB" not in expected
    for chunks in ways(text):
        assert await streamed(tested, chunks) == expected


@pytest.mark.parametrize("before", ["password: ", '{"password":"', "Bearer "])
@pytest.mark.parametrize("behind", [").", "", ".", " 1111 1111 1111 end", '", "x": 1}', "?!\n\nThanks"])
async def test_what_stands_around_a_long_word_that_is_named_stays(before: str, behind: str) -> None:
    """The punctuation behind it too; and what has begun within it goes with it."""
    tested = PIIDetector()
    text = f"- {before}{'Zx-9' * 90}-4111{behind}"
    expected = await cleaned(tested, text)
    assert "Zx-9" not in expected
    assert "1111" not in expected
    for chunks in ways(text):
        assert await streamed(tested, chunks) == expected


async def test_each_of_several_addresses_in_one_word_waits_for_its_end() -> None:
    """As in JSON that has no blanks."""
    tested = PIIDetector(types=["url"])
    addresses = ("https://a.example/x", "https://b.example/" + "Zx9/" * 40, "c.example.org/" + "y" * 99)
    text = json.dumps(addresses, separators=(",", ":"))
    assert await cleaned(tested, text) == '["[REDACTED]","[REDACTED]","[REDACTED]"]'
    for chunks in ways(text):
        assert await streamed(tested, chunks) == '["[REDACTED]","[REDACTED]","[REDACTED]"]'


@pytest.mark.parametrize("first", ["\uff10", "\u0660", "\u0966"], ids=["wide", "Arabic", "Devanagari"])
@each_sample
async def test_digits_of_other_scripts_are_found_as_the_usual_ones(sample: Sample, first: str) -> None:
    """In whole texts and in any chunks; patterns of the user's own say themselves which digits they mean."""
    tested = PIIDetector(types=TYPES)
    other = {ord(str(digit)): chr(ord(first) + digit) for digit in range(10)}
    text = sample.text.translate(other)
    expected = (await cleaned(tested, sample.text)).translate(other)
    assert await cleaned(tested, text) == expected
    for chunks in ways(text):
        assert await streamed(tested, chunks) == expected


@pytest.mark.parametrize(
    "text", ["token: password: hunter22x", "secret: api key: abc123defg4", "pin is pin: 4711"]
)
async def test_label_is_found_where_another_one_expects_a_value(text: str) -> None:
    """What stands after a label may be a label itself."""
    assert (await cleaned(PIIDetector(), text)).endswith(": [REDACTED]")


@pytest.mark.parametrize("size", [66, 133, 165, 233, 300, 500])
@pytest.mark.parametrize("key", [PRIVATE_KEY, PRIVATE_KEY.replace("\n", "\\n")])
async def test_key_is_swallowed_when_it_begins_within_another_long_secret(size: int, key: str) -> None:
    """What was given up is forgotten but for its ends, and for what has begun within it."""
    tested = PIIDetector()
    text = f"use sk-proj-{'Zx9' * size}{key} and so on"  # with 165 the limit cuts the key's first line
    assert await cleaned(tested, text) == "use [REDACTED] and so on"
    for chunks in ways(text):
        assert await streamed(tested, chunks) == "use [REDACTED] and so on"


async def test_key_is_found_when_a_line_of_it_looks_like_the_beginning_of_another() -> None:
    """The first that has not ended is the one to wait for."""
    text = "-----BEGIN PRIVATE KEY-----\nComment: -----BEGIN R\nMIIE1234 and so on"
    for chunks in ways(text):
        assert await streamed(PIIDetector(), chunks) == "[REDACTED] and so on"


@pytest.mark.parametrize("behind", ["", "\n\nThanks\nAda", "\nThanks\n- Ada"])
@pytest.mark.parametrize("written", ["\n", "\\n"])
async def test_last_line_of_a_key_waits_for_its_end_when_it_has_only_letters(
    written: str, behind: str
) -> None:
    """It belongs to the key if the line that ends it follows, and a word of the text if not."""
    tested = PIIDetector()
    for last in (f"{written}YWJjZ{written}-----END RSA PRIVATE KEY-----", ""):
        key, expected = PRIVATE_KEY[:681].replace("\n", written) + last, "[REDACTED]"
        text, expected = (f"{part}{behind}".replace("\n", written) for part in (key, expected))
        assert await cleaned(tested, text) == expected
        for first in range(240, 340, 3):  # so that it is looked at with every beginning of that line
            assert await streamed(tested, [text[:first], *text[first:]]) == expected, first
