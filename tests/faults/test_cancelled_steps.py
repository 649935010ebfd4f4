"""Every call is cancelled at each of its awaits in turn: all or nothing, no leaks, and the store works on."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import apsw
import psutil
import pytest
from tests.support.databases import run_sql
from tests.support.embedders import Words
from tests.support.stepping import cancel_at
from tests.support.waiting import GENEROUS, until

from recollect import Agent, Memory, Message, Scope, Store, ToolCall, open_store
from recollect.messages import now
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.indexer import reindex
from recollect.storage.opening import sqlite_path

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

ANN, BOB = Scope(1, "ann", "t"), Scope(1, "bob", "t")
MESSAGES = 40
MOST_STEPS = 400
RUN = ["user", "assistant", "tool", "assistant"]

Check: TypeAlias = Callable[[Store], Coroutine[Any, Any, object]]


class Case(NamedTuple):
    """A call to be cancelled, and the check that it was done as a whole or not at all."""

    call: Callable[[Store], Coroutine[Any, Any, object]]
    check: Check


class Slow:
    """Answers in parts with pauses between, after it has called a tool."""

    async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Call the tool, or answer."""
        await asyncio.sleep(0)
        if messages[-1].role == "tool":
            for part in ("tea ", "it ", "is"):
                yield part
                await asyncio.sleep(0)
        else:
            yield ToolCall("c", "look")


async def look() -> str:
    """Look somewhere, which takes a while."""
    await asyncio.sleep(0)
    return "tea"


def _agent(store: Store) -> Agent:
    recall = {"top_k": 3, "scope": "resource"}
    memory = Memory(
        store, semantic_recall=recall, embedder=Words(), tenant_id=1, user_id="ann", thread_id="run"
    )
    return Agent(Slow(), memory=memory, tools=[look])


async def _generate(store: Store) -> object:
    return await _agent(store).generate("What do I drink?")


async def _stream(store: Store) -> object:
    return [event async for event in _agent(store).stream("What do I drink?")]


async def _check_run(store: Store) -> None:
    """The turn is whole or absent."""
    found = await store.last_messages(None, scope=ANN.with_thread("run"))
    assert [message.role for message in found] in ([], RUN)


async def _check_stream(store: Store) -> None:
    """The turn is whole, absent, or the beginning that the reader has received, with no call left open."""
    found = await store.last_messages(None, scope=ANN.with_thread("run"))
    roles = [message.role for message in found]
    assert roles == RUN[: len(roles)]
    assert sum(len(message.tool_calls) for message in found) >= sum(
        len(message.tool_results) for message in found
    )


async def _export(store: Store) -> list[str]:
    return [line async for line in store.export(scope=ANN)]


async def _import(store: Store) -> object:
    return await store.import_(await _export(store), scope=BOB)


async def _check_import(store: Store) -> None:
    assert len(await store.last_messages(None, scope=BOB)) in {0, MESSAGES}
    assert len(await store.list_memory(scope=BOB)) == bool(await store.get_thread(scope=BOB))


async def _check_all_there(store: Store) -> None:
    assert len(await store.last_messages(None, scope=ANN)) == MESSAGES


async def _reindex(store: Store) -> object:
    return await reindex(store, as_embedder(Words()), ["ann"], tenant_id=1, show=lambda _, __: None)


async def _check_search_rows(store: Store) -> None:
    assert len((await store.search_rows(scope=ANN)).rows) == MESSAGES
    await _check_all_there(store)


async def _erase(store: Store) -> object:
    return await store.erase(scope=ANN)


async def _purge(store: Store) -> object:
    return await store.purge()


async def _prune(store: Store) -> object:
    return await store.prune(now(), scope=ANN)


async def _delete(store: Store) -> object:
    return await store.delete_messages(["m1", "m2"], scope=ANN)


async def _check_some(store: Store) -> None:
    assert len(await store.last_messages(None, scope=ANN)) in {0, MESSAGES - 2, MESSAGES}


CASES = {
    "generate": Case(_generate, _check_run),
    "stream": Case(_stream, _check_stream),
    "export": Case(_export, _check_all_there),
    "import": Case(_import, _check_import),
    "reindex": Case(_reindex, _check_search_rows),
    "erase": Case(_erase, _check_some),
    "prune": Case(_prune, _check_some),
    "delete": Case(_delete, _check_some),
    "purge": Case(_purge, _check_all_there),
}


@pytest.mark.parametrize("name", CASES)
async def test_all_is_done_or_nothing_when_a_call_is_cancelled_at_any_step(
    store_url: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """For every await of a call: no half result, no task, thread, connection or transaction left."""
    case = CASES[name]
    with _no_complaint(caplog):
        for step in range(1, MOST_STEPS):
            async with open_store(store_url) as store:
                await _fill(store)
                before = asyncio.all_tasks()
                was_reached = await cancel_at(step, partial(case.call, store))
                await _settle(before)
                await case.check(store)
                await store.append_turn([Message("user", "afterwards")], scope=Scope(1, "eve", "t"))
                _check_no_transaction(store_url)
                await _clear(store)
            _check_no_threads()
            if not was_reached:
                break
        else:
            pytest.fail(f"{name} has more than {MOST_STEPS} steps")
    is_at_once = store_url == "sqlite://" or name in {"delete", "purge"}
    assert step > 1 or is_at_once, "nothing was cancelled"


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> str:
    """A database whose data survives that its store is closed, on each engine in turn."""
    return request.getfixturevalue({"file": "sqlite_url", "postgres": "postgres_url"}[request.param])


@pytest.mark.usefixtures("only_own_garbage")
@pytest.mark.parametrize("name", ["generate", "import", "erase"])
async def test_nothing_is_left_open_when_a_program_is_cancelled_at_any_step(
    url: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also while the store is opened or closed: no connection stays, and all is done or nothing."""
    case = CASES[name]

    async def run() -> None:
        async with open_store(url) as store:
            await case.call(store)

    usual = _count_connections(url)
    with _no_complaint(caplog):
        for step in range(1, MOST_STEPS):
            async with open_store(url) as store:
                await _fill(store)
            before = asyncio.all_tasks()
            was_reached = await cancel_at(step, run)
            await _settle(before)
            _check_no_threads()
            gc.collect()  # the cancelled task and its traceback hold what was being opened
            await until(lambda: _count_connections(url) <= usual)
            async with open_store(url) as store:
                await case.check(store)
                await _clear(store)
            if not was_reached:
                break
        else:
            pytest.fail(f"{name} has more than {MOST_STEPS} steps")
    assert step > 3, "opening and closing were not cancelled"


@contextmanager
def _no_complaint(caplog: pytest.LogCaptureFixture) -> Generator[None]:
    """Make sure that nothing is logged, and that no exception is left to the event loop."""
    troubles: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    yield
    assert not troubles
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


def _count_connections(url: str) -> int:
    """Count the open files of a SQLite database in this process, or the sessions of a server."""
    if url.startswith("sqlite"):
        name = str(Path(sqlite_path(url)).resolve())
        return sum(file.path.startswith(name) for file in psutil.Process().open_files())
    sessions = run_sql(
        url,
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend'",  # autovacuum comes by now and then
    )
    return len(sessions)


async def _fill(store: Store) -> None:
    messages = [Message("user", f"I drink tea {number}", id=f"m{number}") for number in range(MESSAGES)]
    await store.append_turn(messages, scope=ANN)
    await store.set_memory("likes", {"drink": "tea"}, scope=ANN)


async def _clear(store: Store) -> None:
    for name in ("ann", "bob", "eve"):
        await store.erase(scope=Scope(1, name))


async def _settle(before: set[asyncio.Task[Any]]) -> None:
    """Wait until what outlives its caller has ended: writes under way and background tasks."""
    async with asyncio.timeout(GENEROUS):
        while left := asyncio.all_tasks() - before:
            await asyncio.wait(left)


def _check_no_transaction(url: str) -> None:
    if url == "sqlite://":
        return
    if url.startswith("sqlite"):
        connection: Any = apsw.Connection(sqlite_path(url))
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
        connection.close()
        return
    assert not run_sql(
        url,
        "SELECT pid, state FROM pg_stat_activity WHERE datname = current_database() "
        "AND state LIKE 'idle in transaction%'",
    )


def _check_no_threads() -> None:
    """A closed store has ended its threads."""
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith(("recollect-writer", "recollect-reader"))]
