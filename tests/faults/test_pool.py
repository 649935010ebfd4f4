"""Many callers on few PostgreSQL connections."""

import asyncio
import random
import subprocess
import sys
import threading
from typing import Any, Self

import psycopg
import pytest
from tests.faults.turns import SCOPES, Ack, check_whole, make_turn

from recollect import Store, open_store

pytestmark = [pytest.mark.anyio, pytest.mark.faults, pytest.mark.postgres]

POOL = 5
CALLERS = 200


async def test_all_are_served_when_200_callers_share_a_pool_of_5(new_postgres_url: str) -> None:
    """Readers and writers all succeed, and the server never sees more than five connections of the store."""
    async with open_store(new_postgres_url, pool_size=POOL) as store:
        with _Census(new_postgres_url) as census:
            outcomes = await asyncio.gather(*(_call(store, number) for number in range(CALLERS)))
        acks = [outcome for outcome in outcomes if isinstance(outcome, Ack)]
        assert len(acks) == CALLERS // 2
        assert await check_whole(store, acks) == len(acks)
    assert census.counts
    assert 1 <= max(census.counts) <= POOL


async def test_all_are_served_when_200_callers_write_to_one_user(postgres_url: str) -> None:
    """Writes of one user happen one after the other, and nobody waits in vain."""
    rng = random.Random(2)
    async with open_store(postgres_url, pool_size=POOL) as store:
        turns = [make_turn(rng, f"{number}", scope=SCOPES[number % 2]) for number in range(CALLERS)]
        acks = await asyncio.gather(*(turn.write(store) for turn in turns))
        assert await check_whole(store, acks) == CALLERS
        numbers = [number for ack in acks for _, number in ack.places]
        assert len(set(numbers)) == len(numbers)


async def _call(store: Store, number: int) -> object:
    """Write as one of two callers, read as the other, three times as much."""
    if number % 2:
        return await make_turn(random.Random(number), f"{number}").write(store)
    for scope in SCOPES[:3]:
        await store.last_messages(10, scope=scope)
    return None


class _Census:
    """Counts the store's connections again and again, on a thread and a connection of its own."""

    def __init__(self, url: str) -> None:
        self.counts: list[int] = []
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._count)

    def _count(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self.counts or not self._over.is_set():
                rows: list[Any] = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                    "AND backend_type = 'client backend'"  # autovacuum comes by now and then
                ).fetchall()
                self.counts.append(rows[0][0])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


ENDING = """
import asyncio
from recollect.storage.postgres.connection import open_pool

async def main():
    asked = asyncio.Event()
    async def listen(reader, writer):
        await reader.read(1)
        asked.set()
        await asyncio.sleep(60)
    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pool = await open_pool(f"postgresql://ada@127.0.0.1:{port}/chat", 2)
    await asked.wait()

asyncio.run(main())
print("ended")
"""
"""A program whose event loop ends while its pool waits for a server that does not answer."""


def test_event_loop_ends_while_the_pool_is_connecting() -> None:
    """A program that did not close its store does not hang at its end."""
    done = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


FORGETTING = """
import gc, sys
from recollect import Agent, Memory

for number in range(10):
    agent = Agent("offline", memory=Memory(sys.argv[1]))
    assert agent.sync.generate("hi", user_id="ada").saved
    agent.itself = agent
    del agent
    gc.collect()
print("ended")
"""
"""A program that makes agents, and forgets them without a word."""


def test_pool_of_a_forgotten_agent_is_closed_in_order(postgres_url: str) -> None:
    """Nobody complains, and no connection is left."""
    done = subprocess.run(
        [sys.executable, "-c", FORGETTING, postgres_url],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
