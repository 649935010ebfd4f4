"""Filling a store quickly: past the store's own door, but with its own tables, columns and search rows.

Turns come in the order in which many users would send them, mixed, so that the messages of one thread
lie scattered over a heap and the pages of an index are as full as they would be after years of use.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from recollect.bench.recorder import messages_of
from recollect.bench.report import Tick
from recollect.bench.texts import Talk
from recollect.scope import Scope
from recollect.storage.engine import Params, Transaction
from recollect.storage.records import Placed
from recollect.storage.rows import thread_keys
from recollect.storage.sql import load_statements
from recollect.storage.sqlite.connection import Database, prepare
from recollect.storage.turns import Entry, encode, extension, insertions

if TYPE_CHECKING:
    from recollect.storage.postgres.connection import Connection

T = TypeVar("T")

MESSAGES_PER_USER = 100
"""How long each thread is, in the large store and in the small one."""

_DIFFERENT_TURNS = 2000  # analysing a million texts would take longer than all the rest
_BATCH = 10_000
_TABLES = {"insert_message": "messages"}
_FIRST_TIME = 1_700_000_000_000_000

# The file is thrown away if anything goes wrong, so it need not be safe while it is filled.
_IN_HASTE = ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA cache_size = -1500000")


def users_of(messages: int) -> int:
    """Return how many users share so many messages."""
    return max(1, messages // MESSAGES_PER_USER)


def scope_of(user: int) -> Scope:
    """Return the thread of a user by number."""
    return Scope(1, f"user-{user:05}", "conversation")


def fill_sqlite(path: Path, messages: int, tick: Tick) -> None:
    """Make a SQLite file with so many messages."""
    sql = load_statements("sqlite")
    connection: Database = prepare(str(path))
    for setting in _IN_HASTE:
        connection.execute(setting).fetchall()
    connection.execute("BEGIN")
    for number, batch in enumerate(_batches(messages), 1):
        for name, rows in batch.items():
            connection.executemany(sql[name], rows)
        tick(min(1, number * _BATCH / messages))
    connection.executemany(sql["lock_user"], _user_rows(messages))
    connection.executemany(sql["extend_thread"], _thread_rows(messages))
    connection.execute(sql["draw_numbers"], {"count": messages}).fetchall()
    connection.execute("COMMIT")
    connection.close()


async def fill_postgres(url: str, messages: int, tick: Tick) -> None:
    """Fill an empty PostgreSQL database with so many messages, and let the server tidy up after it."""
    import psycopg

    from recollect.storage.postgres.connection import prepare as prepare_postgres

    await prepare_postgres(url)
    sql = load_statements("postgres")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        tenant = str(scope_of(0).tenant_key)
        await connection.execute("SELECT set_config('recollect.tenant_id', %s, false)", (tenant,))
        for number, batch in enumerate(_batches(messages), 1):
            for name, rows in batch.items():
                await _copy(connection, _TABLES[name], rows)
            tick(min(1, number * _BATCH / messages))
        async with connection.cursor() as cursor:
            await cursor.executemany(sql["lock_user"], _user_rows(messages))
            await cursor.executemany(sql["extend_thread"], _thread_rows(messages))
        await connection.execute("SELECT setval('recollect.numbers', %s)", (messages,))
        await connection.execute("VACUUM (ANALYZE)")


async def _copy(connection: "Connection", table: str, rows: Sequence[Params]) -> None:
    """Copy rows into a table by way of a temporary one, because a guarded table takes no COPY."""
    from psycopg import sql

    names = {"table": sql.Identifier("recollect", table), "scratch": sql.Identifier(f"scratch_{table}")}
    async with connection.transaction(), connection.cursor() as cursor:
        await cursor.execute(
            sql.SQL("CREATE TEMP TABLE {scratch} (LIKE {table}) ON COMMIT DROP").format(**names)
        )
        await cursor.execute(sql.SQL("SELECT * FROM {scratch}").format(**names))
        columns = [column.name for column in cursor.description or ()]
        async with cursor.copy(sql.SQL("COPY {scratch} FROM STDIN").format(**names)) as copy:
            for row in rows:
                await copy.write_row([row[column] for column in columns])
        await cursor.execute(sql.SQL("INSERT INTO {table} SELECT * FROM {scratch}").format(**names))


def _batches(messages: int) -> Iterator[dict[str, list[Params]]]:
    """Yield the values of many turns by the name of the statement that writes them."""
    turns = _turns(messages)
    while some := list(islice(turns, _BATCH // 2)):
        yield {name: [row for rows in some for row in rows[name]] for name in some[0]}


def _turns(messages: int) -> Iterator[dict[str, list[dict[str, object]]]]:
    talk, users = Talk(), users_of(messages)
    samples = [_entries(turn) for turn in talk.turns(min(_DIFFERENT_TURNS, messages))]
    keys = [thread_keys(scope_of(user)) for user in range(users)]
    lengths = [0] * users
    arrivals = talk.shuffled([user for user in range(users) for _ in range(MESSAGES_PER_USER // 2)])
    for turn, user in enumerate(arrivals):
        yield _rows_of(keys[user], samples[turn % len(samples)], lengths[user] + 1, 2 * turn + 1)
        lengths[user] += 2


def _rows_of(
    keys: Params, entries: list[Entry], position: int, number: int
) -> dict[str, list[dict[str, object]]]:
    """Have the store itself say what it would write, and give each message an id of its own."""
    places = {entry.message.id: Placed(position + i, number + i) for i, entry in enumerate(entries)}
    statements = _value_of(insertions(keys, entries, places))
    rows = {name: cast("Any", params) for name, params in statements if name in _TABLES}
    for offset, row in enumerate(rows["insert_message"]):
        row |= {"message_id": f"{number + offset:024}", "created_at": _FIRST_TIME + number}
    return rows


def _value_of(body: Transaction[T]) -> T:
    """Run a transaction that needs nothing from the database."""
    try:
        next(body)
    except StopIteration as done:
        return done.value
    raise AssertionError("plain text needs no look at earlier messages")


def _entries(turn: tuple[str, str]) -> list[Entry]:
    return [encode(message, None) for message in messages_of(turn)]


def _user_rows(messages: int) -> list[Params]:
    return [thread_keys(scope_of(user)) for user in range(users_of(messages))]


def _thread_rows(messages: int) -> list[Params]:
    thread = _entries(("first", "second")) * (MESSAGES_PER_USER // 2)
    rows = [
        extension(keys, thread, MESSAGES_PER_USER + 1, _FIRST_TIME + messages).params
        for keys in _user_rows(messages)
    ]
    return cast("list[Params]", rows)
