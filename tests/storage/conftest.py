"""The database of the property tests on PostgreSQL."""

from collections.abc import Generator

import pytest
from tests.support.databases import postgres_database


@pytest.fixture(scope="session")
def examples_url(server_url: str, worker_id: str) -> Generator[str]:
    """A PostgreSQL database for all examples of a process, which take users of their own."""
    with postgres_database(server_url, f"recollect_{worker_id}_examples") as url:
        yield url
