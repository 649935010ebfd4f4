"""Waiting for what happens elsewhere: for the event itself, never for a time that should be enough."""

import asyncio
import time
from collections.abc import Callable

GENEROUS = 120
"""Seconds that nothing needs, even on the busiest machine; shorter than a test may take at all."""


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until something has happened in another thread or process."""
    deadline = time.monotonic() + GENEROUS
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something has happened in another task or thread, while the event loop goes on."""
    async with asyncio.timeout(GENEROUS):
        while not is_so():  # noqa: ASYNC110 - threads and files have no events
            await asyncio.sleep(0.001)
