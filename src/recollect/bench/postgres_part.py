"""PostgreSQL: appending a turn and reading the last ten, against bare psycopg under the same tenant rules."""

from recollect.bench.recorder import Call, Recording, calls, messages_of, record
from recollect.bench.report import Part, Tick, ratio_goal
from recollect.bench.server import Server
from recollect.bench.sizes import Sizes
from recollect.bench.sqlite_part import SCOPE
from recollect.bench.texts import Talk
from recollect.bench.timing import Lap, Timings, lap_of, race, ratio
from recollect.storage.opening import open_store
from recollect.storage.postgres.connection import Connection, prepare
from recollect.storage.store import Store

_LIMIT = 1.5
_SET_TENANT = "SELECT set_config('recollect.tenant_id', %s, true)"


class BarePostgres:
    """One psycopg connection that runs prepared statements, each awaited, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        """Take over a connection to a database with the store's own tables."""
        self._connection = connection

    async def run(self, statements: list[Call]) -> None:
        """Run statements in one transaction of the tenant."""
        connection = self._connection
        async with connection.transaction():
            await connection.execute(_SET_TENANT, (str(SCOPE.tenant_key),))
            for sql, params, many in statements:
                if many:
                    await connection.cursor().executemany(sql, params)
                    continue
                cursor = await connection.execute(sql, params, binary=True)
                if cursor.description:
                    await cursor.fetchall()


async def measure(server: Server, sizes: Sizes, tick: Tick) -> Part:
    """Measure appending and reading."""
    import psycopg

    turns = Talk().turns(sizes.turns)
    recording = await record(turns, [SCOPE])
    with server.database("ours") as ours, server.database("bare") as theirs:
        await prepare(theirs)
        async with (
            open_store(ours) as store,
            await psycopg.AsyncConnection.connect(theirs, autocommit=True) as connection,
        ):
            bare = BarePostgres(connection)
            appended = await race(
                _appending(store, bare, turns, recording),
                rounds=sizes.rounds,
                tries=sizes.tries,
                tick=lambda done: tick(done / 2),
                warm_up=sizes.warm_up,
            )
            read = await race(
                _reading(store, bare, recording),
                rounds=sizes.rounds,
                tries=sizes.tries,
                tick=lambda done: tick(0.5 + done / 2),
            )
    return _part(appended, read)


def _appending(
    store: Store, bare: BarePostgres, turns: list[tuple[str, str]], recording: Recording
) -> dict[str, Lap]:
    ours = iter(turns)
    prepared = iter([calls(turn, "postgres") for turn in recording.turns])
    return {
        "ours": lap_of(lambda: store.append_turn(messages_of(next(ours)), scope=SCOPE)),
        "bare": lap_of(lambda: bare.run(next(prepared))),
    }


def _reading(store: Store, bare: BarePostgres, recording: Recording) -> dict[str, Lap]:
    statements = calls(recording.last_ten, "postgres")
    return {
        "ours": lap_of(lambda: store.last_messages(10, scope=SCOPE)),
        "bare": lap_of(lambda: bare.run(statements)),
    }


def _part(appended: dict[str, Timings], read: dict[str, Timings]) -> Part:
    names = {
        "PostgreSQL: append a turn of 2 messages, against bare psycopg": appended,
        "PostgreSQL: read the last 10, against bare psycopg": read,
    }
    goals = [
        ratio_goal(name, _LIMIT, ratio(found["ours"], found["bare"]), found["ours"], found["bare"])
        for name, found in names.items()
    ]
    figures: dict[str, object] = {
        "postgres_append": {name: timings.micros() for name, timings in appended.items()},
        "postgres_read_last_10": {name: timings.micros() for name, timings in read.items()},
    }
    return Part(goals, figures)
