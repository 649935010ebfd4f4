"""A thread that does one thing after another for an event loop.

Unlike an executor it still works while the interpreter shuts down, when stores are closed at exit.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class _ForkGate:
    """Lets a process fork only while no worker is at work.

    A thread that is inside SQLite holds locks of it; in a forked child nobody would ever release them.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._at_work = 0
        if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
            os.register_at_fork(
                before=self._close,
                after_in_parent=self._condition.release,
                after_in_child=self._condition.release,
            )

    def __enter__(self) -> None:
        with self._condition:
            self._at_work += 1

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._at_work -= 1
            self._condition.notify_all()

    def _close(self) -> None:
        self._condition.acquire()
        while self._at_work:
            self._condition.wait()


_fork_gate = _ForkGate()


class Worker:
    """One daemon thread, started when it is first needed."""

    def __init__(self, name: str) -> None:
        """Belong to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        # The thread does not know this object, so that one that was never closed ends with it.
        self._thread = threading.Thread(target=_serve, args=(self._tasks,), name=name, daemon=True)
        self._started = False

    def __del__(self) -> None:
        """End the thread of a worker that nobody has any more, as when its loop ended without a word."""
        if getattr(self, "_started", False):
            self._tasks.put(None)

    def post(self, task: Callable[[], None]) -> None:
        """Do something later, in order; it must not raise."""
        if not self._started:
            self._started = True
            self._thread.start()
        self._tasks.put(task)

    async def run(self, function: Callable[[], T]) -> T:
        """Do something in order and return its value; a cancelled caller leaves before it is done."""
        future: asyncio.Future[T] = self._loop.create_future()

        def task() -> None:
            if future.cancelled():
                return
            try:
                value = function()
            except Exception as error:  # noqa: BLE001 - it belongs to the caller, not to this thread
                self.call_back(_fail, future, error)
            else:
                self.call_back(_succeed, future, value)

        self.post(task)
        return await future

    def call_back(self, function: Callable[..., object], *args: object) -> None:
        """Have the event loop call a function; a loop that is gone needs no answer."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    async def close(self) -> None:
        """Finish what was posted and end the thread."""
        if self._started:
            await self.run(_nothing)
            self._tasks.put(None)
            self._thread.join()


def _serve(tasks: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (task := tasks.get()) is not None:
        with _fork_gate:
            task()
        del task  # it may know the worker


def _nothing() -> None: ...


def _succeed(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
