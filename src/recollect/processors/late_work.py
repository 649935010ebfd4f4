"""Work that goes on after an answer was returned, and can be waited for from any event loop."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any


class LateWork:
    """Tasks that nobody awaits, kept alive until they are done."""

    def __init__(self) -> None:
        """Begin with nothing under way."""
        self._running: dict[Future[None], asyncio.Task[None]] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Let work go on beside the caller; it deals with its own failures."""
        done: Future[None] = Future()
        task = asyncio.get_running_loop().create_task(work)
        self._running[done] = task
        task.add_done_callback(lambda _: self._finished(done))

    async def settled(self) -> None:
        """Wait until nothing is under way; work of a loop that was left standing is not waited for."""
        while waiting := [done for done, task in [*self._running.items()] if task.get_loop().is_running()]:
            await asyncio.wait([asyncio.wrap_future(done) for done in waiting])

    def _finished(self, done: "Future[None]") -> None:
        del self._running[done]
        done.set_result(None)
