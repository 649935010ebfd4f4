"""How much text the guards of a stream hold back: no more than 256 characters each, whatever comes."""

import random
from collections.abc import Iterator

import pytest
from tests.guards.pii.texts import LONG_SECRETS, SAMPLES
from tests.support.contexts import new_run
from tests.support.profiles import IS_LONG, count_examples
from tests.support.tricky_texts import INSTRUCTIONS, tricky_texts

from recollect import (
    PIIDetector,
    Processor,
    SpanGuard,
    SystemPromptScrubber,
    TokenLimiterProcessor,
    UnicodeNormalizer,
)
from recollect.guards.holdback import HoldBack
from recollect.pipeline.assembly import id_of
from recollect.pipeline.context import RunState
from recollect.pipeline.output import OutputChain
from recollect.pipeline.processor import TextDelta

pytestmark = pytest.mark.anyio

MOST = 256
LENGTH = 600 if IS_LONG else 300
GUARDS: dict[str, Processor] = {
    "pii": PIIDetector(),
    "pii-warn": PIIDetector("warn"),
    "pii-all-types": PIIDetector(
        types=["url", "email", "secret", "phone", "dob"], patterns={"badge": "B-[0-9]+"}
    ),
    "scrubber": SystemPromptScrubber(),
    "limiter": TokenLimiterProcessor(1_000_000),
    "limiter-near-its-limit": TokenLimiterProcessor(150),
    "normaliser": UnicodeNormalizer(),
    "normaliser-all": UnicodeNormalizer(collapse_whitespace=True, confusables=True),
}
UNITS = (
    *(
        "a",
        "1",
        " ",
        "\n",
        "-",
        "1 ",
        "a@",
        "x@y.",
        "www.",
        "https://a:",
        "+1 ",
        "(0)",
        "DE12 ",
        "né ",
        "dob ",
    ),
    *(
        "password: ",
        "eyJaaaaaaaa.",
        "-----BEGIN PRIVATE KEY-----\nAb1",
        "a\u0301",
        "\u0301",
        "\u200d",
        "\u200b",
    ),
    *(
        "\U0001f468\u200d",
        "\u65e5\u672c",
        "\ufb01",
        "\ufdfa",
        "\u0627\u200c",
        "\t \n",
        INSTRUCTIONS[:30],
        "B-1",
    ),
)


def hostile_texts() -> Iterator[str]:
    """Return texts that keep guards waiting, and some put together from parts of them."""
    yield "The boat left before dawn, and nobody on the quay saw it go. " * (LENGTH // 30)
    yield from tricky_texts()
    yield from (text for text, _ in LONG_SECRETS.values())
    yield from ((unit * LENGTH)[:LENGTH] for unit in UNITS)
    pick = random.Random(5)
    parts = [*UNITS, *(sample.text for sample in SAMPLES), "boat ", ". "]
    for _ in range(count_examples(0.4)):
        yield "".join(pick.choice(parts) * pick.choice((1, 1, 2, 9)) for _ in range(30))


@pytest.mark.parametrize("name", GUARDS)
async def test_no_guard_holds_more_back_than_it_says(name: str) -> None:
    """Letters are released, or replaced, before so many wait; blanks at an end may wait for what follows."""
    for text in hostile_texts():
        run = new_run()
        run.instructions = INSTRUCTIONS
        chain = OutputChain([GUARDS[name]], run)
        held = 0
        for character in text:
            before = chain.released.characters
            await chain.push(0, TextDelta(character))
            if run.stop_reason is not None:
                break
            held = 0 if chain.released.characters > before else held + character.isalnum()
            assert held <= MOST or is_swallowing(run, GUARDS[name], chain), (name, text[:80])


def is_swallowing(run: RunState, guard: Processor, chain: OutputChain) -> bool:
    """Whether the guard is replacing a match that goes on and on, or has done so: nothing waits then."""
    stream = run.states[id_of(guard)].get("stream")
    if isinstance(stream, HoldBack):
        return stream.is_swallowing
    return chain.released.text().endswith("[REDACTED]")


def test_a_guard_of_ones_own_holds_no_more_back_by_default() -> None:
    """The limit is that of the guards that come with it, unless it is set."""
    assert SpanGuard.holdback_limit == MOST
