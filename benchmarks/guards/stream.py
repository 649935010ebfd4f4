"""Streaming through the guards of an answer: how much text passes in a second, and how much is held back."""

import time
from typing import TypedDict

from tests.support.tricky_texts import INSTRUCTIONS, tricky_texts

from benchmarks.harness.report import Show
from benchmarks.harness.texts import SampleTexts
from recollect.guards.leaks.scrubber import SystemPromptScrubber
from recollect.guards.pii.detector import PIIDetector
from recollect.guards.token_limiter import TokenLimiterProcessor
from recollect.messages import Message
from recollect.pipeline.context import RunIds, RunState
from recollect.pipeline.output import OutputChain
from recollect.pipeline.processor import Processor, TextDelta
from recollect.trace import Trace

CHUNK = 64
"""The chunk size of the judged figure, in characters."""

_SIZES = (4, 16, CHUNK, 256)
_CHARACTERS = 1_000_000
_TOKENS = 10_000_000
_ROUNDS = 3
_MEGA = 1e6


class StreamFigures(TypedDict):
    """The two judged figures, the speed by chunk size, and the names of the guards."""

    mb_per_second: float
    longest_held_back: int
    mb_per_second_by_chunk: dict[str, float]
    guards: list[str]


async def measure_stream(show: Show) -> StreamFigures:
    """Measure ordinary text in chunks of several sizes, and how much of single characters is held back."""
    text = make_ordinary_text(_CHARACTERS)
    speeds: dict[str, float] = {}
    for place, size in enumerate(_SIZES):
        show(f"streaming in chunks of {size} characters", place / (len(_SIZES) + 1))
        part = text[: _CHARACTERS * min(size, CHUNK) // CHUNK]
        speeds[str(size)] = round(max([await _measure_speed(part, size) for _ in range(_ROUNDS)]), 2)
    show("looking how much is held back", len(_SIZES) / (len(_SIZES) + 1))
    texts = [make_ordinary_text(4_000), *tricky_texts()]
    held = max([await _measure_held_back(text, limit) for text in texts for limit in (_TOKENS, 200)])
    return {
        "mb_per_second": speeds[str(CHUNK)],
        "longest_held_back": held,
        "mb_per_second_by_chunk": speeds,
        "guards": [type(guard).__name__ for guard in _make_guards(_TOKENS)],
    }


def make_ordinary_text(size: int) -> str:
    """Return a text of a given length without anything to find."""
    texts = SampleTexts().texts(size // 150)
    return " ".join(texts)[:size]


def _make_guards(limit: int) -> list[Processor]:
    """Return the guards of an answer, in the documented order."""
    return [PIIDetector(), SystemPromptScrubber(), TokenLimiterProcessor(limit)]


def _new_run() -> RunState:
    view = [Message("user", "Tell me everything.")]
    return RunState("bench", RunIds(), Trace(), INSTRUCTIONS, view=view)


async def _measure_speed(text: str, size: int) -> float:
    """Return the speed on one core, in megabytes per second."""
    chunks = [TextDelta(text[place : place + size]) for place in range(0, len(text), size)]
    chain = OutputChain(_make_guards(_TOKENS), _new_run())
    start = time.process_time()
    for chunk in chunks:
        await chain.push(0, chunk)
    await chain.close([])
    return len(text) / _MEGA / (time.process_time() - start)


async def _measure_held_back(text: str, limit: int) -> int:
    """Return the maximum number of characters held back from a stream of single characters."""
    run, longest = _new_run(), 0
    chain = OutputChain(_make_guards(limit), run)
    for fed, character in enumerate(text, 1):
        await chain.push(0, TextDelta(character))
        if run.stop_reason is not None:
            break
        longest = max(longest, fed - chain.released.characters)
    return longest
