"""Calling async code from sync code: one thread with an event loop of its own."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from recollect.errors import RecollectError, StoreMisuseError

T = TypeVar("T")


class Portal:
    """Runs coroutines for callers in any thread of the process that made it."""

    def __init__(self, owner: str = "connection", *, advice: str = "call connect() again") -> None:
        """Start the thread, for an owner that errors can name, with what to do when it is closed."""
        self._owner = owner
        self._advice = advice
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recollect-portal", daemon=True)
        self._thread.start()

    @property
    def is_usable(self) -> bool:
        """Whether it is open and belongs to this process."""
        return self._process == os.getpid() and not self._is_closed

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its value; an interrupted caller cancels it."""
        future = self.start(coroutine)
        try:
            return future.result()
        except CancelledError:
            if self._is_closed:
                raise StoreMisuseError(f"the {self._owner} was closed while the call was under way") from None
            raise RecollectError("the call gave up something that it was waiting for") from None
        finally:
            future.cancel()  # does nothing where it is done

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin a coroutine and return what will be its value."""
        try:
            self._check_process()  # first: in a forked child nobody would ever release the lock
            with self._lock:
                self._check_caller()
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except StoreMisuseError:
            coroutine.close()
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the thread, some time soon; a thread that has ended needs no calls."""
        with self._lock:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(function)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Run what comes last, give up the calls that are under way, and end the thread."""
        if self._process != os.getpid():
            return
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        asyncio.run_coroutine_threadsafe(_end(last), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        with self._lock:
            self._loop.close()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise StoreMisuseError(
                f"this {self._owner} was opened before the process forked; {self._advice} in the child "
                "(a SQLite file only if it was not open while forking)"
            )

    def _check_caller(self) -> None:
        if self._is_closed:
            raise StoreMisuseError(f"this {self._owner} is closed; {self._advice}")
        if threading.current_thread() is self._thread:
            raise StoreMisuseError(
                "a sync function was called inside its own event loop; await the async one"
            )


async def _end(last: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
    if last is not None:
        await last()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
