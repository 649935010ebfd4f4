"""Rules for `os.fork`, in one place.

A forked child has every object of its parent, but only the thread that forked. A lock that another thread
held is never released there. Three rules follow:

- a child creates its own locks, queues and threads: `PerProcess`;
- what parent and child cannot share (a store, an event loop) raises an error in the child: `OwnerProcess`;
- no thread may fork while another is inside SQLite, whose own locks we cannot recreate: `fork_gate` for the
  threads of a pool, and for an event loop's own thread, where it must cost little, `new_fork_lock`.

On Windows, which does not fork, all of this does nothing.
"""

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """A value that a forked child creates again for itself.

    `with lock.value:` is safe in either process, even if the fork happens inside the block.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.value = make()
        _registered.add(self)

    def enter_child(self) -> None:
        """Create the value again; called in a forked child."""
        self.value = self._make()


class OwnerProcess:
    """Remembers which process created an object: `is_current` turns False in a forked child."""

    __slots__ = ("__weakref__", "is_current")

    def __init__(self) -> None:
        self.is_current = True  # a flag, because os.getpid() at every call costs more
        _registered.add(self)

    def enter_child(self) -> None:
        """Note that this process is a fork of the owner; called in a forked child."""
        self.is_current = False


class _ForkGate:
    """Makes `os.fork` wait until no thread is within a `with` block of the gate."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._entered = 0
        self._is_fork_waiting = False  # otherwise threads that come and go could keep it waiting forever

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


def new_fork_lock() -> AbstractContextManager[object]:
    """Return a lock that every fork takes first; who holds it may fork too."""
    lock = threading.RLock()
    _fork_locks.add(lock)
    return lock


def _take_fork_locks() -> None:
    _taken.extend(_fork_locks)
    for lock in _taken:
        lock.acquire()


def _release_fork_locks() -> None:
    while _taken:
        _taken.pop().release()


def call_in_child(function: Callable[[], None]) -> None:
    """Call a function in each child that this process forks, before anything else runs there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def _enter_child() -> None:
    for registered in [*_registered]:
        registered.enter_child()


_registered: weakref.WeakSet[PerProcess[Any] | OwnerProcess] = weakref.WeakSet()
call_in_child(_enter_child)

fork_gate = _ForkGate()
_fork_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_taken: list[Any] = []  # by the thread that is forking: the gate, which is closed first, lets only one fork
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_take_fork_locks, after_in_parent=_release_fork_locks, after_in_child=_release_fork_locks
    )
    os.register_at_fork(before=fork_gate.close, after_in_parent=fork_gate.open, after_in_child=fork_gate.open)
