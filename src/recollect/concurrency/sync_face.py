"""The sync side of async classes: their property `sync`.

A `SyncFace` has the methods of the async class, with the same names and signatures. They are written down
once, as in

    class SyncUsers(ClosingFace[Users]):
        count_messages = sync_method(Users.count_messages)

and `users.sync.count_messages("ada", tenant_id=1)` is known to type checkers.
"""

import functools
import inspect
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from recollect.concurrency.fork import PerProcess
from recollect.concurrency.portal import Portal

T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., object])


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


def as_twin(function: F, method: Callable[..., object]) -> F:
    """Give a function the name, the docstring and the parameters of the method that it stands for."""
    functools.update_wrapper(function, method)
    # What the async one returns is not what this one returns.
    signature = inspect.signature(method).replace(return_annotation=inspect.Signature.empty)
    setattr(function, "__signature__", signature)  # noqa: B010 - unknown to the type
    return function
