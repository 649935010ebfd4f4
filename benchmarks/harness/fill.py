"""Filling a store quickly: without the store's methods, but with its tables, columns and search rows.

The turns of many users are interleaved, as they would arrive. So the messages of one thread are scattered
over the table, and the pages of an index are as full as after years of use.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import psycopg
from psycopg.sql import SQL, Identifier

from benchmarks.harness.replay import messages_of
from benchmarks.harness.report import Tick
from benchmarks.harness.texts import SampleTexts
from recollect.scope import Scope
from recollect.storage.engine import Params, Statement, Transaction
from recollect.storage.postgres.connection import Connection
from recollect.storage.postgres.connection import prepare as prepare_postgres
from recollect.storage.records import DEFAULT_TITLE, Placement
from recollect.storage.rows import encode_message, thread_keys
from recollect.storage.sql import load_statements
from recollect.storage.sqlite.connection import Database, prepare
from recollect.storage.sqlite.transactions import load_prepared
from recollect.storage.turns import Entry, build_creation, build_extension, build_inserts
from recollect.text.segments import analyse_segments
from recollect.text.terms import ANALYSER_VERSION, Terms

T = TypeVar("T")

MESSAGES_PER_USER = 100
"""The length of each thread; a user of the crowd has one."""

_DIFFERENT_TURNS = 2000  # analysing a million texts would take too long
_BATCH = 10_000
_TABLES = {"insert_message": "messages", "put_search_row": "search_rows"}
_FIRST_TIME = 1_700_000_000_000_000

# If anything goes wrong the file is deleted, so it need not be durable while it is filled.
_FAST_PRAGMAS = ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA cache_size = -1500000")


class Owner(NamedTuple):
    """A user, and the number of their messages, which is even."""

    user_id: str
    messages: int

    def thread(self, number: int) -> Scope:
        """Return a thread of the user by number."""
        return Scope(1, self.user_id, f"conversation-{number}" if number else "conversation")

    def threads(self) -> Iterator[tuple[Scope, int]]:
        """Yield the threads, each with its length."""
        for number, first in enumerate(range(0, self.messages, MESSAGES_PER_USER)):
            yield self.thread(number), min(MESSAGES_PER_USER, self.messages - first)


def count_users(messages: int) -> int:
    """Return how many users have so many messages together."""
    return max(1, messages // MESSAGES_PER_USER)


def scope_of(user: int) -> Scope:
    """Return the thread of a user by number."""
    return Scope(1, f"user-{user:05}", "conversation")


def make_crowd(messages: int) -> list[Owner]:
    """Return users who have so many messages together."""
    return [Owner(scope_of(user).user_id, MESSAGES_PER_USER) for user in range(count_users(messages))]


def fill_sqlite(path: Path, owners: Sequence[Owner], tick: Tick) -> None:
    """Create a SQLite file with the messages of users."""
    messages = _count_messages(owners)
    sql = load_prepared()
    connection: Database = prepare(str(path))
    for setting in _FAST_PRAGMAS:
        connection.execute(setting).fetchall()
    connection.execute("BEGIN")
    keys: dict[Scope, dict[str, object]] = {}
    for name, params in _make_threads(owners):
        rows = connection.execute(sql[name].text, sql[name].bind(params)).fetchall()
        if name == "extend_thread":
            _, _, thread, owner, app = rows[0]
            scope = Scope(1, str(params["user_id"]), str(params["thread_id"]))
            keys[scope] = {"thread": thread, "owner": owner, "app": app}
    for number, batch in enumerate(_make_batches(owners, keys), 1):
        for name, rows in batch.items():
            connection.executemany(sql[name].text, map(sql[name].bind, rows))
        tick(min(1, number * _BATCH / messages))
    connection.execute("COMMIT")
    connection.close()


async def fill_postgres(url: str, owners: Sequence[Owner], tick: Tick) -> None:
    """Fill an empty PostgreSQL database in the same way, and vacuum it."""
    await prepare_postgres(url)
    messages = _count_messages(owners)
    sql = load_statements("postgres")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        tenant = scope_of(0).tenant_key
        await connection.execute("SELECT set_config('recollect.tenant_id', %s, false)", (tenant,))
        async with connection.pipeline():
            for name, params in _make_threads(owners):
                if sql[name]:
                    await connection.execute(sql[name], params)
        for number, batch in enumerate(_make_batches(owners, {}), 1):
            for name, rows in batch.items():
                await _copy(connection, _TABLES[name], rows)
            tick(min(1, number * _BATCH / messages))
        await connection.execute("SELECT setval('recollect.numbers', %s)", (messages,))
        await connection.execute("VACUUM (ANALYZE)")


async def _copy(connection: Connection, table: str, rows: Sequence[Params]) -> None:
    """Copy rows through a temporary table, because a table with row-level security takes no COPY."""
    names = {"table": Identifier("recollect", table), "scratch": Identifier(f"scratch_{table}")}
    async with connection.transaction(), connection.cursor() as cursor:
        await cursor.execute(SQL("CREATE TEMP TABLE {scratch} (LIKE {table}) ON COMMIT DROP").format(**names))
        await cursor.execute(SQL("SELECT * FROM {scratch}").format(**names))
        columns = [column.name for column in cursor.description or ()]
        async with cursor.copy(SQL("COPY {scratch} FROM STDIN").format(**names)) as copy:
            for row in rows:
                await copy.write_row([row[column] for column in columns])
        await cursor.execute(SQL("INSERT INTO {table} SELECT * FROM {scratch}").format(**names))


def _count_messages(owners: Sequence[Owner]) -> int:
    return sum(owner.messages for owner in owners)


def _make_threads(owners: Sequence[Owner]) -> Iterator[tuple[str, Params]]:
    """Yield the statements that create users and threads, as long as their messages make them."""
    turn = _make_entries(("first", "second"))
    for owner in owners:
        for scope, length in owner.threads():
            keys = thread_keys(scope) | {"now": _FIRST_TIME + _count_messages(owners)}
            values = {"title": DEFAULT_TITLE, "metadata": None, "next_position": 1}
            statements = [Statement("lock_user", keys), *build_creation(keys, values)]
            for name, params in (*statements, build_extension(keys, turn * (length // 2))):
                yield name, cast("Params", params)


def _make_batches(
    owners: Sequence[Owner], keys: Mapping[Scope, dict[str, object]]
) -> Iterator[dict[str, list[Params]]]:
    """Yield the rows of many turns by the name of the statement that writes them."""
    turns = _make_turns(owners, keys)
    while some := list(islice(turns, _BATCH // 2)):
        yield {name: [row for rows in some for row in rows[name]] for name in some[0]}


def _make_turns(
    owners: Sequence[Owner], thread_numbers: Mapping[Scope, dict[str, object]]
) -> Iterator[dict[str, list[dict[str, object]]]]:
    """Yield turns of users in random order; each user fills one thread after another."""
    source = SampleTexts()
    samples = [_make_entries(turn) for turn in source.turns(min(_DIFFERENT_TURNS, _count_messages(owners)))]
    terms = [[analyse_segments(entry.message.text) for entry in entries] for entries in samples]
    keys: dict[int, dict[str, object]] = {}
    lengths = [0] * len(owners)
    arrivals = source.shuffled(
        [place for place, owner in enumerate(owners) for _ in range(owner.messages // 2)]
    )
    for turn, place in enumerate(arrivals):
        thread, position = divmod(lengths[place], MESSAGES_PER_USER)
        if not position:
            scope = owners[place].thread(thread)
            keys[place] = thread_keys(scope) | thread_numbers.get(scope, {})
        rows = _make_rows(keys[place], samples[turn % len(samples)], position + 1, 2 * turn + 1)
        rows["put_search_row"] = _make_search_rows(keys[place], terms[turn % len(terms)], 2 * turn + 1)
        yield rows
        lengths[place] += 2


def _make_search_rows(keys: Params, terms: list[Terms], number: int) -> list[dict[str, object]]:
    return [
        {
            **keys,
            "number": number + offset,
            "segment": 0,
            "kind": 0,
            "analyser": ANALYSER_VERSION,
            "asks": False,
            "term_hashes": found.hashes,
            "term_counts": found.counts,
            "model_id": None,
            "vector": None,
        }
        for offset, found in enumerate(terms)
    ]


def _make_rows(
    keys: Params, entries: list[Entry], position: int, number: int
) -> dict[str, list[dict[str, object]]]:
    """Return the rows that the store would write, with an id for each message."""
    places = [Placement(position + offset, number + offset) for offset in range(len(entries))]
    statements = _run_without_database(build_inserts(keys, entries, places))
    rows = {name: cast("Any", params) for name, params in statements if name in _TABLES}
    for offset, row in enumerate(rows["insert_message"]):
        row |= {"message_id": f"{number + offset:024}", "created_at": _FIRST_TIME + number}
    return rows


def _run_without_database(body: Transaction[T]) -> T:
    """Run a transaction that needs nothing from the database."""
    try:
        next(body)
    except StopIteration as done:
        return done.value
    raise AssertionError("plain text needs no look at earlier messages")


def _make_entries(turn: tuple[str, str]) -> list[Entry]:
    return [Entry(message, encode_message(message, None, None)) for message in messages_of(turn)]
