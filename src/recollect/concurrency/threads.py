"""A pool of daemon threads, for calls that would block the event loop.

`ThreadPoolExecutor` does not fit. A call that never returns would keep the process alive, and an executor
takes no work once the interpreter shuts down, which is when stores are closed. A pool belongs to no event
loop. Its threads start with its first calls and end with the pool; a forked child starts its own.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import queue
import threading
import time
import weakref
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from recollect.concurrency.fork import PerProcess, fork_gate
from recollect.message_size import QUICK_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["QUICK_CHARACTERS", "ThreadPool", "ThreadStartError", "call_in_loop", "run_by_size"]

T = TypeVar("T")
S = TypeVar("S")

_PAGE_CHARACTERS = 100_000
_Tasks: TypeAlias = "queue.SimpleQueue[Callable[[], None] | None]"

# Ending the interpreter while a thread runs native code can abort the process. So at exit calls that are
# nearly done may finish, and a call that hangs is abandoned.
_EXIT_SECONDS = 3.0


class ThreadStartError(RuntimeError):
    """The system gave no thread, usually because of a limit on processes; the call was not queued."""


class ThreadPool:
    """Runs calls in at most `size` threads, first in, first out.

    With `blocks_fork` the process cannot fork while a call runs; such a call must neither hang nor fork.
    """

    def __init__(self, size: int, name: str, *, blocks_fork: bool = False) -> None:
        self._size = size
        self._name = name
        self._blocks_fork = blocks_fork
        self._workers = PerProcess(_Workers)
        # The threads hold no reference to the pool, so they also end with a pool that nobody closed.
        weakref.finalize(self, _end_workers, self._workers).atexit = False

    def post(self, task: Callable[[], None]) -> None:
        """Queue a task and return at once; the task must not raise."""
        workers = self._workers.value
        if workers.started < self._size:
            self._start_thread(workers)
        workers.tasks.put(task)

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns; if it is cancelled before a thread has started it, it never runs."""
        return await self._submit(call)

    async def map(self, call: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Return what the call returns for each item; after a failure, drop the items not yet started."""
        futures = [self._submit(lambda item=item: call(item)) for item in items]
        try:
            return await asyncio.gather(*futures)
        finally:
            for future in futures:
                future.cancel()

    async def close(self) -> None:
        """Finish the posted tasks and end the threads."""
        workers = self._workers.value
        if workers.started or workers.threads:
            await self.run(_do_nothing)  # so that `join` below hardly blocks the event loop
            self._workers.value = _Workers()
            workers.end()
            for thread in workers.threads:
                thread.join()

    def _submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def task() -> None:
            if future.cancelled():
                return
            try:
                value = context.run(call)
            except BaseException as error:  # noqa: BLE001 - the caller gets it, not this thread
                call_in_loop(loop, _fail, future, _make_raisable(error))
            else:
                call_in_loop(loop, _succeed, future, value)

        self.post(task)
        return future

    def _start_thread(self, workers: _Workers) -> None:
        gate = fork_gate if self._blocks_fork else nullcontext()
        with workers.lock:
            if workers.started == self._size:
                return
            serve = partial(workers.serve, self._size, gate)
            try:
                threading.Thread(target=serve, name=self._name, daemon=True).start()
            except RuntimeError as error:
                raise ThreadStartError(f"{self._name}: {error}") from error
            # A signal handler that raises just before this line has the next task start one thread too many.
            workers.started += 1


class _Workers:
    """The threads of a pool in one process, and their queue."""

    def __init__(self) -> None:
        self.tasks: _Tasks = queue.SimpleQueue()
        self.started = 0
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()

    def serve(self, size: int, gate: AbstractContextManager[None]) -> None:
        """Run tasks in this thread until the pool ends; return at once if there are enough threads."""
        thread = threading.current_thread()
        with self.lock:
            if len(self.threads) == size:
                return
            self.threads.append(thread)
            _serving.value[thread] = self.tasks
        while (task := self.tasks.get()) is not None:
            with gate:
                task()
            del task  # it may hold the pool or a large result
        self.end()  # the other threads too
        _serving.value.pop(thread, None)

    def end(self) -> None:
        """Make the threads end once the tasks are done; takes no lock, because a finalizer calls it."""
        self.tasks.put(None)


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> None:
    """Make an event loop call a function, from any thread; does nothing if the loop is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)


def _end_workers(workers: PerProcess[_Workers]) -> None:
    workers.value.end()


_serving: PerProcess[dict[threading.Thread, _Tasks]] = PerProcess(dict)


def _end_all() -> None:
    """At exit, drop the tasks that have not started, and wait a little for those that have.

    Portals end before this, because `portal` is imported later: their stores still need threads.
    """
    serving = [*_serving.value.copy().items()]
    for _, tasks in serving:
        _drop_all(tasks)
    for _, tasks in serving:
        tasks.put(None)
    deadline = time.monotonic() + _EXIT_SECONDS
    for thread, _ in serving:
        thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(_end_all)


def _drop_all(tasks: _Tasks) -> None:
    with suppress(queue.Empty):
        while True:
            tasks.get_nowait()


def _do_nothing() -> None: ...


def _succeed(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _make_raisable(error: BaseException) -> Exception:
    """Return the error, or a `RuntimeError` that names it if a future cannot carry it.

    asyncio treats a `CancelledError` from the call as its own, and a future cannot raise `StopIteration`.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    carried = RuntimeError(f"{type(error).__name__} {error}".rstrip())
    carried.__cause__ = error
    return carried


# One thread each: only one at a time runs Python, so each more makes the event loop wait longer for its turn.
# A page of text does not wait for a book.
_page_worker = ThreadPool(1, "recollect-texts")
_book_worker = ThreadPool(1, "recollect-long-texts")


async def run_by_size(characters: int, call: Callable[[], T]) -> T:
    """Return what a call returns that works on so many characters of text: made here, or in a thread."""
    if characters <= QUICK_CHARACTERS:
        return call()
    worker = _page_worker if characters <= _PAGE_CHARACTERS else _book_worker
    return await worker.run(call)
