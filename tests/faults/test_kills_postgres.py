"""Writers and the server itself are killed at random moments: PostgreSQL keeps what was acknowledged."""

import asyncio
import random

import pytest
from tests.faults.children import Child, write_through_outages, write_until_killed
from tests.faults.servers import OwnServer
from tests.faults.turns import Ack, check_whole, make_turn
from tests.support.databases import run_sql

from recollect import Store, open_store

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.timeout(120)]

CLIENT_KILLS = 24
SERVER_KILLS = 6
LONGEST_LIFE = 0.15  # seconds that a child goes on writing after its first turn


def test_acknowledged_turns_survive_when_the_writer_is_killed(postgres_url: str) -> None:
    """Every acknowledged turn is there, every stored one is whole, and no lock is left behind."""
    rng = random.Random(7)
    acks: list[Ack] = []
    for kill in range(CLIENT_KILLS):
        with Child(write_until_killed, postgres_url, f"c{kill}", 12) as child:
            seconds = rng.uniform(0, LONGEST_LIFE)
            heard = (
                child.listen(seconds / 3) if rng.random() < 0.25 else [child.hear(), *child.listen(seconds)]
            )
            heard += child.kill()
        acks += [Ack.from_bytes(line) for line in heard]
        acks.append(asyncio.run(_check_and_append(postgres_url, acks, f"c{kill}-after")))
    assert len(acks) > 3 * CLIENT_KILLS, "the writers were killed before they wrote anything to speak of"


@pytest.mark.xdist_group("own_server")
def test_acknowledged_turns_survive_when_the_server_is_killed(own_server: OwnServer, own_url: str) -> None:
    """A writer lives through kills and immediate shutdowns of its server without opening its store anew."""
    rng = random.Random(8)
    heard: list[bytes] = []
    with Child(write_through_outages, own_url, "s") as child:
        for kill in range(SERVER_KILLS):
            heard += [_next_ack(child, heard), *child.listen(rng.uniform(0, LONGEST_LIFE))]
            (own_server.kill if kill % 2 else own_server.stop_at_once)()
            heard += child.listen(rng.uniform(0, LONGEST_LIFE))
            own_server.start()
        heard += [_next_ack(child, heard), *child.kill()]
    acks = [Ack.from_bytes(line[1:]) for line in heard if line.startswith(b"+")]
    assert not [line for line in heard if line.startswith(b"!")], "a call failed with another error"
    assert b"-" in heard, "no call noticed that the server was gone"
    asyncio.run(_check_and_append(own_url, acks, "s-after"))


def _next_ack(child: Child, heard: list[bytes]) -> bytes:
    """Wait for the next acknowledged turn; what else is said on the way goes to the others."""
    while not (line := child.hear()).startswith(b"+"):
        heard.append(line)
    return line


async def _check_and_append(url: str, acks: list[Ack], name: str) -> Ack:
    async with open_store(url) as store:
        async with asyncio.timeout(10):
            await _until_sessions_end(store, url)
        await check_whole(store, acks)
        async with asyncio.timeout(10):
            return await make_turn(random.Random(name), name).write(store)


async def _until_sessions_end(store: Store, url: str) -> None:
    """Wait until the server has noticed that the killed clients are gone."""
    while run_sql(
        url,
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND state <> 'idle'",
    ):
        await store.epoch(scope=make_turn(random.Random(1), "any").scope)
