"""What the fault tests share: a PostgreSQL server that may be killed.

Tests that use it carry the mark `xdist_group("own_server")`, so that one process has it to itself.
"""

from collections.abc import Generator

import pytest
from tests.faults.servers import OwnServer, running_server
from tests.support.databases import postgres_database


@pytest.fixture
def impatient_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have callers give up soon, for tests in which there is no server."""
    monkeypatch.setattr("recollect.storage.opening.BUSY_SECONDS", 2)


@pytest.fixture(scope="session")
def own_server() -> Generator[OwnServer]:
    """A durable server that tests may stop, kill and start again."""
    with running_server() as server:
        yield server


@pytest.fixture
def own_url(own_server: OwnServer) -> Generator[str]:
    """An empty database on the server that may be killed."""
    with postgres_database(own_server.url, "faults") as url:
        yield url
