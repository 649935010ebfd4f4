"""Saying what a chat waits for: a person who sees nothing happen does not know whether to stop it."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from recollect.trace import Trace, TraceEntry

_PATIENCE = 2.0  # seconds, until it is said what is waited for
_LOOK = 0.25  # seconds between two looks

_IN_WORDS = {
    ("message-history", "input"): "reading this session",
    ("message-persistence", "commit"): "saving this turn; another process may be writing to the store",
    ("long-term-memory", "input"): "asking long-term memory",
    ("long-term-memory", "commit"): "telling long-term memory of this turn",
}


@asynccontextmanager
async def told_waits(trace: Trace, tell: Callable[[str], None]) -> AsyncGenerator[None]:
    """Tell, while the block runs, what takes long before the model is asked or behind its answer."""
    telling = asyncio.create_task(_tell(trace, tell))
    try:
        yield
    finally:
        telling.cancel()


async def _tell(trace: Trace, tell: Callable[[str], None]) -> None:
    told: TraceEntry | None = None
    while True:
        await asyncio.sleep(_LOOK)
        entry = trace.under_way()
        if entry is None or entry is told or entry.phase not in {"input", "commit"}:
            continue
        if time.time_ns() - entry.started_at_ns >= _PATIENCE * 1e9:
            told = entry
            doing = _IN_WORDS.get((entry.processor_id, entry.phase), f"waiting for {entry.processor_id}")
            tell(f"(still {doing}; Ctrl-C stops)")
