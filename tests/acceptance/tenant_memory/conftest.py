"""The functions of document C on every engine, async and sync."""

from collections.abc import Generator

import pytest
from tests.users.calls import WAYS, Call, connected_calls


@pytest.fixture(params=WAYS)
def call(request: pytest.FixtureRequest) -> Generator[Call]:
    """The functions on an empty database, in each way in turn."""
    with connected_calls(request) as calls:
        yield calls


@pytest.fixture(params=["sqlite_url", pytest.param("postgres_url", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> str:
    """An empty database that outlives a connection."""
    return request.getfixturevalue(request.param)
