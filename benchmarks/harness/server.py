"""A PostgreSQL server for a benchmark: a given one, or one started for the run.

A superuser is exempt from row-level security. So everything runs in databases of a role without privileges,
which is created for the run and dropped after it.
"""

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import LiteralString, cast
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from tests.support.databases import postgres_database, postgres_server, run_sql

from recollect.storage.postgres.connection import describe_url
from recollect.storage.postgres.faults import translate_error


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and the role that owns the databases of the benchmark."""

    url: str
    role: str

    @contextmanager
    def database(self, name: str) -> Generator[str]:
        """Provide the URL of an empty database that belongs to the role."""
        with postgres_database(self.url, f"{self.role}_{name}") as url:
            owner = f'ALTER DATABASE "{self.role}_{name}" OWNER TO "{self.role}"'
            run_sql(self.url, cast("LiteralString", owner))
            yield _as_role(url, self.role)

    def settle(self) -> None:
        """Write a checkpoint, so that the server does not do it during a measurement."""
        run_sql(self.url, "CHECKPOINT")

    @property
    def version(self) -> str:
        """The server's own version."""
        return str(run_sql(self.url, "SHOW server_version")[0][0])


@contextmanager
def benchmark_server(url: str | None) -> Generator[Server]:
    """Provide a durable server with a role for the benchmark."""
    if url is None:
        with postgres_server(durable=True) as own, _role_on(own) as server:
            yield server
    else:
        with _role_on(url) as server:
            yield server


def check_server(url: str) -> None:
    """Raise a clear error if a server cannot be reached or a role cannot be created there."""
    with _role_on(url):
        pass


@contextmanager
def _role_on(url: str) -> Generator[Server]:
    role = f"recollect_bench_{secrets.token_hex(4)}"
    _create_role(url, role)
    try:
        yield Server(url, role)
    finally:
        run_sql(url, cast("LiteralString", f'DROP ROLE "{role}"'))


def _create_role(url: str, role: str) -> None:
    place = describe_url(url)
    try:
        run_sql(url, cast("LiteralString", f'CREATE ROLE "{role}"'))
    except psycopg.Error as error:
        raise translate_error(error, place) from error


def _as_role(url: str, role: str) -> str:
    parts = urlsplit(url)
    option = f"options={quote(f'-c role={role}')}"
    return urlunsplit(parts._replace(query=f"{parts.query}&{option}" if parts.query else option))
