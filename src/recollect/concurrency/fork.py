"""What a fork means for us, in one place.

A forked child has every object of its parent, but only the thread that forked, and a lock that another
thread held is never released there. Three rules follow:

- locks, queues and threads are made again in the child: `PerProcess`;
- what parent and child cannot share (a store, an event loop) raises an error in the child: `Origin`;
- nobody forks while a thread is inside SQLite, whose own locks we cannot make again: `fork_gate`.

On Windows, which does not fork, all of this does nothing.
"""

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """A value that a forked child makes again for itself.

    `with lock.value:` is right in either process, also where the fork happens within the block.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.value = make()
        _known.add(self)

    def enter_child(self) -> None:
        """Make the value again."""
        self.value = self._make()


class Origin:
    """The process in which something was made."""

    __slots__ = ("__weakref__", "is_here")

    def __init__(self) -> None:
        self.is_here = True  # a flag, because asking for the process id each time costs more
        _known.add(self)

    def enter_child(self) -> None:
        """Remember that this process is another."""
        self.is_here = False


class _ForkGate:
    """Makes `os.fork` wait until no thread is within a `with` block of the gate."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._entered = 0
        self._is_fork_waiting = False  # else threads that come and go could keep it waiting for ever

    def __enter__(self) -> None:
        with self._condition:
            while self._is_fork_waiting:
                self._condition.wait()
            self._entered += 1

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._entered -= 1
            if self._is_fork_waiting:
                self._condition.notify_all()

    def close(self) -> None:
        self._condition.acquire()
        while self._entered:
            self._is_fork_waiting = True
            self._condition.wait()

    def open(self) -> None:
        self._is_fork_waiting = False
        self._condition.notify_all()
        self._condition.release()


def call_in_child(function: Callable[[], None]) -> None:
    """Call a function in each child that this process forks, before anything else runs there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def _enter_child() -> None:
    for one in [*_known]:
        one.enter_child()


_known: weakref.WeakSet[PerProcess[Any] | Origin] = weakref.WeakSet()
call_in_child(_enter_child)

fork_gate = _ForkGate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=fork_gate.close, after_in_parent=fork_gate.open, after_in_child=fork_gate.open)
