"""A bare SQLite writer and reader by hand: the yardstick that stays as it is.

A replay of the store's own statements becomes faster whenever the store does, so it cannot tell whether
the store itself became faster. This one is frozen. It has its own tables and statements and uses nothing of
recollect, so its times change only with the machine, with SQLite and with APSW. Whoever changes it makes
every ratio to it, in every earlier report, worthless.

It does what anybody would write who stores conversations in one file, as safely as the store does: it
updates the session, inserts two messages with an index by thread and a unique id, and commits durably. All
values are ready before, and everything runs on the calling thread.
"""

import random
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias, cast

import apsw

Synchronous: TypeAlias = Literal["FULL", "OFF"]
"""FULL makes each commit durable; OFF leaves only the processor's work."""

Row: TypeAlias = tuple[int, str, str, str, str | None, str | None, str | None, int]
"""What a message is made of: its number and id, role, text, other parts, metadata, run and time."""

_TABLES = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    messages INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (user_id, name)
) STRICT;
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL,
    message_id TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    parts TEXT,
    metadata TEXT,
    run_id TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_by_session ON messages (session_id, id);
"""
_ADD_SESSION = "INSERT INTO sessions (id, user_id, name, messages, updated_at) VALUES (?, ?, ?, 0, ?)"
_UPDATE_SESSION = "UPDATE sessions SET messages = messages + ?, updated_at = ? WHERE id = ?"
_ADD_MESSAGE = "INSERT INTO messages (session_id, message_id, role, text, created_at) VALUES (?, ?, ?, ?, ?)"
_READ_LAST = (
    "SELECT id, message_id, role, text, parts, metadata, run_id, created_at FROM messages "
    "WHERE session_id = (SELECT id FROM sessions WHERE user_id = ? AND name = ?) ORDER BY id DESC LIMIT ?"
)
_LAST = 10
_NAME = "conversation"
_FIRST_TIME = 1_700_000_000_000_000  # in microseconds


class FixedTurn(NamedTuple):
    """The values of one turn: those of the update, and those of the two rows."""

    session: tuple[int, int, int]
    messages: tuple[tuple[int, str, str, str, int], ...]


class _Cursor(Protocol):
    def fetchall(self) -> list[Row]: ...


class _Connection(Protocol):
    """The parts of `apsw.Connection` that are used here."""

    def execute(self, statements: str, bindings: Sequence[object] | None = None) -> _Cursor: ...

    def executemany(self, statements: str, sequenceofbindings: Iterable[Sequence[object]]) -> _Cursor: ...

    def config(self, op: int, value: int) -> object: ...

    def close(self) -> None: ...


class FixedSqlite:
    """One APSW connection to a file of its own, with SQLite's own checkpoints of the log."""

    def __init__(self, path: Path, *, sessions: int = 1, synchronous: Synchronous = "FULL") -> None:
        """Create the file with so many sessions, numbered from 0."""
        self._connection = cast("_Connection", apsw.Connection(str(path)))
        self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for setting in _list_settings(synchronous):
            self._connection.execute(setting).fetchall()
        self._connection.execute(_TABLES).fetchall()
        rows = [(number, f"user-{number}", _NAME, _FIRST_TIME) for number in range(sessions)]
        self._connection.executemany(_ADD_SESSION, rows)

    def append(self, turn: FixedTurn) -> None:
        """Write a turn and commit."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_UPDATE_SESSION, turn.session)
        connection.executemany(_ADD_MESSAGE, turn.messages)
        connection.execute("COMMIT")

    def read(self, session: int = 0) -> list[Row]:
        """Return the last ten messages of a user's session, which is found by its name, the newest first."""
        return self._connection.execute(_READ_LAST, (f"user-{session}", _NAME, _LAST)).fetchall()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _list_settings(synchronous: Synchronous) -> tuple[str, ...]:
    return (
        "PRAGMA journal_mode = WAL",
        f"PRAGMA synchronous = {synchronous}",
        "PRAGMA secure_delete = ON",
        "PRAGMA temp_store = MEMORY",
        "PRAGMA cache_size = -16000",
    )


def prepare_fixed_turns(turns: Iterable[tuple[str, str]], sessions: int = 1) -> list[FixedTurn]:
    """Return the values of turns for the sessions in rotation, each message with an id of its own.

    An id begins with the time in milliseconds, one for each turn, and ends with 64 random bits.
    """
    source = random.Random(11)
    times = count(_FIRST_TIME, 1000)
    return [
        _prepare_turn(turn, number % sessions, time, source)
        for number, (turn, time) in enumerate(zip(turns, times, strict=False))
    ]


def _prepare_turn(turn: tuple[str, str], session: int, time: int, source: random.Random) -> FixedTurn:
    messages = tuple(
        (session, f"{time // 1000:012x}{source.getrandbits(64):016x}", role, text, time)
        for role, text in zip(("user", "assistant"), turn, strict=True)
    )
    return FixedTurn((len(messages), time, session), messages)
