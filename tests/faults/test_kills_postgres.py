"""Writers and the server itself are killed at random moments: PostgreSQL keeps what was acknowledged."""

import asyncio
import random

import pytest
from tests.faults.children import Child, write_through_outages, write_until_killed
from tests.faults.servers import OwnServer
from tests.faults.turns import Ack, check_whole, make_turn
from tests.support.databases import run_sql
from tests.support.waiting import GENEROUS

from recollect import Store, open_store

pytestmark = [pytest.mark.faults, pytest.mark.postgres]

MOST_COUNTED = 7  # turns that are waited for before the rest is left to chance
LONGEST_LIFE = 0.15  # seconds that a child goes on writing after those
LONG = (pytest.mark.long, pytest.mark.timeout(600))


@pytest.mark.parametrize("kills", [6, pytest.param(24, marks=LONG)])
def test_acknowledged_turns_survive_when_the_writer_is_killed(postgres_url: str, kills: int) -> None:
    """Every acknowledged turn is there, every stored one is whole, and no lock is left behind."""
    rng = random.Random(7)
    acks: list[Ack] = []
    for kill in range(kills):
        with Child(write_until_killed, postgres_url, f"c{kill}", 12) as child:
            counted = 0 if rng.random() < 0.25 else rng.randint(1, MOST_COUNTED)
            heard = [child.hear() for _ in range(counted)]
            heard += child.listen(rng.uniform(0, LONGEST_LIFE))
            heard += child.kill()
        acks += [Ack.from_bytes(line) for line in heard]
        acks.append(asyncio.run(_check_and_append(postgres_url, acks, f"c{kill}-after")))


@pytest.mark.xdist_group("own_server")
@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=LONG)])
def test_acknowledged_turns_survive_when_the_server_is_killed(
    own_server: OwnServer, own_url: str, kills: int
) -> None:
    """A writer lives through kills and immediate shutdowns of its server without opening its store again."""
    rng = random.Random(8)
    heard: list[bytes] = []
    with Child(write_through_outages, own_url, "s") as child:
        for kill in range(kills):
            heard += [*_until(b"+", child), *child.listen(rng.uniform(0, LONGEST_LIFE))]
            (own_server.kill if kill % 2 else own_server.stop_at_once)()
            # One outage lasts until a call has noticed it, the others end at any moment.
            heard += child.listen(rng.uniform(0, LONGEST_LIFE)) if kill else _until(b"-", child)
            own_server.start()
        heard += [*_until(b"+", child), *child.kill()]
    acks = [Ack.from_bytes(line[1:]) for line in heard if line.startswith(b"+")]
    assert not [line for line in heard if line.startswith(b"!")], "a call failed with another error"
    asyncio.run(_check_and_append(own_url, acks, "s-after"))


def _until(wanted: bytes, child: Child) -> list[bytes]:
    """Wait for a report of a kind and return it, after what else was said on the way."""
    heard = [child.hear()]
    while not heard[-1].startswith(wanted):
        heard.append(child.hear())
    return heard


async def _check_and_append(url: str, acks: list[Ack], name: str) -> Ack:
    async with open_store(url) as store:
        async with asyncio.timeout(GENEROUS):
            await _until_sessions_end(store, url)
        await check_whole(store, acks)
        async with asyncio.timeout(GENEROUS):
            return await make_turn(random.Random(name), name).write(store)


async def _until_sessions_end(store: Store, url: str) -> None:
    """Wait until the server has noticed that the killed clients are gone."""
    while run_sql(
        url,
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND state <> 'idle'",
    ):
        await store.epoch(scope=make_turn(random.Random(1), "any").scope)
