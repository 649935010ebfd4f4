"""The whole schema of a database as plain values, and rows for whatever tables there are."""

from pathlib import Path
from typing import Any, LiteralString, TypeAlias, cast

import apsw
import psycopg

from recollect.storage.sqlite.connection import Database

Schema: TypeAlias = dict[str, list[tuple[Any, ...]]]
"""What a catalogue says, by kind of thing."""

Rows: TypeAlias = dict[str, tuple[list[str], list[tuple[Any, ...]]]]
"""The columns and rows of each table."""

TENANT = 7
"""The tenant of all rows that are made up here."""

_SAMPLES: dict[str, object] = {
    "TEXT": "x",
    "INTEGER": TENANT,
    "BLOB": b"\x01",
    "REAL": 0.5,
    "text": "x",
    "bigint": TENANT,
    "smallint": TENANT,
    "integer": TENANT,
    "json": "{}",
    "jsonb": "{}",
    "bytea": b"\x01",
    "boolean": True,
    "real": 0.5,
}

_FIXED: dict[str, object] = {"context_visible": False, "tenant_id": str(TENANT)}
"""Columns that take one value alone."""

_CATALOGUE: dict[str, LiteralString] = {
    "columns": """
        SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               a.attcollation::regcollation::text, pg_get_expr(d.adbin, d.adrelid), a.attidentity::text
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'recollect'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY 1, 2""",
    "relations": """
        SELECT relname, relkind::text, relrowsecurity, relforcerowsecurity FROM pg_class
        WHERE relnamespace = 'recollect'::regnamespace ORDER BY 1""",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'recollect' ORDER BY 1",
    "constraints": """
        SELECT conname, conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'recollect'::regnamespace ORDER BY 1, 2""",
    "policies": "SELECT * FROM pg_policies WHERE schemaname = 'recollect' ORDER BY tablename, policyname",
    "functions": """
        SELECT proname, pg_get_functiondef(oid) FROM pg_proc
        WHERE pronamespace = 'recollect'::regnamespace ORDER BY 1""",
    "migrations": "SELECT number, name FROM recollect.migrations ORDER BY 1",
}


def sqlite_schema(connection: Database) -> Schema:
    """Return everything that a SQLite file says about its schema."""
    return {
        "schema": connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2"
        ).fetchall(),
        "migrations": _migrations(connection),
    }


def _migrations(connection: Database) -> list[tuple[Any, ...]]:
    if "recollect_migrations" not in sqlite_names(connection):
        return []
    return connection.execute("SELECT number, name FROM recollect_migrations ORDER BY 1").fetchall()


def sqlite_names(connection: Database) -> list[str]:
    """Return the names of what the schema holds, in the order in which it was made."""
    return [row[0] for row in connection.execute("SELECT name FROM sqlite_schema ORDER BY rowid").fetchall()]


def fill_sqlite(connection: Database) -> Rows:
    """Put a row into every table and return all rows."""
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' "
        "AND name <> 'recollect_migrations'"
    ).fetchall()
    rows: Rows = {}
    for (table,) in tables:
        query = "SELECT name, type FROM pragma_table_info(:table)"
        columns = connection.execute(query, {"table": table}).fetchall()
        marks = ", ".join(f":{name}" for name, _ in columns)
        values = {name: _FIXED.get(name, _SAMPLES[kind]) for name, kind in columns}
        connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608 - names from the catalogue
        names = [name for name, _ in columns]
        rows[table] = names, rows_of_sqlite(connection, table, names)
    return rows


def rows_of_sqlite(connection: Database, table: str, columns: list[str]) -> list[tuple[Any, ...]]:
    """Return columns of all rows of a table."""
    query = f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1"  # noqa: S608 - names from the catalogue
    return connection.execute(query).fetchall()


def names_in(folder: Path) -> list[str]:
    """Return the names of all that is in a folder and below."""
    return sorted(path.name for path in folder.rglob("*"))


def open_sqlite(path: Path) -> Database:
    """Open a file without recollect."""
    return cast("Database", apsw.Connection(str(path)))


def postgres_schema(url: str) -> Schema:
    """Return everything that the catalogues say about recollect's schema."""
    with psycopg.connect(url) as connection:
        return {name: connection.execute(query).fetchall() for name, query in _CATALOGUE.items()}


def fill_postgres(url: str) -> Rows:
    """Put a row into every table and return all rows."""
    rows: Rows = {}
    with psycopg.connect(url) as connection:
        _become_tenant(connection)
        columns = connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'recollect' AND table_name NOT IN ('migrations', 'numbers') "
            "ORDER BY table_name, ordinal_position"
        ).fetchall()
        for table in sorted({table for table, _, _ in columns}):
            kinds = {name: kind for owner, name, kind in columns if owner == table}
            marks = ", ".join(f"%({name})s" for name in kinds)
            insert = cast("LiteralString", f"INSERT INTO recollect.{table} VALUES ({marks})")  # noqa: S608 - the same
            values = {name: _FIXED.get(name, _SAMPLES[kind]) for name, kind in kinds.items()}
            connection.execute(insert, values)
            rows[table] = list(kinds), _rows(connection, table, list(kinds))
    return rows


def rows_of_postgres(url: str, table: str, columns: list[str]) -> list[tuple[Any, ...]]:
    """Return columns of all rows of a table."""
    with psycopg.connect(url) as connection:
        _become_tenant(connection)
        return _rows(connection, table, columns)


def _rows(connection: psycopg.Connection[Any], table: str, columns: list[str]) -> list[tuple[Any, ...]]:
    query = f"SELECT {', '.join(columns)} FROM recollect.{table} ORDER BY 1"  # noqa: S608 - names from the catalogue
    return connection.execute(cast("LiteralString", query)).fetchall()


def _become_tenant(connection: psycopg.Connection[Any]) -> None:
    """Pass row-level security, which binds every role but a superuser."""
    connection.execute("SELECT set_config('recollect.tenant_id', %s, true)", (str(TENANT),))
