"""Who appends and reads on SQLite: the store, a fixed bare writer, a replay of the store, and a peer."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

from benchmarks.harness.fixed import FixedSqlite, prepare_fixed_turns
from benchmarks.harness.peers import INSTALL, Session, describe_durability, items_of, open_session
from benchmarks.harness.replay import BareSqlite, Recording, messages_of, prepare_calls, record
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import Lap, make_lap, make_sync_lap
from benchmarks.harness.undurable import without_durability
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.store import Store

SCOPE = Scope(1, "user", "conversation")
"""The thread that all contestants write to."""

_LAST = 10


@dataclass(slots=True)
class Contestants:
    """The laps of each contestant by name, and its file."""

    folder: Path
    appending: dict[str, Lap] = field(default_factory=dict[str, Lap])
    reading: dict[str, Lap] = field(default_factory=dict[str, Lap])

    @property
    def files(self) -> dict[str, Path]:
        """The database file of each contestant."""
        return {name: self.file_of(name) for name in self.appending}

    def file_of(self, name: str) -> Path:
        """Return the database file of a contestant."""
        return self.folder / f"{name}.db"

    def add(self, name: str, *, append: Lap, read: Lap) -> None:
        """Add a contestant."""
        self.appending[name], self.reading[name] = append, read


@asynccontextmanager
async def open_contestants(
    folder: Path, turns: int, *, is_durable: bool = True
) -> AsyncGenerator[Contestants]:
    """Open each contestant on a file of its own, with so many turns to write.

    Without durability all of them run with `synchronous=OFF`, and the peer, who offers no such setting, does
    not take part.
    """
    texts = SampleTexts().turns(turns)
    recording = await record(texts, [SCOPE])
    found = Contestants(folder)
    async with AsyncExitStack() as stack:
        with nullcontext() if is_durable else without_durability():
            store = await stack.enter_async_context(open_store(f"sqlite:///{found.file_of('ours')}"))
            fixed = FixedSqlite(found.file_of("fixed"), synchronous="FULL" if is_durable else "OFF")
            stack.callback(fixed.close)
            replay = BareSqlite(found.file_of("replay"))
            stack.callback(replay.close)
        found.add("ours", append=make_append_lap(store, texts), read=make_read_lap(store, repeat(SCOPE)))
        _add_fixed(found, fixed, texts)
        _add_replay(found, replay, recording)
        session = open_session(found.file_of("peer")) if is_durable else None
        if session is not None:
            stack.callback(session.close)
            _add_peer(found, session, texts)
        yield found


def make_append_lap(store: Store, turns: list[tuple[str, str]]) -> Lap:
    """Return a lap that makes the messages of a turn and appends them to the thread."""
    waiting = iter(turns)
    return make_lap(lambda: store.append_turn(messages_of(next(waiting)), scope=SCOPE))


def make_read_lap(store: Store, scopes: Iterator[Scope]) -> Lap:
    """Return a lap that reads the last ten messages of one thread after another."""
    return make_lap(lambda: store.last_messages(_LAST, scope=next(scopes)))


def _add_fixed(found: Contestants, fixed: FixedSqlite, texts: list[tuple[str, str]]) -> None:
    prepared = iter(prepare_fixed_turns(texts))
    found.add(
        "fixed",
        append=make_sync_lap(lambda: fixed.append(next(prepared))),
        read=make_sync_lap(fixed.read),
    )


def _add_replay(found: Contestants, replay: BareSqlite, recording: Recording) -> None:
    prepared = iter([prepare_calls(turn, "sqlite") for turn in recording.turns])
    last_ten = prepare_calls(recording.last_ten, "sqlite")
    found.add(
        "replay",
        append=make_sync_lap(lambda: replay.append(next(prepared))),
        read=make_sync_lap(lambda: replay.read(last_ten)),
    )


def _add_peer(found: Contestants, session: Session, texts: list[tuple[str, str]]) -> None:
    waiting = iter(texts)
    found.add(
        "peer",
        append=make_lap(lambda: session.add_items(items_of(next(waiting)))),
        read=make_lap(lambda: session.get_items(_LAST)),
    )


def describe_peer(found: Contestants) -> str:
    """Return the note on the peer: how durable it is, or that it is not installed."""
    if "peer" not in found.appending:
        return f"SQLiteSession was not measured because it is not installed: {INSTALL}"
    return (
        f"SQLiteSession commits with {describe_durability(found.file_of('peer'))}; recollect and the bare "
        "writers with journal_mode=WAL, synchronous=FULL and secure_delete=ON. SQLiteSession writes no "
        "search rows."
    )
