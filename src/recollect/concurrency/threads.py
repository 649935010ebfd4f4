"""A few threads of our own for calls that would hold up the event loop.

asyncio's default threads will not do: a call that never returns would keep the loop from closing and the
process from ending. These are daemon threads, started when needed and ended when idle. They belong to no
event loop, so several may share them, and a forked process starts its own. What is called is left to others.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
import time
from collections import deque
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Offload"]

T = TypeVar("T")
S = TypeVar("S")

_IDLE_SECONDS = 10.0
# Native code that is torn from under a thread can abort the whole process, so calls that are nearly done may
# finish; one that hangs is left behind.
_EXIT_SECONDS = 3.0


class _Job(Generic[T]):
    """One call, the context it runs in, and where its result goes."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.future: Future[T] = Future()
        self._call = call
        self._context = contextvars.copy_context()

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._context.run(self._call)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller, not to this thread
            self.future.set_exception(_portable(error))
        else:
            self.future.set_result(result)


class Offload:
    """Runs calls in at most `threads` threads, in the order in which they were asked for."""

    def __init__(self, threads: int, name: str) -> None:
        self._limit = threads
        self._name = name
        self._reset()

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns; cancelled while it still waits for a thread, it never runs."""
        return await asyncio.wrap_future(self._submit(call))

    async def map(self, call: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Return what the call returns for each item; after a failure the items not yet begun are dropped."""
        futures = [self._submit(lambda item=item: call(item)) for item in items]
        try:
            return [await asyncio.wrap_future(future) for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def _submit(self, call: Callable[[], T]) -> Future[T]:
        if self._process != os.getpid():
            self._reset()
        job = _Job(call)
        with self._condition:
            self._jobs.append(job.run)
            if self._idle < len(self._jobs) and len(self._threads) < self._limit:
                self._start()
            self._condition.notify()
        return job.future

    def _reset(self) -> None:
        """Begin with nothing; threads and locks of a parent process are of no use to its child."""
        self._process = os.getpid()
        self._condition = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._ending = False

    def _start(self) -> None:
        if not self._threads:
            atexit.unregister(self._end)
            atexit.register(self._end)
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._threads.add(thread)
        thread.start()

    def _work(self) -> None:
        while job := self._next():
            job()
            # The result would otherwise live for as long as this thread waits for another job.
            del job

    def _next(self) -> Callable[[], None] | None:
        """Wait for a job; with none for a while, or at the end of the process, the thread signs off."""
        with self._condition:
            self._idle += 1
            more = self._condition.wait_for(lambda: self._jobs or self._ending, _IDLE_SECONDS)
            self._idle -= 1
            if more and not self._ending:
                return self._jobs.popleft()
            self._threads.discard(threading.current_thread())
            return None

    def _end(self) -> None:
        if self._process != os.getpid():
            return
        with self._condition:
            self._ending = True
            self._condition.notify_all()
            threads = list(self._threads)
        deadline = time.monotonic() + _EXIT_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _portable(error: BaseException) -> Exception:
    """Return what can be raised in the caller as it stands, or else an error that says what it was.

    asyncio never delivers a StopIteration, and would take a cancellation inside the call for its own.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration | CancelledError):
        return error
    carried = RuntimeError(f"{type(error).__name__} {error}".rstrip())
    carried.__cause__ = error
    return carried
