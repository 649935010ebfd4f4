"""A circuit breaker: while a server is away, only the first call waits for it.

After a call has waited in vain, later calls raise the same error at once. Now and then one of them starts a
probe in the background, and gives it a moment; as soon as a probe succeeds, calls go through again.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from recollect.concurrency.tasks import retrieve_exception
from recollect.errors import StorageUnavailableError

_MIN_WAIT = 0.5  # a failure that came sooner has cost nobody time, and the next call may well succeed
_PAUSE_SECONDS = 1.0  # between the end of a probe and the start of the next
_GRACE_SECONDS = 0.2  # how long a call waits for the probe that it started


class Breaker:
    """Remembers that a server could not be reached, until a probe reaches it."""

    def __init__(self, probe: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Take a function that returns if the server can be reached, and raises if not."""
        self._probe = probe
        self._is_open = False
        self._message = ""
        self._retry_at = 0.0
        self._probing: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raise `StorageUnavailableError` at once while the server is away."""
        if not self._is_open:
            return
        if self._probing is None and time.monotonic() >= self._retry_at:
            self._probing = asyncio.create_task(self._try_again())
            self._probing.add_done_callback(retrieve_exception)
        if self._probing is not None:
            await asyncio.wait([self._probing], timeout=_GRACE_SECONDS)
        await asyncio.sleep(0)  # a caller that tries again and again must not stop the event loop
        if self._is_open:
            raise StorageUnavailableError(self._message)

    def open(self, error: StorageUnavailableError, waited: float) -> None:
        """Have later calls fail at once, if the one that failed has waited for long."""
        if waited >= _MIN_WAIT:
            self._is_open, self._message = True, str(error)
            self._retry_at = time.monotonic() + _PAUSE_SECONDS

    async def stop(self) -> None:
        """End a probe that is under way."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing])

    async def _try_again(self) -> None:
        try:
            await self._probe()
            self._is_open = False
        finally:
            self._retry_at = time.monotonic() + _PAUSE_SECONDS
            self._probing = None
