"""A writer is killed at random moments: SQLite keeps what it acknowledged, and no half turn."""

import asyncio
import random
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.faults.children import Child, write_until_killed
from tests.faults.turns import Ack, check_whole, make_turn

from recollect import open_store

pytestmark = [pytest.mark.faults]

MOST_COUNTED = 7  # turns that are waited for before the rest is left to chance
LONGEST_LIFE = 0.15  # seconds that a child goes on writing after those
LONG = (pytest.mark.long, pytest.mark.timeout(600))


@pytest.mark.parametrize(
    ("seed", "words", "kills"),
    [
        (1, 12, 5),
        (5, 6000, 3),
        *(pytest.param(seed, 12, 60, marks=LONG) for seed in (1, 2, 3, 4)),
        pytest.param(5, 6000, 60, marks=LONG),
    ],
)
def test_acknowledged_turns_survive_when_the_writer_is_killed(
    tmp_path: Path, seed: int, words: int, kills: int
) -> None:
    """Every acknowledged turn is there, every stored one is whole, and writing goes on."""
    rng = random.Random(seed)
    path = tmp_path / "store.db"
    url = f"sqlite:///{path}"
    acks: list[Ack] = []
    for kill in range(kills):
        acks += _killed_writer(rng, url, f"{seed}-{kill}", words)
        acks.append(asyncio.run(_check_and_append(url, acks, f"{seed}-{kill}-after")))
    assert _integrity(path) == "ok"


def _killed_writer(rng: random.Random, url: str, name: str, words: int) -> list[Ack]:
    """Let a child write and kill it: in its first moments, or some time after a few turns.

    Turns are counted, not timed, so that a slow machine has as much to check as a quick one.
    """
    with Child(write_until_killed, url, name, words) as child:
        if rng.random() < 0.25:
            heard = child.listen(rng.uniform(0, 0.04))
        else:
            heard = [child.hear() for _ in range(rng.randint(1, MOST_COUNTED))]
            heard += child.listen(rng.uniform(0, LONGEST_LIFE))
        heard += child.kill()
    return [Ack.from_bytes(line) for line in heard]


async def _check_and_append(url: str, acks: list[Ack], name: str) -> Ack:
    async with open_store(url) as store:
        await check_whole(store, acks)
        return await make_turn(random.Random(name), name).write(store)


def _integrity(path: Path) -> str:
    connection: Any = apsw.Connection(str(path))
    try:
        return connection.execute("PRAGMA integrity_check").fetchall()[0][0]
    finally:
        connection.close()
