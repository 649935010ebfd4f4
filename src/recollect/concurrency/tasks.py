"""Work that goes on after an answer was returned, and can be waited for from any event loop."""

import asyncio
from collections.abc import Coroutine, Hashable
from concurrent.futures import Future
from typing import Any


class LateWork:
    """Tasks that nobody awaits, kept alive until they are done."""

    def __init__(self) -> None:
        """Begin with nothing under way."""
        self._running: dict[Future[None], asyncio.Task[None]] = {}
        self._last: dict[Hashable, asyncio.Task[None]] = {}

    def start(self, subject: Hashable, work: Coroutine[Any, Any, None]) -> None:
        """Let work go on beside the caller, behind earlier work on the same subject.

        It deals with its own failures.
        """
        done: Future[None] = Future()
        loop = asyncio.get_running_loop()
        earlier = self._last.get(subject)
        if earlier is not None and (earlier.done() or earlier.get_loop() is not loop):
            earlier = None
        task = loop.create_task(_behind(earlier, work))
        self._running[done] = self._last[subject] = task
        task.add_done_callback(lambda _: self._finished(subject, done))

    async def settled(self) -> None:
        """Wait until nothing is under way; work of a loop that was left standing is not waited for."""
        while waiting := [done for done, task in [*self._running.items()] if task.get_loop().is_running()]:
            await asyncio.wait([asyncio.wrap_future(done) for done in waiting])

    def _finished(self, subject: Hashable, done: "Future[None]") -> None:
        task = self._running.pop(done)
        if self._last.get(subject) is task:
            del self._last[subject]
        done.set_result(None)


async def _behind(earlier: "asyncio.Task[None] | None", work: Coroutine[Any, Any, None]) -> None:
    try:
        if earlier is not None:
            await asyncio.wait([earlier])
        await work
    finally:
        work.close()  # does nothing where it has run
