"""Dates, keys and secrets in the layouts that people and tools write: tables, leaders, headers, one line."""

import base64
from random import Random

import pytest
from tests.guards.pii.texts import LONG_SECRETS, PRIVATE_KEY
from tests.support.profiles import count_examples
from tests.support.strategies import cleaned, streamed

from recollect import PIIDetector, TripWire
from recollect.guards.pii.finder import TYPES

pytestmark = pytest.mark.anyio

SIZES = (1, 2, 7, 24, 25, 41, 64, 255, 256, 300, 5000)
DATES = ("12 May 1980", "1980-05-12", "12/05/1980", "September 12, 1980")
BEFORE_DATES = (
    "My date of birth is ",
    "Date of birth        | ",
    f"| **Date of birth**{' ' * 24}| ",
    "Date of birth ........ ",
    f"Born{' ' * 36}",
    "DOB:\t\t\t",
    f'"date_of_birth":{" " * 20}"',
)
BODY = PRIVATE_KEY.split("\n", 1)[1]
PEM_HEADERS = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF0123456789ABCDEF\n\n"
PGP_HEADERS = "Version: GnuPG v2.0.22 (GNU/Linux)\nComment: not to be told to anybody\n\n"
COMMENTS = "Comment: a key that is not to be told to anybody\n" * 12 + "\n"
KEYS = {
    "PEM": f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_HEADERS}{BODY}",
    "PGP": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{PGP_HEADERS}{BODY}",
    "long headers": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{COMMENTS}{BODY}",
    "headers alone": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{COMMENTS.strip()}\n",
}
BREAKS = {
    "lines": "\n",
    "Windows lines": "\r\n",
    "written lines": "\\n",
    "blanks": " ",
    "written tabs": "\\\\t",
}


def cut(text: str, size: int) -> list[str]:
    """Cut a text into equal chunks."""
    return [text[start : start + size] for start in range(0, len(text), size)]


@pytest.mark.parametrize("before", BEFORE_DATES)
@pytest.mark.parametrize("date", DATES)
async def test_date_of_birth_is_found_when_it_stands_in_any_layout(before: str, date: str) -> None:
    """In sentences, in padded tables and after dot leaders, in whole texts and for every size of chunks."""
    text, expected = f"{before}{date} | and so on.", f"{before}[REDACTED] | and so on."
    assert await cleaned(PIIDetector(), text) == expected
    for size in range(1, 60):
        assert await streamed(PIIDetector(), cut(text, size)) == expected, size


@pytest.mark.parametrize("line_break", BREAKS.values(), ids=BREAKS)
@pytest.mark.parametrize("name", KEYS)
async def test_private_key_is_found_when_it_has_headers(name: str, line_break: str) -> None:
    """Nothing of it is released, and `block` stops the run, also if it is on one line."""
    text = f"Here: {KEYS[name].replace(chr(10), line_break)} | and so on."
    if name == "headers alone":  # where they end is clear only in lines
        text = text.replace(f"{line_break} | and", "\n| and")
    expected = await cleaned(PIIDetector(), text)
    assert expected.replace("\n", " ") == "Here: [REDACTED] | and so on."
    for size in SIZES:
        assert await streamed(PIIDetector(), cut(text, size)) == expected, size
        with pytest.raises(TripWire, match="secret"):
            await streamed(PIIDetector("block"), cut(text, size))


@pytest.mark.parametrize("line_break", [" ", "  ", "\t", "\\t", "\n    "])
async def test_private_key_is_swallowed_when_it_has_no_lines(line_break: str) -> None:
    """Wherever its random letters happen to be forgotten."""
    chance = Random(3)
    for _ in range(count_examples(0.07)):
        code = base64.b64encode(chance.randbytes(1500)).decode()
        lines = ["-----BEGIN PRIVATE KEY-----", *cut(code, 76), "-----END PRIVATE KEY-----"]
        text = f"Here: {line_break.join(lines)} and so on."
        for size in SIZES:
            assert await streamed(PIIDetector(), cut(text, size)) == "Here: [REDACTED] and so on.", size


@pytest.mark.parametrize("name", LONG_SECRETS)
async def test_hash_is_the_same_for_all_chunks_when_a_secret_is_long(name: str) -> None:
    """It is one of the whole secret: another one with the same beginning has another."""
    guard = PIIDetector(types=TYPES, method="hash", key="key")
    text, part = LONG_SECRETS[name]
    other = text[: text.rindex(part)] + part[::-1] + text[text.rindex(part) + len(part) :]
    expected = await cleaned(guard, text)
    assert expected != await cleaned(guard, other)
    for size in SIZES:
        assert await streamed(guard, cut(text, size)) == expected, size


@pytest.mark.parametrize("size", [50, 62, 63, 64, 127, 128, 129, 300])
@pytest.mark.parametrize("between", ["", ".", "-", "/"])
async def test_secret_is_found_when_it_follows_a_long_value_that_is_none(size: int, between: str) -> None:
    """A label within what another label names is read too, however long that is."""
    text = f"see token:{'x' * size}{between}password: hunter22 and so on"
    expected = text.replace("hunter22", "[REDACTED]") if between else await cleaned(PIIDetector(), text)
    assert await cleaned(PIIDetector(), text) == expected
    for chunk in SIZES:
        assert await streamed(PIIDetector(), cut(text, chunk)) == expected, chunk
