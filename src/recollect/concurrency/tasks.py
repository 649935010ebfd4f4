"""Background tasks: work that continues after the answer was returned."""

import asyncio
from collections.abc import Coroutine, Hashable
from concurrent.futures import Future
from typing import Any


class BackgroundTasks:
    """Keeps tasks that nobody awaits alive until they are done; any event loop can wait for them."""

    def __init__(self) -> None:
        self._running: dict[Future[None], asyncio.Task[None]] = {}
        self._last: dict[Hashable, asyncio.Task[None]] = {}

    def start(self, subject: Hashable, work: Coroutine[Any, Any, None]) -> None:
        """Run work in the background, after earlier work on its subject; it must handle its own errors."""
        done: Future[None] = Future()
        loop = asyncio.get_running_loop()
        earlier = self._last.get(subject)
        if earlier is not None and (earlier.done() or earlier.get_loop() is not loop):
            earlier = None
        task = loop.create_task(_run_after(earlier, work))
        self._running[done] = self._last[subject] = task
        task.add_done_callback(lambda _: self._forget(subject, done))

    async def join(self) -> None:
        """Wait until all work is done, except on event loops that do not run."""
        while waiting := [done for done, task in [*self._running.items()] if task.get_loop().is_running()]:
            await asyncio.wait([asyncio.wrap_future(done) for done in waiting])

    def _forget(self, subject: Hashable, done: "Future[None]") -> None:
        task = self._running.pop(done)
        if self._last.get(subject) is task:
            del self._last[subject]
        done.set_result(None)


def retrieve_exception(task: "asyncio.Task[Any]") -> None:
    """Keep asyncio from reporting a task's exception as never retrieved, if its caller was cancelled."""
    if not task.cancelled():
        task.exception()


async def _run_after(earlier: "asyncio.Task[None] | None", work: Coroutine[Any, Any, None]) -> None:
    try:
        if earlier is not None:
            await asyncio.wait([earlier])
        await work
    finally:
        work.close()  # does nothing if it has run
