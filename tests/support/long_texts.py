"""Long texts that are hard to read, and how long another user waits while one of them is handled."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.loop_time import watch_loop

from recollect import Agent, Memory, PIIDetector, PromptInjectionDetector
from recollect.messages import ToolResult
from recollect.testing import ScriptedModel

TEXTS = {"phone numbers": "+49 170 5550134, ", "U+FDFA": "\ufdfa"}
"""What long texts are made of: numbers to find, and a character that normalizing makes 18 of."""

_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Delay:
    """How long the longest greeting took, in seconds: with nothing else to do, and beside a long prompt."""

    quiet: float
    busy: float
    handled: float
    """How long the long prompt took."""
    longest: float
    """The longest turn of the event loop's thread meanwhile, in processor time."""


def make_text(part: str, megabytes: float) -> str:
    """Repeat a part until it is so long in UTF-8."""
    return part * (int(megabytes * 1e6) // len(part.encode()))


def make_result(keys: int) -> ToolResult:
    """Return a tool result whose keys are e-mail addresses."""
    return ToolResult("1", "lookup", {f"ann{number}@example.com": number for number in range(keys)})


async def measure_delay(text: str) -> Delay:
    """Handle a prompt with guards and memory, and greet as another user meanwhile."""
    with TemporaryDirectory() as folder:
        return await _measure_delay(text, Path(folder, "long.db"))


async def _measure_delay(text: str, path: Path) -> Delay:
    async with Memory(path, semantic_recall=True, embedder=None) as memory:
        guards = [PIIDetector(), PromptInjectionDetector()]
        agent = Agent(ScriptedModel("ok"), memory=memory, input_processors=guards)
        await _greet(agent)
        quiet = max([await _greet(agent) for _ in range(20)])
        started = time.perf_counter()
        async with watch_loop() as loop_time, _greet_meanwhile(agent) as seconds:
            result = await agent.generate(text, resource_id="ada")
            handled = time.perf_counter() - started
            await memory.settled()
            await agent.generate("And what was it?", resource_id="ada", thread_id="another")
        assert result.saved
        return Delay(quiet, max(seconds), handled, loop_time.longest)


@asynccontextmanager
async def _greet_meanwhile(agent: Agent) -> AsyncGenerator[Sequence[float]]:
    """Greet again and again; the list has how long each took."""
    seconds: list[float] = []
    done = asyncio.Event()

    async def greet_until_done() -> None:
        while not done.is_set():
            seconds.append(await _greet(agent))
            await asyncio.sleep(_PAUSE)

    task = asyncio.create_task(greet_until_done())
    await asyncio.sleep(0)
    try:
        yield seconds
    finally:
        done.set()  # the one that still waits counts too
        await task


async def _greet(agent: Agent) -> float:
    started = time.perf_counter()
    await agent.generate("hello", resource_id="bob")
    return time.perf_counter() - started
