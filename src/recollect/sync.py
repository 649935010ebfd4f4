"""Calling async code from sync code: one thread with an event loop of its own."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from recollect.errors import StoreMisuseError

T = TypeVar("T")


class Portal:
    """Runs coroutines for callers in any thread of the process that made it."""

    def __init__(self) -> None:
        """Start the thread."""
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
            raise StoreMisuseError("the connection was closed while the call was under way") from None
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
        """Call a function in the thread, some time soon."""
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
        self._loop.close()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise StoreMisuseError(
                "this connection was opened before the process forked; call connect() again in the child "
                "(a SQLite file only if it was not open while forking)"
            )

    def _check_caller(self) -> None:
        if self._is_closed:
            raise StoreMisuseError("this connection is closed; call connect() again")
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
