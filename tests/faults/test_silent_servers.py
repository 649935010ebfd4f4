"""PostgreSQL servers that hold locks, stand still or are away: a call ends in time, and only one waits."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import asynccontextmanager, contextmanager

import psycopg
import pytest
from tests.faults.servers import OwnServer
from tests.support.databases import run_sql
from tests.support.waiting import GENEROUS

from recollect import Agent, Memory, Message, Scope, Store, open_store
from recollect.errors import StorageBusyError, StorageUnavailableError
from recollect.testing import ScriptedModel

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.faults,
    pytest.mark.postgres,
    pytest.mark.xdist_group("own_server"),
]

SCOPE = Scope(1, "ann", "chat")
LIMIT = 2.0
SLACK = 3.0  # for a machine that does other things too, and for imports
PIDS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = 'faults' AND pid <> pg_backend_pid() "
    "AND backend_type = 'client backend'"
)


@pytest.fixture
async def store(own_url: str) -> AsyncGenerator[Store]:
    """A store whose calls wait for two seconds; a user has said something in it."""
    async with open_store(own_url, busy_seconds=LIMIT) as opened:
        await opened.append_turn([Message("user", "before")], scope=SCOPE)
        yield opened


async def test_write_says_busy_in_time_when_a_transaction_holds_the_row(own_url: str, store: Store) -> None:
    """Others go on meanwhile, and the same write succeeds once the row is free."""
    async with _locked_user(own_url):
        with pytest.raises(StorageBusyError, match="holds a lock"):
            await _within(store.append_turn([Message("user", "held")], scope=SCOPE))
        other = Scope(1, "bob", "chat")
        assert await _within(store.append_turn([Message("user", "free")], scope=other), 1.0)
        assert len(await store.last_messages(5, scope=SCOPE)) == 1
    assert await store.append_turn([Message("user", "after")], scope=SCOPE)


async def test_only_the_first_call_waits_when_the_server_stands_still(own_url: str, store: Store) -> None:
    """A heavy call too; when the server goes on, so does the store, without being opened again."""
    with _stopped(own_url):
        with pytest.raises(StorageUnavailableError, match="did not answer within 2 s"):
            await _within(store.last_messages(None, scope=SCOPE))
        for _ in range(3):
            with pytest.raises(StorageUnavailableError):
                await _within(store.last_messages(5, scope=SCOPE), 0.5)
    await _until_answered(store)


async def test_calls_go_on_when_only_the_old_connections_stand_still(own_url: str, store: Store) -> None:
    """A probe reaches the server by a new connection, and none of the old ones is tried again."""
    await asyncio.gather(*(store.last_messages(5, scope=SCOPE) for _ in range(20)))
    with _stopped(own_url):
        with pytest.raises(StorageUnavailableError, match="may still be stored"):
            await _within(store.append_turn([Message("user", "lost")], scope=SCOPE))
        await _until_answered(store)
        for _ in range(10):
            await _within(store.last_messages(5, scope=SCOPE), 1.0)


async def test_store_closes_when_a_cancelled_call_waits_for_a_silent_server(own_url: str) -> None:
    """The call ends by its time limit, although nobody waits for it any more."""
    store = await open_store(own_url, busy_seconds=LIMIT)
    with _stopped(own_url):
        call = asyncio.create_task(store.append_turn([Message("user", "lost")], scope=SCOPE))
        await asyncio.sleep(0.1)
        call.cancel()
        await _within(store.close(), 2 * LIMIT + SLACK)


async def test_long_work_is_not_cut_when_it_takes_longer_than_the_limit(own_url: str) -> None:
    """An export has no limit once it has begun, and a quick call beside it still has one."""
    async with open_store(own_url, busy_seconds=0.5) as store:
        await store.append_turn([Message("user", "before")], scope=SCOPE)
        run_sql(
            own_url,
            "ALTER TABLE recollect.messages RENAME TO slow_messages",
            "CREATE VIEW recollect.messages AS SELECT slow_messages.* "
            "FROM recollect.slow_messages, pg_sleep(1.2)",
        )
        exported = [line async for line in store.export(scope=SCOPE)]
        assert any("before" in line for line in exported)
        with pytest.raises(StorageBusyError, match="cancelled the statement"):
            await store.last_messages(5, scope=SCOPE)


@pytest.mark.usefixtures("impatient_pools")
async def test_chat_answers_after_one_wait_when_the_server_is_away(
    own_server: OwnServer, own_url: str
) -> None:
    """Reads and the write together wait once, also where the store was never opened; later it saves again."""
    opened, fresh = (
        Memory(own_url, tenant_id=1, user_id="ann", semantic_recall=True, working_memory="Name: {{name}}")
        for _ in range(2)
    )
    agents = [Agent(ScriptedModel("fine"), memory=memory) for memory in (opened, fresh)]
    assert (await agents[0].generate("hi", thread_id="t")).saved
    own_server.stop_at_once()
    for agent in agents:
        started = time.monotonic()
        result = await agent.generate("hi", thread_id="t")
        assert (result.text, result.saved) == ("fine", False)
        assert time.monotonic() - started < LIMIT + SLACK
    own_server.start()
    for agent in agents:
        await _until_saved(agent)
    await opened.close()
    await fresh.close()


@pytest.mark.usefixtures("impatient_pools")
async def test_chat_answers_after_one_wait_when_the_server_swallows_what_is_sent() -> None:
    """A store that cannot even be opened is waited for once, not by each read and again by the write."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://ann@127.0.0.1:{silent.getsockname()[1]}/db"
        memory = Memory(
            url, tenant_id=1, user_id="ann", semantic_recall=True, working_memory="Name: {{name}}"
        )
        started = time.monotonic()
        result = await Agent(ScriptedModel("fine"), memory=memory).generate("hi", thread_id="t")
        assert (result.text, result.saved) == ("fine", False)
        assert time.monotonic() - started < LIMIT + SLACK
        await memory.close()


async def test_any_text_is_stored_when_the_environment_names_another_encoding(
    own_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's encoding is ours to choose: PGCLIENTENCODING does not decide which characters fit."""
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    async with open_store(own_url) as store:
        await store.append_turn([Message("user", "Ω 漢字 🙂")], scope=SCOPE)
        assert [message.text for message in await store.last_messages(1, scope=SCOPE)] == ["Ω 漢字 🙂"]


async def _within(call: Awaitable[object], seconds: float = LIMIT + SLACK) -> object:
    async with asyncio.timeout(seconds):
        return await call


async def _until_answered(store: Store) -> None:
    async with asyncio.timeout(GENEROUS):
        while True:
            try:
                await store.last_messages(1, scope=SCOPE)
            except StorageUnavailableError:
                await asyncio.sleep(0.05)
            else:
                return


async def _until_saved(agent: Agent) -> None:
    async with asyncio.timeout(GENEROUS):
        while not (await agent.generate("again", thread_id="t")).saved:  # noqa: ASYNC110 - a server has no events
            await asyncio.sleep(0.05)


@asynccontextmanager
async def _locked_user(url: str) -> AsyncGenerator[None]:
    """Have an idle transaction hold the row of a user."""
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("SELECT set_config('recollect.tenant_id', '1', true)")
        await other.execute("SELECT 1 FROM recollect.users WHERE user_id = 'ann' FOR UPDATE")
        yield
        await other.rollback()


@contextmanager
def _stopped(url: str) -> Generator[None]:
    """Stop the server's processes that serve the database."""
    pids = [pid for (pid,) in run_sql(url, PIDS)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
