"""Filling a store quickly: past the store's own methods, but with its own tables, columns and search rows.

Turns come in the order in which many users would send them, mixed, so that the messages of one thread
lie scattered over a heap and the pages of an index are as full as they would be after years of use.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import psycopg
from psycopg.sql import SQL, Identifier

from benchmarks.harness.replay import messages_of
from benchmarks.harness.report import Tick
from benchmarks.harness.texts import SampleTexts
from recollect.scope import Scope
from recollect.storage.engine import Params, Transaction
from recollect.storage.postgres.connection import Connection
from recollect.storage.postgres.connection import prepare as prepare_postgres
from recollect.storage.records import Placement
from recollect.storage.rows import thread_keys
from recollect.storage.sql import load_statements
from recollect.storage.sqlite.connection import Database, prepare
from recollect.storage.turns import Entry, build_extension, build_inserts, encode_entry

T = TypeVar("T")

MESSAGES_PER_USER = 100
"""How long each thread is; those who share a store have one each."""

_DIFFERENT_TURNS = 2000  # analysing a million texts would take longer than all the rest
_BATCH = 10_000
_TABLES = {"insert_message": "messages"}
_FIRST_TIME = 1_700_000_000_000_000

# The file is thrown away if anything goes wrong, so it need not be safe while it is filled.
_IN_HASTE = ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA cache_size = -1500000")


class Owner(NamedTuple):
    """A user, and how many messages the user has: an even number."""

    user_id: str
    messages: int

    def thread(self, number: int) -> Scope:
        """Return a thread of the user by number."""
        return Scope(1, self.user_id, f"conversation-{number}" if number else "conversation")

    def threads(self) -> Iterator[tuple[Scope, int]]:
        """Yield the threads, each with its length."""
        for number, first in enumerate(range(0, self.messages, MESSAGES_PER_USER)):
            yield self.thread(number), min(MESSAGES_PER_USER, self.messages - first)


def users_of(messages: int) -> int:
    """Return how many users share so many messages."""
    return max(1, messages // MESSAGES_PER_USER)


def scope_of(user: int) -> Scope:
    """Return the thread of a user by number."""
    return Scope(1, f"user-{user:05}", "conversation")


def crowd(messages: int) -> list[Owner]:
    """Return the users who share so many messages."""
    return [Owner(scope_of(user).user_id, MESSAGES_PER_USER) for user in range(users_of(messages))]


def fill_sqlite(path: Path, owners: Sequence[Owner], tick: Tick) -> None:
    """Make a SQLite file with the messages of some users."""
    messages = _count(owners)
    sql = load_statements("sqlite")
    connection: Database = prepare(str(path))
    for setting in _IN_HASTE:
        connection.execute(setting).fetchall()
    connection.execute("BEGIN")
    for number, batch in enumerate(_batches(owners), 1):
        for name, rows in batch.items():
            connection.executemany(sql[name], rows)
        tick(min(1, number * _BATCH / messages))
    connection.executemany(sql["lock_user"], _user_rows(owners))
    connection.executemany(sql["extend_thread"], _thread_rows(owners))
    connection.execute(sql["draw_numbers"], {"count": messages}).fetchall()
    connection.execute("COMMIT")
    connection.close()


async def fill_postgres(url: str, owners: Sequence[Owner], tick: Tick) -> None:
    """Fill an empty PostgreSQL database likewise, and let the server tidy up after it."""
    await prepare_postgres(url)
    messages = _count(owners)
    sql = load_statements("postgres")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        tenant = str(scope_of(0).tenant_key)
        await connection.execute("SELECT set_config('recollect.tenant_id', %s, false)", (tenant,))
        for number, batch in enumerate(_batches(owners), 1):
            for name, rows in batch.items():
                await _copy(connection, _TABLES[name], rows)
            tick(min(1, number * _BATCH / messages))
        async with connection.cursor() as cursor:
            await cursor.executemany(sql["lock_user"], _user_rows(owners))
            await cursor.executemany(sql["extend_thread"], _thread_rows(owners))
        await connection.execute("SELECT setval('recollect.numbers', %s)", (messages,))
        await connection.execute("VACUUM (ANALYZE)")


async def _copy(connection: Connection, table: str, rows: Sequence[Params]) -> None:
    """Copy rows into a table by way of a temporary one, because a guarded table takes no COPY."""
    names = {"table": Identifier("recollect", table), "scratch": Identifier(f"scratch_{table}")}
    async with connection.transaction(), connection.cursor() as cursor:
        await cursor.execute(SQL("CREATE TEMP TABLE {scratch} (LIKE {table}) ON COMMIT DROP").format(**names))
        await cursor.execute(SQL("SELECT * FROM {scratch}").format(**names))
        columns = [column.name for column in cursor.description or ()]
        async with cursor.copy(SQL("COPY {scratch} FROM STDIN").format(**names)) as copy:
            for row in rows:
                await copy.write_row([row[column] for column in columns])
        await cursor.execute(SQL("INSERT INTO {table} SELECT * FROM {scratch}").format(**names))


def _count(owners: Sequence[Owner]) -> int:
    return sum(owner.messages for owner in owners)


def _batches(owners: Sequence[Owner]) -> Iterator[dict[str, list[Params]]]:
    """Yield the values of many turns by the name of the statement that writes them."""
    turns = _turns(owners)
    while some := list(islice(turns, _BATCH // 2)):
        yield {name: [row for rows in some for row in rows[name]] for name in some[0]}


def _turns(owners: Sequence[Owner]) -> Iterator[dict[str, list[dict[str, object]]]]:
    """Yield turns in a mixed order of users; each user fills one thread after another."""
    talk = SampleTexts()
    samples = [_entries(turn) for turn in talk.turns(min(_DIFFERENT_TURNS, _count(owners)))]
    keys: dict[int, dict[str, object]] = {}
    lengths = [0] * len(owners)
    arrivals = talk.shuffled(
        [place for place, owner in enumerate(owners) for _ in range(owner.messages // 2)]
    )
    for turn, place in enumerate(arrivals):
        thread, position = divmod(lengths[place], MESSAGES_PER_USER)
        if not position:
            keys[place] = thread_keys(owners[place].thread(thread))
        yield _rows_of(keys[place], samples[turn % len(samples)], position + 1, 2 * turn + 1)
        lengths[place] += 2


def _rows_of(
    keys: Params, entries: list[Entry], position: int, number: int
) -> dict[str, list[dict[str, object]]]:
    """Have the store itself say what it would write, and give each message an id of its own."""
    places = {entry.message.id: Placement(position + i, number + i) for i, entry in enumerate(entries)}
    statements = _value_of(build_inserts(keys, entries, places))
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
    return [encode_entry(message, None) for message in messages_of(turn)]


def _user_rows(owners: Sequence[Owner]) -> list[Params]:
    return [thread_keys(owner.thread(0)) for owner in owners]


def _thread_rows(owners: Sequence[Owner]) -> list[Params]:
    threads = [thread for owner in owners for thread in owner.threads()]
    turn, time = _entries(("first", "second")), _FIRST_TIME + _count(owners)
    rows = [
        build_extension(thread_keys(scope), turn * (length // 2), length + 1, time).params
        for scope, length in threads
    ]
    return cast("list[Params]", rows)
