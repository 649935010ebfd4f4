"""SQLite: appending a turn and reading the last ten, against the bare driver and against a peer."""

from collections.abc import Iterator
from pathlib import Path

from recollect.bench.peer import INSTALL, Session, durability, items_of, open_session
from recollect.bench.recorder import Call, Recording, calls, messages_of, record
from recollect.bench.report import Goal, Part, Tick, at_most, ratio_goal, unmeasured
from recollect.bench.sizes import Sizes
from recollect.bench.texts import Talk
from recollect.bench.timing import Lap, Timings, lap_of, race, ratio, sync_lap_of
from recollect.scope import Scope
from recollect.storage.engine import Row
from recollect.storage.opening import open_store
from recollect.storage.sqlite.connection import Database, prepare
from recollect.storage.store import Store

SCOPE = Scope(1, "user", "conversation")
"""The thread that both sides write to."""

_LAST = 10


class BareSqlite:
    """One APSW connection that runs prepared statements: what the store's work costs without the store."""

    def __init__(self, path: Path) -> None:
        """Open a file with the store's own tables and settings."""
        self._connection: Database = prepare(str(path))

    def append(self, turn: list[Call]) -> None:
        """Run the statements of a turn and commit."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        for sql, params, many in turn:
            if many:
                connection.executemany(sql, params)
            else:
                connection.execute(sql, params).fetchall()
        connection.execute("COMMIT")

    def read(self, statements: list[Call]) -> list[list[Row]]:
        """Run the statements of a look at the last messages and return the rows of each."""
        return [self._connection.execute(sql, params).fetchall() for sql, params, _ in statements]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


async def measure(folder: Path, sizes: Sizes, tick: Tick) -> Part:
    """Measure appending and reading."""
    turns = Talk().turns(sizes.turns)
    recording = await record(turns, [SCOPE])
    bare, session = BareSqlite(folder / "bare.db"), open_session(folder / "peer.db")
    try:
        async with open_store(f"sqlite:///{folder / 'ours.db'}") as store:
            appended = await race(
                _appending(store, bare, session, turns, recording),
                rounds=sizes.rounds,
                tries=sizes.tries,
                tick=lambda done: tick(done / 2),
                warm_up=sizes.warm_up,
            )
            read = await race(
                _reading(store, bare, session, recording),
                rounds=sizes.rounds,
                tries=sizes.tries,
                tick=lambda done: tick(0.5 + done / 2),
            )
    finally:
        bare.close()
        if session is not None:
            session.close()
    return _part(appended, read, _note(folder, session))


def _appending(
    store: Store,
    bare: BareSqlite,
    session: Session | None,
    turns: list[tuple[str, str]],
    recording: Recording,
) -> dict[str, Lap]:
    ours, theirs = iter(turns), iter(turns)
    prepared = iter([calls(turn, "sqlite") for turn in recording.turns])
    laps = {
        "ours": lap_of(lambda: store.append_turn(messages_of(next(ours)), scope=SCOPE)),
        "bare": sync_lap_of(lambda: bare.append(next(prepared))),
    }
    return laps | _peer_append(session, theirs)


def _peer_append(session: Session | None, turns: Iterator[tuple[str, str]]) -> dict[str, Lap]:
    if session is None:
        return {}
    return {"peer": lap_of(lambda: session.add_items(items_of(next(turns))))}


def _reading(store: Store, bare: BareSqlite, session: Session | None, recording: Recording) -> dict[str, Lap]:
    statements = calls(recording.last_ten, "sqlite")
    laps = {
        "ours": lap_of(lambda: store.last_messages(_LAST, scope=SCOPE)),
        "bare": sync_lap_of(lambda: bare.read(statements)),
    }
    return laps | ({} if session is None else {"peer": lap_of(lambda: session.get_items(_LAST))})


def _part(appended: dict[str, Timings], read: dict[str, Timings], note: str) -> Part:
    goals = [
        _goal("SQLite: append a turn of 2 messages, against bare APSW", 1.5, appended, "bare"),
        _goal("SQLite: append a turn of 2 messages, against SQLiteSession", 0.6, appended, "peer"),
        _goal("SQLite: read the last 10, against bare APSW", 2.0, read, "bare"),
        _goal("SQLite: read the last 10, against SQLiteSession", 0.4, read, "peer"),
    ]
    figures: dict[str, object] = {
        "sqlite_append": {name: timings.micros() for name, timings in appended.items()},
        "sqlite_read_last_10": {name: timings.micros() for name, timings in read.items()},
    }
    return Part(goals, figures, [note])


def _goal(name: str, limit: float, timings: dict[str, Timings], other: str) -> Goal:
    if other not in timings:
        return unmeasured(name, at_most(limit))
    measured = ratio(timings["ours"], timings[other])
    return ratio_goal(name, limit, measured, timings["ours"], timings[other])


def _note(folder: Path, session: Session | None) -> str:
    if session is None:
        return f"SQLiteSession was not measured because it is not installed: {INSTALL}"
    return (
        f"SQLiteSession commits with {durability(folder / 'peer.db')}; recollect and bare APSW with "
        "journal_mode=WAL, synchronous=FULL and secure_delete=ON. SQLiteSession writes no search rows."
    )
