"""One way to call document C's functions, whether they are the async methods or the sync functions."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from recollect import Store, open_store, users
from recollect.users import Users

P = ParamSpec("P")
R = TypeVar("R")


class Call(Protocol):
    """Calls the function that a method of `Users` stands for."""

    def __call__(
        self,
        method: Callable[Concatenate[Users, P], Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Call it and return its value."""
        ...


@contextmanager
def async_calls(url: str) -> Generator[Call]:
    """Call the async methods, on a store of their own."""
    with asyncio.Runner() as runner:
        store = runner.run(_opened(url))

        def call(
            method: Callable[Concatenate[Users, P], Coroutine[Any, Any, R]],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> R:
            return runner.run(method(Users(store), *args, **kwargs))

        try:
            yield call
        finally:
            runner.run(store.close())


@contextmanager
def sync_calls(url: str) -> Generator[Call]:
    """Call the sync functions of the same names."""

    def call(
        method: Callable[Concatenate[Users, P], Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        return getattr(users, method.__name__)(*args, **kwargs)

    with users.connect(url):
        yield call


async def _opened(url: str) -> Store:
    return await open_store(url)
