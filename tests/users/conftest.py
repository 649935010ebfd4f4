"""Document C's functions on every engine, async and sync."""

from collections.abc import Generator

import pytest
from tests.users.calls import Call, async_calls, sync_calls

POSTGRES = pytest.mark.postgres
WAYS = (
    pytest.param(("async", None), id="async-memory"),
    pytest.param(("async", "sqlite_url"), id="async-file"),
    pytest.param(("async", "postgres_url"), id="async-postgres", marks=POSTGRES),
    pytest.param(("sync", "sqlite_url"), id="sync-file"),
    pytest.param(("sync", "postgres_url"), id="sync-postgres", marks=POSTGRES),
)


@pytest.fixture(params=WAYS)
def call(request: pytest.FixtureRequest) -> Generator[Call]:
    """The functions of document C on an empty database."""
    way, url_fixture = request.param
    url = "sqlite://" if url_fixture is None else request.getfixturevalue(url_fixture)
    with (async_calls if way == "async" else sync_calls)(url) as calls:
        yield calls


@pytest.fixture(params=["sqlite_url", pytest.param("postgres_url", marks=POSTGRES)])
def shared_url(request: pytest.FixtureRequest) -> str:
    """An empty database that several connections can share."""
    return request.getfixturevalue(request.param)
