"""Fixtures that all tests share: an event loop, databases, and a store on each engine."""

import signal
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from hypothesis import settings

from recollect import Store, open_store
from recollect.testing.databases import postgres_database, postgres_server, run_sql

# How long an example takes says more about the machine than about the code.
settings.register_profile("recollect", deadline=None)
settings.load_profile("recollect")

# A run in the background of a shell ignores Ctrl-C, and so would every program that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

ENGINES = ("memory", "file", pytest.param("postgres", marks=pytest.mark.postgres))


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def server_url() -> Generator[str]:
    """A PostgreSQL server for the whole run."""
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def _shared_database(server_url: str, worker_id: str) -> Generator[str]:
    """One database for the tests of a process, which `postgres_url` empties before each."""
    with postgres_database(server_url, f"recollect_{worker_id}") as url:
        yield url


@pytest.fixture
def postgres_url(_shared_database: str) -> str:
    """An empty PostgreSQL database: recollect has never been there."""
    run_sql(_shared_database, "DROP SCHEMA IF EXISTS recollect CASCADE")
    return _shared_database


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=ENGINES)
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty database on each engine in turn."""
    names = {"memory": None, "file": "sqlite_url", "postgres": "postgres_url"}
    fixture = names[request.param]
    return "sqlite://" if fixture is None else request.getfixturevalue(fixture)


@pytest.fixture
async def store(store_url: str) -> AsyncGenerator[Store]:
    """An empty store on each engine in turn."""
    async with open_store(store_url) as opened:
        yield opened


@pytest.fixture(scope="session", autouse=True)
def _patient_pools() -> Generator[None]:
    """Have callers wait long for a PostgreSQL connection: tests have crowds, and machines are busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recollect.storage.postgres.connection.CONNECT_SECONDS", 60)
        yield
