"""A PostgreSQL server restarts in the middle of runs and of long work; nobody opens a store again."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import pytest
from tests.faults.servers import OwnServer
from tests.support.embedders import Words
from tests.support.profiles import IS_LONG
from tests.support.waiting import GENEROUS

from recollect import Agent, Memory, Message, Scope, Store, open_store
from recollect.errors import StorageUnavailableError
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.indexer import reindex
from recollect.testing import ScriptedModel

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.faults,
    pytest.mark.postgres,
    pytest.mark.xdist_group("own_server"),
    pytest.mark.usefixtures("impatient_pools"),
    pytest.mark.timeout(600),
]

Work: TypeAlias = Callable[[Store], Coroutine[Any, Any, object]]
Check: TypeAlias = Callable[[Store], Coroutine[Any, Any, int]]

RESTARTS = 8 if IS_LONG else 1
MESSAGES = 1500
ANN, BOB = Scope(1, "ann", "t"), Scope(1, "bob", "t")


async def test_chats_go_on_when_the_server_restarts_in_the_middle_of_runs(
    own_server: OwnServer, own_url: str
) -> None:
    """Every prompt is answered, each turn that was called saved is there, and later ones are saved again."""
    rng = random.Random(1)
    async with Memory(own_url, semantic_recall=True, embedder=None, tenant_id=1) as memory:
        agent = Agent(ScriptedModel("yes"), memory=memory)
        over = asyncio.Event()
        chats = [asyncio.create_task(_chat(agent, f"user {number}", over)) for number in range(3)]
        for _ in range(RESTARTS):
            await asyncio.sleep(rng.uniform(0, 0.3))
            await asyncio.to_thread(_restart, own_server, rng)
            await _wait_until_saved(agent)
        over.set()
        saved = await asyncio.gather(*chats)
    async with open_store(own_url) as store:
        for number, prompts in enumerate(saved):
            assert prompts, "nothing was saved"
            found = await store.last_messages(None, scope=Scope(1, f"user {number}", "t"))
            assert set(prompts) <= {message.text for message in found if message.role == "user"}
            assert [m.role for m in found] == ["user", "assistant"] * (len(found) // 2), "half a turn"


async def _wait_until_saved(agent: Agent) -> None:
    async with asyncio.timeout(GENEROUS):
        is_saved = False
        while not is_saved:
            result = await agent.generate("hello?", tenant_id=1, resource_id="eve", thread_id="t")
            is_saved = result.saved


async def _chat(agent: Agent, user: str, over: asyncio.Event) -> list[str]:
    """Ask again and again; return the prompts whose turns were called saved."""
    saved: list[str] = []
    number = 0
    while not over.is_set():
        number += 1
        prompt = f"question {number}"
        result = await agent.generate(prompt, tenant_id=1, resource_id=user, thread_id="t")
        assert result.text == "yes"
        saved += [prompt] if result.saved else []
        await asyncio.sleep(0.01)
    return saved


async def _export(store: Store) -> list[str]:
    return [line async for line in store.export(scope=ANN)]


async def _import(store: Store) -> object:
    return await store.import_(await _export(store), scope=BOB)


async def _reindex(store: Store) -> object:
    return await reindex(store, as_embedder(Words()), ["ann"], tenant_id=1, show=lambda _, __: None)


async def _erase(store: Store) -> object:
    return await store.erase(scope=ANN)


async def _count_ann(store: Store) -> int:
    return await store.count_user_history(scope=ANN)


async def _count_bob(store: Store) -> int:
    return await store.count_user_history(scope=BOB)


@pytest.mark.parametrize(
    ("work", "count", "whole"),
    [
        (_import, _count_bob, {0, MESSAGES}),
        pytest.param(_export, _count_ann, {MESSAGES}, marks=pytest.mark.long),
        pytest.param(_reindex, _count_ann, {MESSAGES}, marks=pytest.mark.long),
        pytest.param(_erase, _count_ann, {0, MESSAGES}, marks=pytest.mark.long),
    ],
)
async def test_long_work_is_done_or_not_when_the_server_restarts_in_the_middle(
    own_server: OwnServer, own_url: str, work: Work, count: Check, whole: set[int]
) -> None:
    """It succeeds or says that the server was away; the same store does it afterwards."""
    rng = random.Random(work.__name__)
    async with open_store(own_url, pool_size=2) as store:
        for _ in range(RESTARTS):
            await _fill(store)
            working = asyncio.create_task(work(store))
            await asyncio.sleep(rng.uniform(0, 0.15))
            await asyncio.to_thread(_restart, own_server, rng)
            async with asyncio.timeout(GENEROUS):
                (outcome,) = await asyncio.gather(working, return_exceptions=True)
                if isinstance(outcome, BaseException):
                    assert isinstance(outcome, StorageUnavailableError), repr(outcome)
                assert await _try_until_there(lambda: count(store)) in whole
                await _try_until_there(lambda: _clear(store))
                await _fill(store)
                await work(store)
                await _clear(store)


def _restart(server: OwnServer, rng: random.Random) -> None:
    if rng.random() < 0.5:
        server.kill()
    else:
        server.stop_at_once()
    server.start()


async def _try_until_there(call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401 - what the call returns
    while True:
        try:
            return await call()
        except StorageUnavailableError:
            await asyncio.sleep(0.05)


async def _fill(store: Store) -> None:
    for start in range(0, MESSAGES, 500):
        messages = [Message("user", f"word {number}") for number in range(start, start + 500)]
        await store.append_turn(messages, scope=ANN)


async def _clear(store: Store) -> None:
    for scope in (ANN, BOB):
        await store.erase(scope=scope)
