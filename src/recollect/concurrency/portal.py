"""Calling async code from sync code: one thread with an event loop of its own.

The thread ends with the owner of the portal, at the latest at exit, before the interpreter shuts down. A
thread that were killed in the middle would leave files and connections half closed.
"""

import asyncio
import atexit
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeAlias, TypeVar

from recollect.concurrency.fork import OwnerProcess
from recollect.concurrency.threads import call_in_loop
from recollect.errors import RecollectError, StoreMisuseError

T = TypeVar("T")

_MAX_EXIT_SECONDS = 10.0  # how long the exit of the program waits for threads that hang
_MAX_FINISH_SECONDS = 60.0  # how long work may continue after its owner is gone

CloseHook: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Runs in the event loop before it ends."""


class _LoopThread:
    """A portal's thread and event loop; it holds no reference to the portal, so that both end together."""

    def __init__(self) -> None:
        self.process = OwnerProcess()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._serve, name="recollect-portal", daemon=True)
        self._is_ending = False
        self._must_stop = asyncio.Event()
        self.close_hook: CloseHook | None = None
        self._error: BaseException | None = None
        self.thread.start()
        _running_threads.add(self)

    def end(self) -> None:
        """Make it run the close hook, cancel the running tasks, and end; `join` waits for that."""
        self.call(self._must_stop.set)
        self.call(self._stop)

    def leave(self) -> None:
        """Make it finish the running tasks and end; a finalizer calls this, so it waits for nothing."""
        if self.process.is_current:
            self.call(self._stop)

    def join(self) -> None:
        """Wait for its end, and raise the error that ended it."""
        self.thread.join()
        if self._error is not None:
            raise self._error

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the thread soon."""
        call_in_loop(self.loop, function)

    def _stop(self) -> None:
        if not self._is_ending:  # a second stop would interrupt `_end` itself
            self._is_ending = True
            self.loop.stop()

    def _serve(self) -> None:
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self._end())
        except BaseException as error:  # noqa: BLE001 - `join` raises it
            self._error = error
        finally:
            self.loop.close()
            _running_threads.discard(self)

    async def _end(self) -> None:
        try:
            if self.close_hook is not None:
                await self.close_hook()
        finally:
            await self._finish()
            await self.loop.shutdown_asyncgens()
            await self._finish()  # closing generators may have started tasks

    async def _finish(self) -> None:
        """Wait until no task runs any more, or cancel the tasks once they must stop."""
        self.loop.call_later(_MAX_FINISH_SECONDS, self._must_stop.set)  # some tasks never end by themselves
        must_stop = asyncio.create_task(self._must_stop.wait())
        while others := await _list_tasks() - {asyncio.current_task(), must_stop}:
            if not must_stop.done():
                await asyncio.wait({must_stop, *others}, return_when=asyncio.FIRST_COMPLETED)
                continue
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        must_stop.cancel()


async def _list_tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks of this loop, also those that were only just scheduled."""
    await asyncio.sleep(0)
    return asyncio.all_tasks()


_running_threads: set[_LoopThread] = set()


def _end_all() -> None:
    """At exit, end the threads that still run."""
    deadline = time.monotonic() + _MAX_EXIT_SECONDS
    own = [thread for thread in [*_running_threads] if thread.process.is_current]
    for thread in own:
        thread.end()
    for thread in own:
        thread.thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(_end_all)


class _Interrupted(Exception):  # noqa: N818 - carries what is no error
    def __init__(self, interrupt: BaseException) -> None:
        super().__init__(interrupt)
        self.interrupt = interrupt


async def _carry_interrupt(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; an interrupt or an exit is the caller's, and must not end the event loop of others."""
    try:
        return await coroutine
    except (KeyboardInterrupt, SystemExit) as interrupt:
        raise _Interrupted(interrupt) from None


class Portal:
    """Runs coroutines for callers in any thread of the process that made it."""

    def __init__(self, owner: str = "connection", *, advice: str = "call connect() again") -> None:
        """Start the thread; errors name the owner, and `advice` says what to do when it is closed."""
        self._owner = owner
        self._advice = advice
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = _LoopThread()
        weakref.finalize(self, self._thread.leave).atexit = False

    @property
    def is_current(self) -> bool:
        """Whether the caller is in the portal's own thread, where waiting for it would never end."""
        return threading.current_thread() is self._thread.thread

    @property
    def is_usable(self) -> bool:
        """Whether the portal is open and belongs to this process."""
        return self._thread.process.is_current and not self._has_ended

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its value; if the caller is interrupted, the coroutine is cancelled."""
        future = self.start(coroutine)
        try:
            return future.result()
        except _Interrupted as interrupted:
            raise interrupted.interrupt from None
        except CancelledError:
            if self._has_ended:
                raise StoreMisuseError(f"the {self._owner} was closed while the call was running") from None
            raise RecollectError("the call was cancelled from inside: a task that it awaited was") from None
        finally:
            future.cancel()  # does nothing if it is done

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine and return a future of its value."""
        try:
            self._check_process()  # first: in a forked child the lock may never be released
            with self._lock:
                self._check_caller()
                return asyncio.run_coroutine_threadsafe(_carry_interrupt(coroutine), self._thread.loop)
        except StoreMisuseError:
            coroutine.close()
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the thread soon; does nothing if the thread has ended."""
        self._thread.call(function)

    def set_close_hook(self, hook: CloseHook) -> None:
        """Run a hook before the thread ends, however it ends; the hook must not refer to this portal."""
        self._thread.close_hook = hook

    def close(self) -> None:
        """Run the close hook, cancel the running calls, and end the thread."""
        if not self._thread.process.is_current:
            return
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._thread.end()
        self._thread.join()

    @property
    def _has_ended(self) -> bool:
        return self._is_closed or self._thread.loop.is_closed()

    def _check_process(self) -> None:
        if not self._thread.process.is_current:
            raise StoreMisuseError(
                f"this {self._owner} was opened before the process forked; {self._advice} in the child "
                "(a SQLite file only if it was not open while forking)"
            )

    def _check_caller(self) -> None:
        if self._has_ended:
            raise StoreMisuseError(f"this {self._owner} is closed; {self._advice}")
        if self.is_current:
            raise StoreMisuseError(
                "a sync function was called inside its own event loop; await the async one"
            )
