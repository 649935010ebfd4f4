"""Fixtures that all tests share: an event loop, databases, and a store on each engine.

A database is made and migrated once in each process and emptied before each test. Tests that are about
making and migrating one take the fixtures that begin with `new`.
"""

import asyncio
import gc
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
from tests.support.databases import (
    fast_folder,
    join_server,
    postgres_database,
    remove_server,
    run_sql,
    table_cleaner,
)
from tests.support.profiles import IS_LONG

from recollect import Store, open_store

# A run in the background of a shell ignores Ctrl-C, and so would every program that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

ENGINES = ("memory", "file", pytest.param("postgres", marks=pytest.mark.postgres))
SERVER_FOLDER = pytest.StashKey[Path]()

TESTS = Path(__file__).parent
COVERED = ("guards", "memory", "pipeline")
"""The rooms whose own tests reach every branch of them; other tests do not count and are not slowed down."""

REPEATED = frozenset(
    f"guards/pii/test_{name}.py"
    for name in ("borders", "chunks", "differential", "kinds", "layouts", "number_tables")
)
"""Their tests that try one thing in thousands of ways: tracing doubles what they take, for no new branch."""


class Node(Protocol):
    """What pytest-xdist, which has no types, tells of a worker."""

    config: pytest.Config
    workerinput: dict[str, object]


def pytest_configure(config: pytest.Config) -> None:
    """Name the folder of the PostgreSQL server that all processes of a run share.

    The process that began the run removes it, so that no worker that dies leaves a server behind.
    """
    worker: dict[str, str] | None = getattr(config, "workerinput", None)
    if worker is not None:
        config.stash[SERVER_FOLDER] = Path(worker["server_folder"])
        return
    folder = Path(tempfile.mkdtemp(prefix="recollect-pg-"))
    config.stash[SERVER_FOLDER] = folder
    config.add_cleanup(lambda: remove_server(folder))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Node) -> None:
    """Tell a worker where the server is."""
    node.workerinput["server_folder"] = str(node.config.stash[SERVER_FOLDER])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, unless the profile is the long one; trace tests of covered rooms alone.

    Tests that compare costs are not traced either: tracing would be most of what they measure.
    """
    late = set[pytest.Item]() if IS_LONG else {item for item in items if item.get_closest_marker("long")}
    if late:
        config.hook.pytest_deselected(items=list(late))
        items[:] = [item for item in items if item not in late]
    for item in items:
        path = item.path.relative_to(TESTS) if item.path.is_relative_to(TESTS) else item.path
        is_covered = path.parts[0] in COVERED and path.as_posix() not in REPEATED
        if not is_covered or "_costs_" in item.name:
            item.add_marker("no_cover")


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of every later collection of garbage: it is there to stay."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def server_url(pytestconfig: pytest.Config) -> str:
    """A PostgreSQL server for the whole run, started when it is first needed."""
    return join_server(pytestconfig.stash[SERVER_FOLDER])


class MigratedDatabase(NamedTuple):
    """A PostgreSQL database with recollect's tables, and what empties them."""

    url: str
    clean: Callable[[], None]


@pytest.fixture(scope="session")
def _migrated_database(server_url: str, worker_id: str) -> Generator[MigratedDatabase]:
    with postgres_database(server_url, f"recollect_{worker_id}") as url:
        asyncio.run(_migrate(url))
        with table_cleaner(url) as clean:
            yield MigratedDatabase(url, clean)


@pytest.fixture
def postgres_url(_migrated_database: MigratedDatabase) -> str:
    """A PostgreSQL database with empty tables; numbers go on where the last test left them."""
    _migrated_database.clean()
    return _migrated_database.url


@pytest.fixture(scope="session")
def _new_database(server_url: str, worker_id: str) -> Generator[str]:
    with postgres_database(server_url, f"recollect_{worker_id}_new") as url:
        yield url


@pytest.fixture
def new_postgres_url(_new_database: str) -> str:
    """A PostgreSQL database where recollect has never been, for tests of the tables themselves."""
    run_sql(_new_database, "DROP SCHEMA IF EXISTS recollect CASCADE")
    return _new_database


@pytest.fixture(scope="session")
def _migrated_file() -> Generator[Path]:
    with fast_folder() as folder:
        path = folder / "migrated.db"
        asyncio.run(_migrate(f"sqlite:///{path}"))
        yield path


@pytest.fixture
def sqlite_url(_migrated_file: Path) -> Generator[str]:
    """A SQLite file with empty tables."""
    with fast_folder() as folder:
        path = shutil.copyfile(_migrated_file, folder / "store.db")
        yield f"sqlite:///{path}"


@pytest.fixture
def new_sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=ENGINES)
def store_url(request: pytest.FixtureRequest) -> str:
    """A database with empty tables on each engine in turn."""
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
    """Have callers wait long for a database: tests have crowds, and machines are busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recollect.storage.opening.BUSY_SECONDS", 60)
        yield


async def _migrate(url: str) -> None:
    async with open_store(url):
        pass


@pytest.fixture
def only_own_garbage() -> None:
    """Make `gc.collect()` cost next to nothing, for tests that forget things many times."""
    gc.collect()
    gc.freeze()
