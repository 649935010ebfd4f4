"""Calling async code from sync code: one thread with an event loop of its own.

The thread ends with the owner of the portal, at the latest at exit, before the interpreter shuts down. A
thread that were killed in the middle would leave files and connections half closed.

Every async class that has a sync side has it in the same way: its property `sync` is a `SyncFace`, whose
methods have the names and signatures of the async ones. They are written down once, as in

    class SyncUsers(ClosingFace[Users]):
        count_messages = sync_method(Users.count_messages)

and `users.sync.count_messages("ada", tenant_id=1)` is known to type checkers.
"""

import asyncio
import atexit
import functools
import inspect
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar

from recollect.concurrency.fork import OwnerProcess, PerProcess
from recollect.concurrency.threads import call_in_loop
from recollect.errors import RecollectError, StoreMisuseError

T = TypeVar("T")
P = ParamSpec("P")

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
    def is_usable(self) -> bool:
        """Whether the portal is open and belongs to this process."""
        return self._thread.process.is_current and not self._has_ended

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its value; if the caller is interrupted, the coroutine is cancelled."""
        future = self.start(coroutine)
        try:
            return future.result()
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
                return asyncio.run_coroutine_threadsafe(coroutine, self._thread.loop)
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
        if threading.current_thread() is self._thread.thread:
            raise StoreMisuseError(
                "a sync function was called inside its own event loop; await the async one"
            )


class PortalHolder:
    """Has the portal that the sync calls of an object share; it starts with the first of them.

    Two event loops would not share what is kept in memory, so an agent and its memory have one holder.
    """

    def __init__(self, owner: str, *, advice: str = "call it again", renews: bool = True) -> None:
        """Take whom errors name, what to do when it is closed, and whether a later call starts another."""
        self._owner = owner
        self._advice = advice
        self._renews = renews
        self._portal: Portal | None = None
        self._entered = 0
        self._lock = PerProcess(threading.Lock)

    @property
    def is_open(self) -> bool:
        """Whether there is a portal that can be used in this process."""
        return self._portal is not None and self._portal.is_usable

    def get(self) -> Portal:
        """Return the portal."""
        with self._lock.value:
            if self._portal is None or (self._renews and not self._portal.is_usable):
                self._portal = Portal(self._owner, advice=self._advice)
            return self._portal

    def enter(self) -> None:
        """Keep the portal open until as many have left it."""
        with self._lock.value:
            self._entered += 1

    def leave(self) -> None:
        """Close the portal if nobody else has entered it."""
        with self._lock.value:
            self._entered -= 1
        self.close()

    def close(self) -> None:
        """Close the portal, unless somebody has entered it."""
        if self._entered == 0 and self._portal is not None:
            self._portal.close()


S = TypeVar("S")


class SyncFace(Generic[S]):
    """The sync side of an async object: its methods, run to their end in the thread of a portal."""

    def __init__(self, subject: S, portals: PortalHolder) -> None:
        """Stand for an object, in the thread of its portal."""
        self._subject = subject
        self._portals = portals

    def call(
        self,
        method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run an async method, or any async function of the object, and return its value."""
        return self._portals.get().run(method(self._subject, *args, **kwargs))


class Closing(Protocol):
    """An async object that can be closed, and entered with `async with`."""

    async def close(self) -> None:
        """Close it."""
        ...

    async def __aenter__(self) -> Any: ...  # noqa: ANN401 - itself
    async def __aexit__(self, *_: object) -> None: ...


C = TypeVar("C", bound=Closing)


class ClosingFace(SyncFace[C]):
    """The sync side of an object that is entered with `async with`: enter it with `with`."""

    def close(self) -> None:
        """Close the object, and end the thread unless somebody else has entered it."""
        if self._portals.is_open:
            self.call(lambda subject: subject.close())
        self._portals.close()

    def __enter__(self) -> Self:
        self._portals.enter()
        try:
            self.call(lambda subject: subject.__aenter__())
        except BaseException:
            self._portals.leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._portals.is_open:
                self.call(lambda subject: subject.__aexit__(None, None, None))
        finally:
            self._portals.leave()


def sync_method(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncFace[S], P], T]:
    """Return the method of a `SyncFace` that does the same as an async one."""

    def call(face: SyncFace[S], *args: P.args, **kwargs: P.kwargs) -> T:
        return face.call(method, *args, **kwargs)

    return as_twin(call, method)


F = TypeVar("F", bound=Callable[..., object])


def as_twin(function: F, method: Callable[..., object]) -> F:
    """Give a function the name, the docstring and the parameters of the method that it stands for."""
    functools.update_wrapper(function, method)
    # What the async one returns is not what this one returns.
    signature = inspect.signature(method).replace(return_annotation=inspect.Signature.empty)
    setattr(function, "__signature__", signature)  # noqa: B010 - unknown to the type
    return function
