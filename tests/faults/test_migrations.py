"""Schemas: a fresh one equals a migrated one, a newer one is left alone, a failed step leaves nothing."""

import hashlib
from pathlib import Path
from typing import LiteralString, cast

import pytest
from tests.faults.schemas import (
    fill_postgres,
    fill_sqlite,
    names_in,
    open_sqlite,
    postgres_schema,
    rows_of_postgres,
    rows_of_sqlite,
    sqlite_names,
    sqlite_schema,
)
from tests.support.databases import run_sql

from recollect import StorageError, open_store
from recollect.errors import NewerDatabaseError, StorageCorruptError
from recollect.storage.postgres import connection as postgres
from recollect.storage.sql import load_migrations, load_statements
from recollect.storage.sqlite import connection as sqlite

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

IN_THE_WAY = {
    "table": "CREATE TABLE {name} (in_the_way TEXT)",
    "index": "CREATE TABLE {name} (in_the_way TEXT)",
    "trigger": "CREATE TABLE in_the_way (at TEXT); "
    "CREATE TRIGGER {name} AFTER DELETE ON in_the_way BEGIN SELECT 1; END",
}
"""What keeps a step from making something of a name, by the kind of that."""

VERSIONS = [migration.number for migration in load_migrations("sqlite")]


@pytest.mark.parametrize("version", VERSIONS)
def test_file_equals_a_fresh_one_when_migrated_from_any_version(tmp_path: Path, version: int) -> None:
    """The schema is the same whenever the file was made, and the rows of then are still there."""
    sqlite.prepare(str(tmp_path / "fresh.db")).close()
    old = sqlite.prepare(str(tmp_path / "old.db"), up_to=version)
    assert len(sqlite_schema(old)["migrations"]) == version
    rows = fill_sqlite(old)
    assert rows
    old.close()
    migrated = sqlite.prepare(str(tmp_path / "old.db"))
    fresh = open_sqlite(tmp_path / "fresh.db")
    assert sqlite_schema(migrated) == sqlite_schema(fresh)
    for table, (columns, values) in rows.items():
        assert rows_of_sqlite(migrated, table, columns) == values
    fresh.close()
    migrated.close()


@pytest.mark.postgres
@pytest.mark.parametrize("version", VERSIONS)
async def test_database_equals_a_fresh_one_when_migrated_from_any_version(
    new_postgres_url: str, version: int
) -> None:
    """Tables, indexes, constraints, policies and rows are the same whenever the database was made."""
    await postgres.prepare(new_postgres_url)
    fresh = postgres_schema(new_postgres_url)
    run_sql(new_postgres_url, "DROP SCHEMA recollect CASCADE")
    await postgres.prepare(new_postgres_url, up_to=version)
    assert len(postgres_schema(new_postgres_url)["migrations"]) == version
    rows = fill_postgres(new_postgres_url)
    assert rows
    await postgres.prepare(new_postgres_url)
    assert postgres_schema(new_postgres_url) == fresh
    for table, (columns, values) in rows.items():
        assert rows_of_postgres(new_postgres_url, table, columns) == values


async def test_file_is_left_alone_when_it_is_of_a_newer_version(tmp_path: Path) -> None:
    """The error says which version is needed, and not one byte of the file changes."""
    path = tmp_path / "store.db"
    connection = sqlite.prepare(str(path))
    connection.execute("INSERT INTO recollect_migrations VALUES (9999, '9999_from_the_future', 0)")
    connection.close()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(NewerDatabaseError, match=r"9999_from_the_future.*install a newer recollect"):
        await open_store(f"sqlite:///{path}")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert names_in(tmp_path) == ["store.db"]


@pytest.mark.postgres
async def test_database_is_left_alone_when_it_is_of_a_newer_version(new_postgres_url: str) -> None:
    """The error says which version is needed, and the schema stays as it is."""
    await postgres.prepare(new_postgres_url)
    run_sql(new_postgres_url, "INSERT INTO recollect.migrations VALUES (9999, '9999_from_the_future', 0)")
    before = postgres_schema(new_postgres_url)
    with pytest.raises(NewerDatabaseError, match=r"9999_from_the_future.*install a newer recollect"):
        await open_store(new_postgres_url)
    assert postgres_schema(new_postgres_url) == before


async def test_opening_fails_when_the_history_of_migrations_is_another(
    new_sqlite_url: str, tmp_path: Path
) -> None:
    """A database whose steps have other names is not guessed about."""
    connection = sqlite.prepare(str(tmp_path / "store.db"))
    connection.execute("UPDATE recollect_migrations SET name = '0001_something_else' WHERE number = 1")
    connection.close()
    with pytest.raises(StorageCorruptError, match="0001_something_else"):
        await open_store(new_sqlite_url)


@pytest.mark.parametrize("version", VERSIONS)
async def test_file_stays_as_it_was_when_a_migration_fails(tmp_path: Path, version: int) -> None:
    """A step that fails at its last statement takes the earlier ones back, and can be tried again."""
    path = tmp_path / "store.db"
    kind, name = _last_of_step(tmp_path, version)
    connection = sqlite.prepare(str(path), up_to=version - 1)
    connection.execute(load_statements("sqlite")["create_migrations"])
    connection.execute(IN_THE_WAY[kind].format(name=name))
    before = sqlite_schema(connection)
    connection.close()
    with pytest.raises(StorageError, match=name):
        await open_store(f"sqlite:///{path}")
    after = open_sqlite(path)
    assert sqlite_schema(after) == before
    after.execute(f"DROP TABLE {'in_the_way' if kind == 'trigger' else name}")
    after.close()
    async with open_store(f"sqlite:///{path}"):
        pass


@pytest.mark.postgres
@pytest.mark.parametrize("version", VERSIONS)
async def test_database_stays_as_it_was_when_a_migration_fails(new_postgres_url: str, version: int) -> None:
    """A step that fails takes back what it did, and can be tried again."""
    names = await _relations_of_step(new_postgres_url, version)
    run_sql(new_postgres_url, "DROP SCHEMA IF EXISTS recollect CASCADE", "CREATE SCHEMA recollect")
    await postgres.prepare(new_postgres_url, up_to=version - 1)
    run_sql(new_postgres_url, load_statements("postgres")["create_migrations"])
    run_sql(new_postgres_url, cast("LiteralString", f"CREATE TABLE recollect.{names[-1]} (in_the_way text)"))
    before = postgres_schema(new_postgres_url)
    with pytest.raises(StorageError, match=f'"{names[-1]}" already exists'):
        await open_store(new_postgres_url)
    assert postgres_schema(new_postgres_url) == before
    run_sql(new_postgres_url, cast("LiteralString", f"DROP TABLE recollect.{names[-1]}"))
    async with open_store(new_postgres_url):
        pass


def _last_of_step(folder: Path, version: int) -> tuple[str, str]:
    """Return the kind and the name of what a step makes last."""
    before = sqlite.prepare(str(folder / "before.db"), up_to=version - 1)
    after = sqlite.prepare(str(folder / "after.db"), up_to=version)
    known = sqlite_names(before)
    made = after.execute(
        "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE '%autoindex%' ORDER BY rowid"
    ).fetchall()
    before.close()
    after.close()
    return [(kind, name) for kind, name in made if name not in known][-1]


async def _relations_of_step(url: str, version: int) -> list[str]:
    """Return the names of the relations that a step makes, in the order in which it makes them."""
    await postgres.prepare(url, up_to=version)
    text = load_migrations("postgres")[version - 1].sql
    relations = [
        row[0] for row in postgres_schema(url)["relations"] if f" {row[0]}" in text or f".{row[0]}" in text
    ]
    return sorted(relations, key=text.find)
