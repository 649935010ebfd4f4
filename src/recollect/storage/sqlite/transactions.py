"""Running transactions on SQLite: statements with their values bound by position, and snapshots for reads.

The SQL files name their values, as in `:user_id`. APSW looks up a name for each value of each statement,
which takes longer than a tuple, so names become positions when the statements are loaded.
"""

import re
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

from recollect.errors import StorageCorruptError
from recollect.storage.engine import Params, Statement, Work
from recollect.storage.sql import load_statements
from recollect.storage.sqlite.connection import DAMAGED_TEXT, Database

T = TypeVar("T")

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
    try:
        return connection.execute(text, bind(params)).fetchall()
    except UnicodeDecodeError as error:
        raise StorageCorruptError(DAMAGED_TEXT) from error
