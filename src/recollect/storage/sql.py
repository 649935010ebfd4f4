"""Reads the SQL files of an engine: its statements and its migrations.

A statements file is a list of blocks: a line `-- name: some_name`, then the statement. A block that begins
with `-- fragment: some_name` is text that statements insert as `{some_name}`. Values are never part of the
text: the drivers bind them.

An engine applies migrations under a lock, each in one transaction with its record. So two processes that
start at once both succeed, and a failed migration leaves the database as it was.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import LiteralString, NamedTuple, cast

from recollect.errors import NewerDatabaseError, OldDatabaseError, StorageCorruptError, StorageFullError
from recollect.validation import MAX_POSITION

_BLOCK = re.compile(r"^-- (name|fragment): (\w+)\n", re.MULTILINE)
_FRAGMENT = re.compile(r"\{(\w+)\}")
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_OLD_LAYOUT = "0001_threads_and_messages"  # the first migration of databases from before the first release
_OLD_MIGRATIONS = 5  # how many such a database has


class Migration(NamedTuple):
    """One numbered change of the schema."""

    number: int
    name: str
    sql: LiteralString


@cache
def load_statements(engine: str) -> dict[str, LiteralString]:
    """Return all statements of an engine by name."""
    blocks = [
        block for file in _sql_files(engine, "statements") for block in _split_blocks(file.read_text("utf-8"))
    ]
    names = [name for _, name, _ in blocks]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"the SQL files of {engine} define {sorted(twice)} more than once")
    fragments = {name: text for kind, name, text in blocks if kind == "fragment"}
    return {name: _fill_fragments(text, fragments) for kind, name, text in blocks if kind == "name"}


@cache
def load_migrations(engine: str) -> tuple[Migration, ...]:
    """Return the migrations of an engine, oldest first."""
    found = [
        Migration(int(file.name[:4]), file.name.removesuffix(".sql"), _as_literal(file.read_text("utf-8")))
        for file in _sql_files(engine, "migrations")
    ]
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {engine} are not numbered 1, 2, 3 …")
    return tuple(found)


def _sql_files(engine: str, folder: str) -> list[Traversable]:
    place = files("recollect.storage") / engine / folder
    return sorted(
        (file for file in place.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name
    )


def _split_blocks(text: str) -> list[tuple[str, str, str]]:
    _, *fields = _BLOCK.split(text)
    return [
        (kind, name, _clean(body))
        for kind, name, body in zip(fields[0::3], fields[1::3], fields[2::3], strict=True)
    ]


def _fill_fragments(text: str, fragments: dict[str, str]) -> LiteralString:
    while _FRAGMENT.search(text):
        text = _FRAGMENT.sub(lambda found: fragments[found[1]], text)
    return _as_literal(text)


def _clean(body: str) -> str:
    return _COMMENT.sub("", body).strip().removesuffix(";")


def _as_literal(text: str) -> LiteralString:
    # The text comes from the package's own files, so no caller's string can be in it.
    return cast("LiteralString", text)


def is_old_layout(applied: Sequence[tuple[int, str]]) -> bool:
    """Whether the migrations of a database are those from before the first release."""
    return bool(applied) and applied[0][1] == _OLD_LAYOUT


def find_old_layout(applied: Sequence[tuple[int, str]]) -> bool:
    """Whether a database must be converted; raise if it is even older than what can be."""
    if not is_old_layout(applied):
        return False
    if len(applied) < _OLD_MIGRATIONS:
        raise OldDatabaseError(
            f"the database has {len(applied)} of the {_OLD_MIGRATIONS} migrations that a conversion needs; "
            "export its users with the recollect that wrote it, and import them here"
        )
    return True


def check_convertible(longest_position: int) -> None:
    """Raise if a thread of an old database is too long for the present layout."""
    if longest_position > MAX_POSITION:
        raise StorageFullError(
            f"a thread has a message at position {longest_position:,}, but a thread holds at most "
            f"{MAX_POSITION:,}; export and split it with the recollect that wrote it"
        )


def find_pending(migrations: Sequence[Migration], applied: Sequence[tuple[int, str]]) -> list[Migration]:
    """Return the migrations that are not applied yet; raise if the database has others than these."""
    if is_old_layout(applied):
        raise OldDatabaseError(
            "the database has the layout of an earlier recollect; make a backup, then convert it once with "
            "`recollect db migrate`"
        )
    if len(applied) > len(migrations):
        raise NewerDatabaseError(
            f"the database is at version {len(applied)} ({applied[-1][1]}), but this recollect knows only "
            f"version {len(migrations)}; install a newer recollect"
        )
    for migration, (number, name) in zip(migrations, applied, strict=False):
        if (migration.number, migration.name) != (number, name):
            raise StorageCorruptError(
                f"migration {number} of the database is {name!r}, but here it is {migration.name!r}"
            )
    return list(migrations[len(applied) :])
