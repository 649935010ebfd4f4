"""One way to call the functions for users, whether they are the async methods or the sync functions."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import pytest

from recollect import Store, open_store, users
from recollect.scope import TenantId
from recollect.users import Users

P = ParamSpec("P")
R = TypeVar("R")

POSTGRES = pytest.mark.postgres
WAYS = (
    pytest.param(("async", None), id="async-memory"),
    pytest.param(("async", "sqlite_url"), id="async-file"),
    pytest.param(("async", "postgres_url"), id="async-postgres", marks=POSTGRES),
    pytest.param(("sync", "sqlite_url"), id="sync-file"),
    pytest.param(("sync", "postgres_url"), id="sync-postgres", marks=POSTGRES),
)
"""Parameters of a fixture that yields `connected_calls`: async or sync, and the fixture of the URL."""


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
def connected_calls(request: pytest.FixtureRequest) -> Generator[Call]:
    """Call the functions in the way that a fixture's parameter names, on an empty database."""
    way, url_fixture = request.param
    url = "sqlite://" if url_fixture is None else request.getfixturevalue(url_fixture)
    with (async_calls if way == "async" else sync_calls)(url) as calls:
        yield calls


def add_messages(call: Call, *texts: str, user_id: str = "user123", tenant_id: TenantId = 1) -> list[int]:
    """Add messages of user and assistant in turn, and return their ids."""
    return [
        call(Users.add_message, user_id, "assistant" if index % 2 else "user", text, tenant_id=tenant_id)
        for index, text in enumerate(texts)
    ]


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
