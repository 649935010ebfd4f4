"""Converts a PostgreSQL database of the layout before the first release, once and in one transaction."""

from typing import Any

import psycopg

from recollect.messages import now
from recollect.storage.engine import BUSY_SECONDS
from recollect.storage.postgres.connection import MIGRATION_LOCK, Connection, connect, describe_url
from recollect.storage.postgres.faults import translate_error
from recollect.storage.rows import to_micros
from recollect.storage.sql import check_convertible, find_old_layout, load_migrations, load_statements


async def convert(url: str) -> bool:
    """Convert a database if it has the old layout; return whether it had. Only the tables' owner can."""
    place = describe_url(url)
    try:
        async with await connect(url, BUSY_SECONDS) as connection:
            await connection.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
            if not await _has_old_layout(connection):
                return False
            async with connection.transaction():
                await _convert(connection)
            return True
    except psycopg.Error as error:
        raise translate_error(error, place) from error


async def _has_old_layout(connection: Connection) -> bool:
    cursor = await connection.execute("SELECT to_regclass('recollect.migrations') IS NOT NULL")
    if not (await cursor.fetchall())[0][0]:
        return False
    cursor = await connection.execute(load_statements("postgres")["applied_migrations"])
    return find_old_layout([_as_pair(row) for row in await cursor.fetchall()])


def _as_pair(row: tuple[Any, ...]) -> tuple[int, str]:
    number, name = row
    return number, name


async def _convert(connection: Connection) -> None:
    statements = load_statements("postgres")
    await connection.execute(statements["set_old_tables_aside"])
    cursor = await connection.execute(statements["longest_position"])
    check_convertible((await cursor.fetchall())[0][0])
    for migration in load_migrations("postgres"):
        await connection.execute(migration.sql)
        record = {"number": migration.number, "name": migration.name, "applied_at": to_micros(now())}
        await connection.execute(statements["record_migration"], record)
    await connection.execute(statements["copy_old_rows"])
