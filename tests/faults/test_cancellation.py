"""Tasks are cancelled at random points: a turn is whole or absent, and the store works on."""

import asyncio
import random
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.faults.turns import SCOPES, USERS, Ack, check_whole, make_turn
from tests.support.databases import run_sql
from tests.support.profiles import count_examples
from tests.support.waiting import GENEROUS

from recollect import Store, open_store
from recollect.storage.sqlite.connection import connect

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

ROUNDS = count_examples(2)
LONGEST_WAIT = 0.004  # seconds until a task is cancelled; an append takes less


@pytest.fixture(params=["file", "memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> str:
    """An empty database on each engine in turn."""
    fixture = {"file": "sqlite_url", "postgres": "postgres_url"}.get(request.param)
    return "sqlite://" if fixture is None else request.getfixturevalue(fixture)


@pytest.mark.parametrize("writers", [1, 6])
async def test_turns_are_whole_or_absent_when_writers_are_cancelled(url: str, writers: int) -> None:
    """Cancelled alone or in the middle of a batch, no turn is half there and no acknowledged one is lost."""
    rng = random.Random(f"{writers}")
    acks: list[Ack] = []
    cancelled = 0
    async with open_store(url, pool_size=3) as store:
        for number in range(ROUNDS):
            turns = [make_turn(rng, f"{number}-{writer}") for writer in range(writers)]
            tasks = [asyncio.create_task(turn.write(store)) for turn in turns]
            outcomes = await _cancelled_on_the_way(rng, tasks)
            acks += [outcome for outcome in outcomes if isinstance(outcome, Ack)]
            cancelled += len(tasks) - len(outcomes)
        acks.append(await make_turn(rng, "afterwards").write(store))
        await _check_at_the_end(url, store, acks)
    assert cancelled > ROUNDS // 10  # even if only those are that had not begun


async def test_turns_are_whole_or_absent_when_calls_time_out(url: str) -> None:
    """A timeout around a call is a cancellation like any other."""
    rng = random.Random(3)
    acks: list[Ack] = []
    async with open_store(url) as store:
        for number in range(ROUNDS):
            try:
                async with asyncio.timeout(rng.uniform(0, LONGEST_WAIT)):
                    acks.append(await make_turn(rng, f"{number}").write(store))
            except TimeoutError:
                continue
        acks.append(await make_turn(rng, "afterwards").write(store))
        await _check_at_the_end(url, store, acks)


async def test_reads_work_on_when_readers_are_cancelled(url: str) -> None:
    """Quick and long reads that were cancelled take no connection with them."""
    rng = random.Random(4)
    async with open_store(url, pool_size=2) as store:
        for number in range(30):
            await make_turn(rng, f"{number}", words=200).write(store)
        for _ in range(ROUNDS):
            tasks = [asyncio.create_task(_some_read(rng, store)) for _ in range(4)]
            await _cancelled_on_the_way(rng, tasks)
        async with asyncio.timeout(GENEROUS):
            first, second = await asyncio.gather(*(store.last_messages(None, scope=SCOPES[0]) for _ in "ab"))
        assert first == second
        assert await check_whole(store, []) == 30


@pytest.mark.parametrize("writers", [1, 6])
async def test_store_closes_at_once_when_writers_gave_up_on_a_busy_file(tmp_path: Path, writers: int) -> None:
    """Nobody waits for the rest of the time that a writer has for a write that nobody wants any more."""
    rng = random.Random(6)
    path = tmp_path / "busy.db"
    async with open_store(f"sqlite:///{path}", busy_seconds=600) as store:
        ack = await make_turn(rng, "before").write(store)
        other = connect(str(path))
        other.execute("BEGIN IMMEDIATE")
        tasks = [asyncio.create_task(make_turn(rng, f"{n}").write(store)) for n in range(writers)]
        await asyncio.sleep(0.2)
        for task in tasks:
            task.cancel()
        async with asyncio.timeout(GENEROUS):
            await asyncio.wait(tasks)
            await store.close()
        other.close()
    async with open_store(f"sqlite:///{path}") as store:
        assert await check_whole(store, [ack]) == 1


@pytest.mark.parametrize("writers", [1, 6])
async def test_others_can_write_at_once_when_writers_were_cancelled(tmp_path: Path, writers: int) -> None:
    """Cancelled tasks leave no open transaction on a SQLite file."""
    rng = random.Random(5)
    other = _impatient_connection(tmp_path / "store.db")
    async with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        for number in range(40):
            tasks = [
                asyncio.create_task(make_turn(rng, f"{number}-{writer}").write(store))
                for writer in range(writers)
            ]
            await _cancelled_on_the_way(rng, tasks)
            await make_turn(rng, f"{number}-next").write(store)  # what was under way is done before this
            other.execute("BEGIN IMMEDIATE; ROLLBACK")
            assert not [row for row in other.execute("PRAGMA wal_checkpoint(TRUNCATE)") if row[0]]
    other.close()


@pytest.mark.postgres
async def test_no_transaction_stays_open_when_tasks_were_cancelled(postgres_url: str) -> None:
    """PostgreSQL shows no session that is idle in a transaction, and no call was left running."""
    rng = random.Random(6)
    async with open_store(postgres_url, pool_size=4) as store:
        for number in range(ROUNDS):
            calls = [make_turn(rng, f"{number}-{writer}").write(store) for writer in range(3)]
            tasks = [asyncio.create_task(call) for call in (*calls, _some_read(rng, store))]
            await _cancelled_on_the_way(rng, tasks)
        await asyncio.gather(*(store.set_state("calm", scope=scope) for scope in USERS))
        async with asyncio.timeout(GENEROUS):
            while sessions := _busy_sessions(postgres_url):
                await store.epoch(scope=USERS[0])
        assert not sessions


async def test_nothing_is_logged_when_a_cancelled_write_fails(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A write that fails after its caller has left is nobody's error any more."""
    troubles: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    turn = make_turn(random.Random(1), "taken", scope=SCOPES[0])
    async with open_store(url) as store:
        await turn.write(store)
        for _ in range(20):
            elsewhere = asyncio.create_task(turn._replace(scope=SCOPES[1]).write(store))
            await asyncio.sleep(0)
            elsewhere.cancel()
            await asyncio.gather(elsewhere, return_exceptions=True)
        await store.last_messages(1, scope=SCOPES[0])
    assert not troubles
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


async def test_closing_again_closes_when_the_first_try_was_cancelled(tmp_path: Path) -> None:
    """After a cancelled close the next one lets go of the file."""
    path = tmp_path / "store.db"
    store = await open_store(f"sqlite:///{path}")
    writes = [asyncio.create_task(make_turn(random.Random(n), f"{n}").write(store)) for n in range(20)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, *writes, return_exceptions=True)
    async with asyncio.timeout(GENEROUS):
        await store.close()
    assert not path.with_name("store.db-wal").exists(), "the last connection to a file removes its log"


async def test_closing_ends_when_writers_are_cancelled_meanwhile(url: str) -> None:
    """Closing waits for what is under way and for nothing else."""
    rng = random.Random(8)
    for number in range(10):
        store = await open_store(url)
        tasks = [asyncio.create_task(make_turn(rng, f"{number}-{n}").write(store)) for n in range(12)]
        await asyncio.sleep(rng.uniform(0, LONGEST_WAIT))
        for task in rng.sample(tasks, 6):
            task.cancel()
        async with asyncio.timeout(GENEROUS):
            await store.close()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _check_at_the_end(url: str, store: Store, acks: list[Ack]) -> None:
    """Check the turns once nothing goes on any more: a write may outlive its cancelled caller.

    Closing waits for such writes. In memory they happen one after the other, so that the last was the last.
    """
    if url == "sqlite://":
        await check_whole(store, acks)
        return
    await store.close()
    async with open_store(url) as opened:
        await check_whole(opened, acks)


async def _cancelled_on_the_way(rng: random.Random, tasks: list[asyncio.Task[Any]]) -> list[object]:
    """Cancel most of the tasks, a few ticks of the event loop or some time later, and return other results.

    Some are cancelled twice, as happens where a timeout and a shutdown meet.
    """
    for task in tasks:
        if rng.random() < 0.4:
            asyncio.get_running_loop().call_later(rng.uniform(0, LONGEST_WAIT), task.cancel)
    for _ in range(rng.randrange(4)):
        await asyncio.sleep(0)
    for task in tasks:
        if rng.random() < 0.4:
            task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    failed = [
        outcome
        for outcome in outcomes
        if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError)
    ]
    assert not failed
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


async def _some_read(rng: random.Random, store: Store) -> object:
    scope = rng.choice(SCOPES)
    match rng.randrange(6):
        case 0:
            return await store.last_messages(10, scope=scope)
        case 1:
            return await store.last_messages(None, scope=scope)
        case 2:
            return await store.user_history(scope=scope)
        case 3:
            return await store.search_rows(scope=scope)
        case 4:
            return await store.messages_by_id(["1/1#0"], with_previous=2, with_next=2, scope=scope)
        case _:
            return [line async for line in store.export(scope=scope)]


def _impatient_connection(path: Path) -> Any:  # noqa: ANN401 - an apsw.Connection, whose types are incomplete
    connection: Any = apsw.Connection(str(path))
    connection.set_busy_timeout(0)
    return connection


def _busy_sessions(url: str) -> list[tuple[Any, ...]]:
    return run_sql(
        url,
        "SELECT pid, state, query FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND state <> 'idle'",
    )
