"""Queries on the tables of a store, beyond what its methods show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from recollect import Store

NAMING_USERS = ("users", "threads", "user_memory", "user_state", "working_memory", "events")
"""The tables that name a user on both engines."""


class RawSearchRow(NamedTuple):
    """A row of the table of search rows, the same on both engines."""

    number: int
    segment: int
    analyser: int
    asks: bool
    term_hashes: bytes
    term_counts: bytes
    model_id: str | None
    vector: bytes | None


async def raw_rows(store: Store, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement on the tables of a store; `{}` before the name of a table stands for its schema."""
    engine = cast("object", vars(store)["_engine"])
    if store.engine_name == "sqlite":
        database: Any = vars(engine)["_write_connection"]
        return database.execute(statement.replace("{}", "")).fetchall()
    pool: Any = vars(engine)["_pool"]
    async with pool.connection() as connection:
        cursor: Any = await connection.execute(statement.replace("{}", "recollect."))
        return await cursor.fetchall() if cursor.description else []


async def _select(store: Store, columns: str, source: str, where: str) -> list[tuple[Any, ...]]:
    return await raw_rows(store, f"SELECT {columns} FROM {source} WHERE {where}")  # noqa: S608 - nobody else's text


async def raw_search_rows(store: Store, *, after: int = 0) -> list[RawSearchRow]:
    """Return the search rows of all users, those after a number, in order."""
    is_sqlite = store.engine_name == "sqlite"
    key = "place >> 8, place & 255" if is_sqlite else "number, segment"
    where = f"place >= ({after} + 1) << 8" if is_sqlite else f"number > {after}"
    columns = f"{key}, analyser, asks, term_hashes, term_counts, model_id, vector"
    found = await _select(store, columns, "{}search_rows", f"{where} ORDER BY 1, 2")
    # SQLite has no type for a truth value.
    return [RawSearchRow._make(row)._replace(asks=bool(row[3])) for row in found]


async def raw_numbers(store: Store) -> list[int]:
    """Return the numbers of all stored messages in order, expired ones included."""
    return [number for (number,) in await raw_rows(store, "SELECT number FROM {}messages ORDER BY 1")]


class RawThread(NamedTuple):
    """What a row of the table of threads says of its messages."""

    place: tuple[str, str, str, str, str]
    message_count: int
    bytes: int
    expires_at: int | None
    last_message_at: int | None
    next_position: int


class RawMessage(NamedTuple):
    """A row of the table of messages, with the names that it refers to, the same on both engines."""

    place: tuple[str, str, str, str, str]
    position: int
    number: int
    unit: int
    message_id: str
    created_at: int
    expires_at: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows that some users have; names are (user, tenant, app, project, thread)."""

    counts: dict[tuple[str, str, str], int]
    threads: list[RawThread]
    messages: list[RawMessage]
    search_rows: list[RawSearchRow]


async def read_tables(store: Store, users: Sequence[str], *, after: int) -> Tables:
    """Read the rows of users from all tables, and check those of SQLite that refer to each other.

    `after` is a number before the first message of these users.
    """
    if store.engine_name == "sqlite":
        await _check_keys(store, after)
    is_sqlite = store.engine_name == "sqlite"
    wanted = "user_id IN ({})".format(", ".join(f"'{user}'" for user in users))
    counts: dict[tuple[str, str, str], int] = {}
    for table in NAMING_USERS:
        columns, grouped = "user_id, tenant_id, count(*)", f"{wanted} GROUP BY user_id, tenant_id"
        found = await _select(store, columns, f"{{}}{table}", grouped)
        counts |= {(table, user, tenant): count for user, tenant, count in found}
    threads = await _select(store, _THREAD, "{}threads", f"{wanted} ORDER BY {_NAMES}")
    messages = await _select(
        store,
        _SQLITE_COLUMNS if is_sqlite else _COLUMNS,
        _SQLITE_MESSAGES if is_sqlite else "{}messages",
        wanted,
    )
    return Tables(
        counts,
        [RawThread._make((row[:5], *row[5:])) for row in threads],
        sorted(RawMessage._make((row[:5], *row[5:11], _count_bytes(row[11:]))) for row in messages),
        await raw_search_rows(store, after=after),
    )


_NAMES = "user_id, tenant_id, app_id, project_id, thread_id"
_THREAD = f"{_NAMES}, message_count, bytes, expires_at, last_message_at, next_position"
_MESSAGE = f"{_NAMES}, position, number, unit, message_id, created_at, expires_at, text"
_SQLITE_COLUMNS = f"{_MESSAGE}, parts, metadata"
_COLUMNS = f"{_MESSAGE}, parts::text, metadata::text"
_SQLITE_MESSAGES = """(
    SELECT threads.user_id, threads.tenant_id, apps.app_id, apps.project_id, threads.thread_id,
        place & 16777215 AS position, number, unit, message_id, messages.created_at, messages.expires_at,
        text, parts, messages.metadata
    FROM messages LEFT JOIN threads ON threads.key = place >> 24 LEFT JOIN apps ON apps.key = messages.app
)"""


def _count_bytes(texts: Sequence[str | None]) -> int:
    return sum(len(text.encode()) for text in texts if text is not None)


async def _check_keys(store: Store, after: int) -> None:
    """Check that every integer key of SQLite leads to the right row."""
    orphans = await raw_rows(
        store,
        f"""
        SELECT messages.number FROM messages
        LEFT JOIN threads ON threads.key = messages.place >> 24 AND threads.owner = messages.owner
            AND threads.app = messages.app
        WHERE messages.number > {after} AND threads.key IS NULL
        UNION ALL SELECT threads.key FROM threads
        LEFT JOIN users ON users.key = threads.owner AND users.user_id = threads.user_id
            AND users.tenant_id = threads.tenant_id
        LEFT JOIN apps ON apps.key = threads.app AND apps.owner = threads.owner
            AND apps.app_id = threads.app_id AND apps.project_id = threads.project_id
        WHERE users.key IS NULL OR apps.key IS NULL
        UNION ALL SELECT key FROM apps WHERE owner NOT IN (SELECT key FROM users)
        """,  # noqa: S608 - `after` is a number
    )
    assert orphans == []
