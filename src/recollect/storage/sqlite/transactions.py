"""Running transactions on SQLite: statements with their values bound by position, and snapshots for reads.

The SQL files name their values, as in `:user_id`. APSW looks up a name for each value of each statement,
which takes longer than a tuple, so names become positions when the statements are loaded.
"""

import logging
import re
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

from recollect.errors import StorageCorruptError
from recollect.storage.engine import Params, Statement, Work
from recollect.storage.sql import load_statements
from recollect.storage.sqlite.connection import DAMAGED_TEXT, Database, Rows

T = TypeVar("T")

_log = logging.getLogger(__name__)

_LISTS = frozenset(
    (
        "messages_up_to",
        "messages_from",
        "messages_between",
        "messages_of_unit",
        "page_of_messages",
        "messages_by_number",
        "user_history",
        "rich_messages",
        "search_rows_from",
        "unindexed_messages",
        "list_threads",
        "list_memory",
    )
)
"""Statements that return the sound rows where others have text that cannot be decoded."""

_NAME = re.compile(r":([a-z_]+)")


class Prepared(NamedTuple):
    """A statement with positions, and a function that puts values by name into their order."""

    text: str
    bind: Callable[[Params], tuple[object, ...]]


Statements: TypeAlias = dict[str, Prepared]
"""The statements of the engine by name."""


@cache
def load_prepared() -> Statements:
    """Return all statements of the engine."""
    return {name: _prepare(text) for name, text in load_statements("sqlite").items()}


def _prepare(text: str) -> Prepared:
    names = list(dict.fromkeys(_NAME.findall(text)))
    numbered = _NAME.sub(lambda found: f"?{names.index(found[1]) + 1}", text)
    if len(names) > 1:
        return Prepared(numbered, itemgetter(*names))

    def bind(params: Params) -> tuple[object, ...]:
        return tuple(params[name] for name in names)

    return Prepared(numbered, bind)


def run_work(connection: Database, sql: Statements, work: Work[T]) -> T:
    """Run the body of a transaction on a connection, without BEGIN and COMMIT."""
    body = work()
    try:
        step = next(body)
        while True:
            step = body.send([execute(connection, sql, statement) for statement in step.statements])
    except StopIteration as done:
        return done.value


def read_work(connection: Database, sql: Statements, work: Work[T]) -> T:
    """Run a transaction that reads one snapshot of the database.

    Most have a single statement, which needs no transaction around it; longer ones restart in one.
    """
    body = work()
    step = next(body)
    if len(step.statements) == 1:
        try:
            body.send([execute(connection, sql, step.statements[0])])
        except StopIteration as done:
            return done.value
    try:
        connection.execute("BEGIN")  # here, because a signal handler may raise after it
        return run_work(connection, sql, work)
    finally:
        if connection.in_transaction:  # a disk error has ended it already
            connection.execute("COMMIT")


def execute(connection: Database, sql: Statements, statement: Statement) -> list[Any]:
    """Run a statement and return its rows."""
    name, params = statement
    text, bind = sql[name]
    if not text:
        return []
    if isinstance(params, list):
        connection.executemany(text, map(bind, params))
        return []
    cursor = connection.execute(text, bind(params))
    try:
        return cursor.fetchall()
    except UnicodeDecodeError as error:
        if name not in _LISTS:
            raise StorageCorruptError(f"{name}: {DAMAGED_TEXT}") from error
    return _fetch_sound(connection.execute(text, bind(params)), name, params)


def _fetch_sound(cursor: Rows, name: str, params: Params) -> list[Any]:
    """Return the rows whose text can be decoded, and warn of the others."""
    found: list[Any] = []
    while True:
        try:
            found.append(next(cursor))
        except StopIteration:
            return found
        except UnicodeDecodeError:  # the next call goes on with the next row
            thread = f" of thread {params['thread_id']!r:.200}" if "thread_id" in params else ""
            after = f", after {found[-1][0]!r:.200}" if found else ""
            _log.warning("left out: a row%s whose %s (%s%s)", thread, DAMAGED_TEXT, name, after)
