"""Any text with findings, cut anywhere, through any guards: stream, `generate` and the store say the same.

Texts, cuts and options follow from a seed. `make test-long` tries some fifteen times as many.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import get_args

import pytest
from tests.support.agents import events_of, streamed_text
from tests.support.contexts import context, new_run
from tests.support.finding_texts import make_text
from tests.support.profiles import count_examples
from tests.support.strategies import cleaned
from tests.support.tricky_texts import INSTRUCTIONS

from recollect import (
    Agent,
    Memory,
    Parallel,
    PIIDetector,
    RecollectError,
    SpanGuard,
    SystemPromptScrubber,
    TextDelta,
    UnicodeNormalizer,
)
from recollect.guards.pii.detector import Method, Strategy
from recollect.guards.pii.finder import TYPES
from recollect.guards.stream_guard import StreamGuard
from recollect.pipeline.output import OutputChain
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
METHODS: tuple[Method, ...] = get_args(Method)
SHARES = range(4)  # so that several processes can share the work


def make_guard(chance: Random, text: str, name: str = "pii") -> PIIDetector:
    """Return a guard with random options, some of which name what is in the text."""
    types = chance.choice((None, None, TYPES, chance.sample(TYPES, chance.randint(1, 4))))
    known = PIIDetector(types=TYPES).find(text, 0, context(new_run()))
    found = [text[span.start : span.end] for span in known]
    patterns = [re.compile(r"[a-z.]+@example\.org"), re.compile(r"(?s).{100,}"), re.compile(r"\d+")]
    return PIIDetector(
        chance.choice((*STRATEGIES, *STRATEGIES[:1] * 5)),
        method=chance.choice(METHODS),
        types=types,
        threshold=chance.choice((0.5, 0.5, 0.5, 0, 0.45, 0.55, 0.65, 0.8, 0.86, 0.9, 0.95, 1)),
        allow=chance.sample([*found, *patterns], chance.randint(0, 2)) if chance.random() < 0.3 else (),
        patterns={"badge": r"B-\d{4}-X"} if chance.random() < 0.2 else None,
        key="key",
        id=name,
    )


def make_chain(chance: Random, text: str) -> list[StreamGuard]:
    """Return one to four guards: for personal data, alone or side by side, and now and then another one."""
    return [_make_link(chance, text, f"guard-{place}") for place in range(chance.randint(1, 4))]


def _make_link(chance: Random, text: str, name: str) -> StreamGuard:
    kind = chance.random()
    if kind < 0.7:
        return make_guard(chance, text, name)
    if kind < 0.8:
        cut = chance.randint(1, len(TYPES) - 1)
        types = chance.sample(TYPES, len(TYPES))
        return Parallel(
            PIIDetector(types=types[:cut], id=f"{name}-first"),
            PIIDetector(types=types[cut:], id=f"{name}-second"),
            id=name,
        )
    other = UnicodeNormalizer() if kind < 0.9 else SystemPromptScrubber()
    other.id = name
    return other


def cut_text(chance: Random, text: str, ways: int) -> Iterator[list[str]]:
    """Yield some ways to cut a text: into equal chunks of a size, and anywhere."""
    sizes = (1, 2, 3, 5, 8, 13, 23, 24, 25, 41, 64, 96, 200, 233, 255, 256, 300)
    for _ in range(ways):
        if chance.random() < 0.6:
            size = chance.choice((*sizes, *range(1, 42)))
            yield [text[start : start + size] for start in range(0, len(text), size)]
        else:
            count = chance.randint(0, min(len(text) - 1, 40))
            places = [0, *sorted(chance.sample(range(1, len(text)), count)), len(text)]
            yield [text[start:end] for start, end in pairwise(places)]


async def clean(guard: SpanGuard, text: str) -> str:
    """Return what a guard makes of a whole text, or that it stops the run."""
    try:
        return await cleaned(guard, text)
    except RecollectError as error:
        return f"stopped by {type(error).__name__}"


async def release(chain: Sequence[StreamGuard], chunks: Sequence[str]) -> str:
    """Return what guards release of an answer that comes in chunks, or what stops the run."""
    run = new_run()
    run.instructions = INSTRUCTIONS
    output = OutputChain(chain, run)
    try:
        for chunk in chunks:
            await output.push(0, TextDelta(chunk))
        await output.close([])
    except RecollectError as error:
        return f"stopped by {type(error).__name__}"
    return output.released.text()


async def check_guard(seed: str, ways: int = 6) -> None:
    """Compare the streams of a text through one guard with what the guard makes of the whole text."""
    chance = Random(seed)
    text = make_text(chance)
    guard = make_guard(chance, text)
    expected = await clean(guard, text)
    for chunks in ([text], *cut_text(chance, text, ways)):
        assert await release([guard], chunks) == expected, (seed, [len(chunk) for chunk in chunks])


async def check_chain(seed: str, ways: int = 4) -> None:
    """Compare the streams of a text through several guards with what comes of it in one chunk."""
    chance = Random(seed)
    text = make_text(chance)
    chain = make_chain(chance, text)
    expected = await release(chain, [text])
    detectors = [guard for guard in chain if isinstance(guard, PIIDetector)]
    if len(detectors) == len(chain):
        by_hand = text
        for guard in detectors:
            by_hand = by_hand if by_hand.startswith("stopped by ") else await clean(guard, by_hand)
        assert expected == by_hand, seed
    for chunks in cut_text(chance, text, ways):
        assert await release(chain, chunks) == expected, (seed, [len(chunk) for chunk in chunks])


async def check_agent(seed: str) -> None:
    """Compare what an agent streams, returns, and stores, and what it generates in one go."""
    chance = Random(seed)
    text = make_text(chance)
    chain = make_chain(chance, text)
    size = chance.choice((1, 3, 7, 24, 40, 300))
    async with Memory() as memory:
        agent = Agent(ScriptedModel([text, text], chunk_size=size), memory=memory, output_processors=chain)
        result = await agent.generate("go", thread_id="generated")
        events = await events_of(agent, "go", thread_id="streamed")
        stored = [await memory.get_messages(thread_id=name) for name in ("generated", "streamed")]
    last = events[-1].result
    assert last is not None
    assert (last.tripwire is None, last.text) == (result.tripwire is None, result.text), seed
    if result.tripwire is None:
        assert streamed_text(events) == result.text, seed
        kept = ["".join(m.text for m in thread if m.role == "assistant") for thread in stored]
        assert kept == [result.text] * 2, seed
    else:
        assert stored == [[], []], seed


@pytest.mark.parametrize("share", SHARES)
async def test_stream_is_what_the_whole_text_becomes_when_options_and_cuts_are_random(share: int) -> None:
    """One guard for personal data, with any types, threshold, allowed texts, strategy and method."""
    for number in range(count_examples(2)):
        await check_guard(f"guard {share} {number}")


@pytest.mark.parametrize("share", SHARES)
async def test_stream_is_the_same_for_all_cuts_when_guards_are_chained(share: int) -> None:
    """One to four guards, among them others than those for personal data."""
    for number in range(count_examples(1)):
        await check_chain(f"chain {share} {number}")


@pytest.mark.parametrize("share", SHARES)
async def test_stream_result_and_store_are_equal_when_guards_are_random(share: int) -> None:
    """The same through an agent with memory; what is stopped is not stored."""
    for number in range(count_examples(0.3)):
        await check_agent(f"agent {share} {number}")
