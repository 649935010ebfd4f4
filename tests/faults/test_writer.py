"""The writer of a SQLite file: many tasks at once, failures, interrupts, locks, a full disk and kills."""

import asyncio
import contextlib
import json
import random
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Coroutine
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.faults.children import Child, forks, hold_the_pen, write_until_killed
from tests.faults.disks import write_alone_within_a_size_limit
from tests.faults.turns import SCOPES, Ack, Turn, check_whole, make_turn
from tests.support.databases import fast_folder
from tests.support.garbage import no_collection
from tests.support.profiles import IS_LONG
from tests.support.waiting import GENEROUS

from recollect import ConflictError, Message, Scope, Store, open_store
from recollect.errors import StorageBusyError, StorageUnavailableError
from recollect.storage.engine import Statement, Step, StorageEngine, Transaction
from recollect.storage.rows import thread_keys
from recollect.working_memory import Check

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

TASKS = 200
KILLS = 100 if IS_LONG else 10  # with the indexer, and as many without
INTERRUPTS = 60
LONGEST_TURN = 0.05  # seconds of processor time that a writer may take before another task runs
USUAL_TURN = 0.02
HARMLESS = (KeyboardInterrupt, asyncio.CancelledError)


class HalfDoneError(Exception):
    """Raised by a transaction of these tests after its first change."""


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty SQLite database, in a file and in memory."""
    return request.getfixturevalue("sqlite_url") if request.param == "file" else "sqlite://"


@pytest.mark.parametrize("seed", range(4))
async def test_each_of_200_tasks_gets_what_it_asked_for_when_they_write_at_once(url: str, seed: int) -> None:
    """Failures, conflicts, duplicates and cancellations leave the other writes whole, once and in order."""
    rng = random.Random(seed)
    async with open_store(url) as store:
        taken = make_turn(rng, "taken", scope=SCOPES[0])
        done: list[Ack] = [await taken.write(store)]
        kinds = [
            rng.choice(("turn", "turn", "again", "conflict", "half", "never", "during")) for _ in range(TASKS)
        ]
        turns = [make_turn(rng, f"{seed}-{number}") for number in range(TASKS)]
        tasks = [
            asyncio.create_task(_write_one(store, kind, turn, taken, done))
            for kind, turn in zip(kinds, turns, strict=True)
        ]
        for kind, task in zip(kinds, tasks, strict=True):
            if kind == "never":
                task.cancel()
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        for kind, task in zip(kinds, tasks, strict=True):
            if kind == "during":
                task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for kind, outcome in zip(kinds, outcomes, strict=True):
            assert _is_expected(kind, outcome), f"{kind}: {outcome!r}"
        await make_turn(rng, f"{seed}-last").write(store)  # a cancelled write may still be under way
        await check_whole(store, done)
        numbers = [number for ack in done for _, number in ack.places]
        assert numbers == sorted(numbers), "turns were not acknowledged in the order of commits"
        never = {turn.run_id for kind, turn in zip(kinds, turns, strict=True) if kind == "never"}
        assert not never & await _stored_runs(store), "a task that never ran has written something"
        assert not [event for scope in SCOPES for event in await store.list_events(scope=scope)]


async def _write_one(store: Store, kind: str, turn: Turn, taken: Turn, done: list[Ack]) -> None:
    if kind == "conflict":
        turn = taken._replace(scope=SCOPES[1])
    if kind == "half":
        await _fail_in_store(store, turn.scope)
    ack = await turn.write(store)
    done.append(ack)
    if kind == "again":
        assert await turn.write(store) == ack


async def _fail_in_store(store: Store, scope: Scope) -> None:
    """Run a transaction that fails after a change, which no call of the store does."""
    engine: StorageEngine = vars(store)["_engine"]
    await engine.write(partial(_fail_half_way, scope), tenant=scope.tenant_key)


def _fail_half_way(scope: Scope) -> Transaction[None]:
    event = {"number": 1, "name": "half", "run_id": None, "payload": "{}", "created_at": 0}
    keys = thread_keys(scope)
    yield Step((Statement("lock_user", keys), Statement("add_event", {**keys, **event})))
    raise HalfDoneError


def _is_expected(kind: str, outcome: object) -> bool:
    expected = {"conflict": ConflictError, "half": HalfDoneError, "never": asyncio.CancelledError}
    if kind in expected:
        return isinstance(outcome, expected[kind])
    return outcome is None or (kind == "during" and isinstance(outcome, asyncio.CancelledError))


async def _stored_runs(store: Store) -> set[str]:
    stored = [await store.last_messages(None, scope=scope) for scope in SCOPES]
    return {message.run_id or "" for messages in stored for message in messages}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("others", [0, 1, 8])
def test_store_goes_on_when_a_transaction_raises_what_ends_a_program(
    url: str, kind: type[BaseException], others: int
) -> None:
    """The transaction is rolled back, those beside it are committed, and nothing stays locked."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        store = loop.run_until_complete(_open(url))
        turns = [make_turn(random.Random(number), f"{number}") for number in range(others)]
        tasks = [loop.create_task(turn.write(store)) for turn in turns]
        ending = loop.create_task(store.update_working_memory({"a": 1}, check=_raiser(kind), scope=SCOPES[0]))
        assert isinstance(_run_through(loop, asyncio.wait([*tasks, ending]), kind), kind)
        assert isinstance(ending.exception(), kind)
        acks = [task.result() for task in tasks]
        loop.run_until_complete(_check_goes_on(store, acks))
        assert loop.run_until_complete(store.get_working_memory(scope=SCOPES[0])).version == 0
        _check_unlocked(url)
        loop.run_until_complete(asyncio.wait_for(store.close(), GENEROUS))


async def _open(url: str) -> Store:
    return await open_store(url)


def _raiser(kind: type[BaseException]) -> Check:
    def check(_: object) -> dict[str, object]:
        raise kind

    return check


def _run_through(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, object], kind: type[BaseException]
) -> BaseException | None:
    """Run something to its end however often it ends the loop, and return what did so."""
    task = asyncio.ensure_future(work, loop=loop)
    raised: BaseException | None = None
    while not task.done():
        try:
            loop.run_until_complete(task)
        except kind as error:
            raised = error
    return raised


async def _check_goes_on(store: Store, acks: list[Ack]) -> None:
    async with asyncio.timeout(GENEROUS):
        later = await make_turn(random.Random(1), "later").write(store)
        await asyncio.gather(*(store.set_state("calm", scope=scope) for scope in SCOPES))
        assert await check_whole(store, [*acks, later]) == len(acks) + 1


def _check_unlocked(url: str) -> None:
    """Have another process write: within this one the locks of SQLite do not count."""
    if url == "sqlite://":
        return
    over = forks.Event()
    over.set()
    with Child(hold_the_pen, url.removeprefix("sqlite:///"), over) as child:
        assert child.finish() == [b"holding"]


@pytest.mark.parametrize("writers", [1, 8])
def test_store_goes_on_when_signals_interrupt_it_anywhere(writers: int) -> None:
    """An exception of a signal handler, at any point of a write, blocks neither later writes nor closing."""
    with Child(write_through_interrupts, writers) as child:
        assert json.loads(child.finish()[0]) == {"blocked": 0}


def write_through_interrupts(line: Connection, writers: int) -> None:
    """Interrupt writers again and again, and report how often a later write, or closing, did not end."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    rng = random.Random(writers)
    with fast_folder() as folder:
        blocked = sum(_is_blocked(rng, folder / f"{n}.db", writers) for n in range(INTERRUPTS))
    line.send_bytes(json.dumps({"blocked": blocked}).encode())


def _is_blocked(rng: random.Random, path: Path, writers: int) -> bool:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # tasks end in the middle of something
    store = loop.run_until_complete(_open(f"sqlite:///{path}"))
    tasks = [loop.create_task(_write_for_long(store, writer)) for writer in range(writers)]
    with contextlib.suppress(*HARMLESS):
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.03))
        loop.run_until_complete(asyncio.wait(tasks, timeout=1))
    for task in tasks:
        task.cancel()
    later = loop.create_task(_write_and_close(store))
    for _ in range(writers + 2):  # each interrupted task ends the loop once more
        with contextlib.suppress(*HARMLESS):
            loop.run_until_complete(asyncio.wait([later], timeout=2))
    return not later.done()


async def _write_for_long(store: Store, writer: int) -> None:
    deadline = time.monotonic() + 0.5  # an interrupt may come where Python ignores it
    while time.monotonic() < deadline:
        await store.append_turn([Message("user", "word " * 100)], scope=Scope(1, "u", f"t{writer}"))


async def _write_and_close(store: Store) -> None:
    await store.append_turn([Message("user", "later")], scope=Scope(1, "u", "later"))
    await store.close()


async def test_another_task_runs_when_one_writes_again_and_again(sqlite_url: str) -> None:
    """A task whose writes never wait lets others run every few milliseconds."""
    turns: list[float] = []
    processor: list[float] = []

    async def watch() -> None:
        while True:
            started, used = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0)
            turns.append(time.perf_counter() - started)
            processor.append(time.thread_time() - used)

    async with open_store(sqlite_url) as store:
        with no_collection():
            task = asyncio.create_task(watch())
            for number in range(1000):
                await store.append_turn([Message("user", f"{number}")], scope=SCOPES[0])
            task.cancel()
    assert len(turns) > 10
    assert max(processor) < LONGEST_TURN
    assert statistics.median(turns) < USUAL_TURN


async def test_lone_write_waits_beside_the_loop_when_another_process_has_the_lock(sqlite_url: str) -> None:
    """It is written once the other is done, and the event loop goes on meanwhile."""
    over = forks.Event()
    async with open_store(sqlite_url) as store:
        acks = [await make_turn(random.Random(1), "before").write(store)]
        with Child(hold_the_pen, sqlite_url.removeprefix("sqlite:///"), over) as child:
            assert child.hear() == b"holding"
            write = asyncio.create_task(make_turn(random.Random(2), "lone").write(store))
            for _ in range(50):
                await asyncio.sleep(0.001)
            assert not write.done()
            assert await store.last_messages(1, scope=SCOPES[0]) is not None
            over.set()
            acks.append(await asyncio.wait_for(write, GENEROUS))
            child.finish()
        assert await check_whole(store, acks) == 2


async def test_lone_write_says_busy_when_another_process_keeps_the_lock(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `busy_seconds` it fails, writes nothing, and the next one succeeds once the file is free."""
    monkeypatch.setattr("recollect.storage.sqlite.writer._MIN_WAIT_SECONDS", 0.05)
    over = forks.Event()
    async with open_store(sqlite_url, busy_seconds=0.2) as store:
        with Child(hold_the_pen, sqlite_url.removeprefix("sqlite:///"), over) as child:
            assert child.hear() == b"holding"
            with pytest.raises(StorageBusyError):
                await make_turn(random.Random(1), "busy").write(store)
            over.set()
            child.finish()
        ack = await make_turn(random.Random(2), "free").write(store)
        assert await check_whole(store, [ack]) == 1


@pytest.mark.parametrize("failures", [1, 10**6], ids=["once", "for a while"])
async def test_store_says_so_and_goes_on_when_no_thread_can_be_started(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """Writes and reads that need a thread fail with our error; once threads can be started, all work."""
    left = [failures]
    start = threading.Thread.start

    def start_or_fail(thread: threading.Thread) -> None:
        if thread.name.startswith("recollect-") and left[0]:
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        start(thread)

    async with open_store(sqlite_url) as store:
        monkeypatch.setattr(threading.Thread, "start", start_or_fail)
        async with asyncio.timeout(GENEROUS):
            calls: list[Coroutine[Any, Any, object]] = [
                *(store.append_turn([Message("user", "many")], scope=scope) for scope in SCOPES[:4]),
                store.erase(scope=SCOPES[5]),
                store.last_messages(None, scope=SCOPES[5]),
            ]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
            assert failed
            assert all(isinstance(outcome, StorageUnavailableError) for outcome in failed)
            # A write that is alone at its time needs no thread; erasing and reading a whole thread always do.
            assert failures == 1 or all(isinstance(outcome, BaseException) for outcome in outcomes[-2:])
            left[0] = 0
            writes = (store.append_turn([Message("user", "later")], scope=scope) for scope in SCOPES[:4])
            assert len(await asyncio.gather(*writes)) == 4
            assert await store.last_messages(None, scope=SCOPES[0])
            assert (await store.erase(scope=SCOPES[0])).total


def test_lone_write_leaves_nothing_when_the_disk_is_full() -> None:
    """It fails on the loop's thread, is tried again beside it, says so, and works once there is room."""
    with fast_folder() as folder, Child(write_alone_within_a_size_limit, str(folder)) as child:
        seen = json.loads(child.finish()[0])
    assert seen["said"].startswith(("StorageFullError", "StorageUnavailableError"))
    assert seen["failures"], "no write was tried on the loop's thread"
    assert seen["kept"] == "ok"


@pytest.mark.parametrize("indexes", [False, True])
def test_acknowledged_turns_are_searchable_when_the_writer_is_killed(*, indexes: bool) -> None:
    """With the indexer and without, every acknowledged turn can be found, and no search row is left over."""
    rng = random.Random(f"{indexes}")
    acks: list[Ack] = []
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.db"
        for kill in range(KILLS):
            with Child(write_until_killed, url, f"{kill}", 12, indexes=indexes) as child:
                heard = [child.hear() for _ in range(rng.randint(1, 12))]
                heard += child.listen(rng.uniform(0, 0.05))
                heard += child.kill()
            acks += [Ack.from_bytes(line) for line in heard]
        asyncio.run(_check_acknowledged(url, acks))
        orphans, rows = _count_search_rows(Path(folder, "store.db"))
    assert orphans == 0
    assert (rows > 0) == indexes


async def _check_acknowledged(url: str, acks: list[Ack]) -> None:
    async with open_store(url) as store:
        assert await check_whole(store, acks) >= len(acks)
        for scope in SCOPES:
            for row in (await store.search_rows(scope=scope)).rows:
                assert (row.term_hashes is None) == (row.text is not None)


def _count_search_rows(path: Path) -> tuple[int, int]:
    """Count the search rows whose message is not there, and all of them."""
    connection: Any = apsw.Connection(str(path))
    orphans = "SELECT count(*) FROM search_rows WHERE place >> 8 NOT IN (SELECT number FROM messages)"
    counts = [
        connection.execute(query).fetchall()[0][0] for query in (orphans, "SELECT count(*) FROM search_rows")
    ]
    connection.close()
    return counts[0], counts[1]
