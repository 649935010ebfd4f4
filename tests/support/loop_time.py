"""How long the event loop's own thread works in one go, in processor time: a busy machine does not count."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.support.garbage import no_collection

TICK = 0.002
"""Seconds between two turns of the event loop."""


@dataclass(slots=True)
class LoopTime:
    """Processor time in seconds: the longest turn of the loop's thread, and what all threads have spent."""

    longest: float = 0.0
    spent: float = 0.0


@asynccontextmanager
async def watch_loop() -> AsyncGenerator[LoopTime]:
    """Watch the event loop during a block; the garbage of earlier tests is not collected meanwhile."""
    found = LoopTime()

    async def watch() -> None:
        while True:
            started = time.thread_time()
            await asyncio.sleep(TICK)
            found.longest = max(found.longest, time.thread_time() - started)

    with no_collection():
        task = asyncio.create_task(watch())
        await asyncio.sleep(TICK)  # it watches from the first moment on
        started = time.process_time()
        yield found
        found.spent = time.process_time() - started
        await asyncio.sleep(2 * TICK)  # and what was the last
        task.cancel()
