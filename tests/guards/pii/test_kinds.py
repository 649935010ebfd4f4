"""What is chosen by `types`, `threshold` and `allow` holds for a stream, however it is cut, as for a text."""

import re
from collections.abc import Iterator

import pytest
from tests.guards.pii.texts import BADGE, LONG_SECRETS, PRIVATE_KEY, SAMPLES, Sample, each_sample
from tests.support.strategies import cleaned, streamed

from recollect import PIIDetector
from recollect.guards.pii.finder import TYPES, PIIFinder

pytestmark = pytest.mark.anyio

HEADERS = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF0123456789ABCDEF\n\n"
SHORT_KEY = (
    f"-----BEGIN EC PRIVATE KEY-----\n{HEADERS}MHcCAQEEIIb9a0Rz7+/Xkq0Rz7\n-----END EC PRIVATE KEY-----"
)
KEY_IN_JSON = SHORT_KEY.replace("\n", "\\n")
PGP_KEY = (
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\nComment: made for Ada\n\n"
    "lQOYBFq0Rz7XkBCAC7bqq0Rz7XkAAADAQABAAf9\n=YWJj\n-----END PGP PRIVATE KEY BLOCK-----"
)
# What is found only beside words further back, or has blanks between letters and digits.
MORE_SAMPLES = (
    Sample("secret", f"key: {SHORT_KEY} and so on.", SHORT_KEY),
    Sample("secret", f"key: {PGP_KEY} and so on.", PGP_KEY),
    Sample("secret", f'It is {{"key": "{KEY_IN_JSON}"}}.', KEY_IN_JSON),
    Sample("secret", "Authorization: Bearer abcdef0123456789.abcd-ef", "abcdef0123456789.abcd-ef"),
    Sample("dob", "data de nascimento: em, digamos, 12 de dezembro de 1980, sim", "12 de dezembro de 1980"),
    Sample("dob", "date of birth of the client: September 12th, 1980 or so.", "September 12th, 1980"),
    Sample("national_id", "le 1 85 05 2A 006 084 35 est de Corse.", "1 85 05 2A 006 084 35"),
    Sample("national_id", "DNI 12345678 Z, dice.", "12345678 Z"),
    Sample("iban", "To MT84 MALT 0110 0001 2345 MTLC AST0 01S", "MT84 MALT 0110 0001 2345 MTLC AST0 01S"),
    Sample("url", "See the harbour.example.org/boats/7, there", "harbour.example.org/boats/7"),
)
each_of_more = pytest.mark.parametrize(
    "sample", MORE_SAMPLES, ids=[f"{s.kind}-{i}" for i, s in enumerate(MORE_SAMPLES)]
)
KNOWN = [sample for sample in (*SAMPLES, *MORE_SAMPLES) if sample.kind in TYPES]
each_known = pytest.mark.parametrize("sample", KNOWN, ids=[f"{s.kind}-{i}" for i, s in enumerate(KNOWN)])
each_long = pytest.mark.parametrize("name", LONG_SECRETS)


def every_cut(text: str) -> Iterator[list[str]]:
    """Yield a text cut in two at every place, and in single characters."""
    yield from ([text[:place], text[place:]] for place in range(1, len(text)))
    yield list(text)


async def assert_same_for_every_cut(guard: PIIDetector, text: str) -> str:
    """Return what becomes of a text, whole and on every stream; each character is looked at as it comes."""
    guard.batch = 1
    expected = await cleaned(guard, text)
    for chunks in every_cut(text):
        assert await streamed(guard, chunks) == expected, chunks
    return expected


async def assert_same_in_chunks(guard: PIIDetector, text: str) -> str:
    """Return what becomes of a long text, whole and on streams of several sizes."""
    expected = await cleaned(guard, text)
    for size in (1, 7, 100, 300):
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        assert await streamed(guard, chunks) == expected, size
    return expected


@each_of_more
async def test_chosen_type_is_found_however_a_stream_is_cut(sample: Sample) -> None:
    """Alone and among all others; headers, labels and blanks within it make no difference."""
    for types in ([sample.kind], TYPES):
        guard = PIIDetector(method="placeholder", types=types)
        expected = sample.text.replace(sample.secret, f"[{sample.kind.upper()}]")
        assert await assert_same_for_every_cut(guard, sample.text) == expected


@each_known
async def test_type_that_was_not_chosen_stays_however_a_stream_is_cut(sample: Sample) -> None:
    """What others make of the text is the same as in the whole text, and is not called by its name."""
    guard = PIIDetector(method="placeholder", types=[kind for kind in TYPES if kind != sample.kind])
    assert f"[{sample.kind.upper()}]" not in await assert_same_for_every_cut(guard, sample.text)


@each_known
async def test_threshold_holds_however_a_stream_is_cut(sample: Sample) -> None:
    """What scores as much is replaced, what scores less stays."""
    (found,) = PIIFinder([sample.kind]).find(sample.text)
    guard = PIIDetector(types=[sample.kind], threshold=found.score)
    assert await assert_same_for_every_cut(guard, sample.text) != sample.text
    if found.score < 1:
        guard = PIIDetector(types=[sample.kind], threshold=found.score + 0.01)
        assert await assert_same_for_every_cut(guard, sample.text) == sample.text


@each_sample
async def test_allowed_text_stays_however_a_stream_is_cut(sample: Sample) -> None:
    """By its words or by a pattern; the same kind is found elsewhere."""
    patterns = {"badge": re.compile(BADGE)} if sample.kind == "badge" else None
    types = [sample.kind] if sample.kind in TYPES else []
    (found,) = PIIFinder(types, patterns=patterns).find(sample.text)
    match = sample.text[found.start : found.end]
    for allow in (match.upper(), re.compile(re.escape(match))):
        guard = PIIDetector(types=types, patterns=patterns, allow=[allow])
        assert await assert_same_for_every_cut(guard, sample.text) == sample.text
    guard = PIIDetector(types=types, patterns=patterns, allow=[match[:-1]])
    assert await assert_same_for_every_cut(guard, sample.text) != sample.text


@each_long
async def test_long_secret_stays_when_its_type_was_not_chosen(name: str) -> None:
    """It is not swallowed at the limit: nobody looks for it."""
    text, _ = LONG_SECRETS[name]
    guard = PIIDetector(types=["email", "phone", "iban", "dob"])
    assert await assert_same_in_chunks(guard, text) == text


@pytest.mark.parametrize(
    ("text", "kind", "threshold"),
    [
        (LONG_SECRETS["labelled"][0], "secret", 0.86),
        (f"Authorization: Bearer {'Zx9' * 200} and so on.", "secret", 0.91),
        (f"See the harbour.example.org/{'Zx9/' * 200} and so on.", "url", 0.71),
    ],
)
async def test_long_secret_stays_when_it_scores_less_than_the_threshold(
    text: str, kind: str, threshold: float
) -> None:
    """It is not swallowed at the limit; with a lower threshold it is replaced."""
    assert await assert_same_in_chunks(PIIDetector(types=[kind], threshold=threshold), text) == text
    assert await assert_same_in_chunks(PIIDetector(types=[kind], threshold=threshold - 0.01), text) != text


@each_long
async def test_long_secret_stays_when_it_is_allowed(name: str) -> None:
    """A stream holds back as much as an allowed text needs to be known; what is a little longer is not it."""
    text, _ = LONG_SECRETS[name]
    (found,) = PIIFinder(TYPES).find(text)
    match = text[found.start : found.end]
    assert await assert_same_in_chunks(PIIDetector(types=TYPES, allow=[match]), text) == text
    longer = text.replace(match, f"{match[:100]}Zx9{match[100:]}")
    assert await assert_same_in_chunks(PIIDetector(types=TYPES, allow=[match]), longer) == await cleaned(
        PIIDetector(types=TYPES), longer
    )


@pytest.mark.parametrize("size", [150, 192, 193, 232, 233, 300])
async def test_pattern_allows_only_what_a_stream_can_wait_for(size: int) -> None:
    """It covers detections of at most 200 characters, in whole texts too, unless more may be held back."""
    text = f"Here: sk-proj-{'x' * size}... and so on."
    pattern = re.compile("sk-proj-.*")
    result = await assert_same_in_chunks(PIIDetector(allow=[pattern]), text)
    assert result == (text if size <= 192 else "Here: [REDACTED]... and so on.")
    patient = PIIDetector(allow=[pattern])
    patient.holdback_limit = 400
    assert await assert_same_in_chunks(patient, text) == text


async def test_long_key_with_headers_is_swallowed_to_its_end() -> None:
    """At the limit it is replaced, wherever among its headers and lines the stream is cut."""
    key = PRIVATE_KEY.replace("-----\nMII", f"-----\n{HEADERS}MII", 1)
    text = f"Here: {key} and so on."
    assert await assert_same_in_chunks(PIIDetector(), text) == "Here: [REDACTED] and so on."
    for place in range(1, 300):
        chunks = [text[:place], text[place:]]
        assert await streamed(PIIDetector(), chunks) == "Here: [REDACTED] and so on.", place
