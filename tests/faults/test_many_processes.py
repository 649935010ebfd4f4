"""Several processes on one database: all succeed, in turn, and none sees another's lock."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.faults.children import SHARE, SHARED, Child, forks, open_at_once, write_share
from tests.faults.turns import SCOPES, Ack, check_whole
from tests.support.databases import postgres_database

from recollect import Scope, Store, open_store

pytestmark = [pytest.mark.faults]

PROCESSES = 8
ROUNDS = 5
MANY_ROUNDS = pytest.param(25, marks=pytest.mark.long)  # a rare race shows only in many tries


def test_all_writes_succeed_when_eight_processes_share_a_file(sqlite_url: str) -> None:
    """No process is refused, each row is there, and each has its turn although the others do not stop."""
    _write_together(sqlite_url)


@pytest.mark.postgres
def test_all_writes_succeed_when_eight_processes_share_a_server(postgres_url: str) -> None:
    """The thread that all processes write to has every turn whole and no gap."""
    _write_together(postgres_url)


@pytest.mark.parametrize("processes", [2, PROCESSES])
@pytest.mark.parametrize("rounds", [ROUNDS, MANY_ROUNDS])
def test_all_succeed_when_processes_open_a_new_file_at_once(
    tmp_path: Path, rounds: int, processes: int
) -> None:
    """Each process finds the schema complete, whoever made it."""
    _open_together([f"sqlite:///{tmp_path}/{number}.db" for number in range(rounds)], processes)


@pytest.mark.postgres
@pytest.mark.parametrize("processes", [2, PROCESSES])
def test_all_succeed_when_processes_open_a_new_database_at_once(
    server_url: str, worker_id: str, processes: int
) -> None:
    """Each process finds the schema complete, whoever made it."""
    with (
        postgres_database(server_url, f"first_{worker_id}") as first,
        postgres_database(server_url, f"second_{worker_id}") as second,
    ):
        _open_together([first, second], processes)


def _write_together(url: str) -> None:
    gate, over = forks.Barrier(PROCESSES), forks.Event()
    with ExitStack() as stack:
        children = [
            stack.enter_context(Child(write_share, url, index, gate, over)) for index in range(PROCESSES)
        ]
        assert {child.hear() for child in children} == {b"share"}
        over.set()
        acks = [Ack.from_bytes(line) for child in children for line in child.finish()]
    assert len(acks) >= PROCESSES * SHARE
    own = [Scope(1, f"user {index}", "own") for index in range(PROCESSES)]
    assert asyncio.run(_count_turns(url, acks, [SHARED, *own])) == len(acks)


def _open_together(urls: list[str], processes: int) -> None:
    gate = forks.Barrier(processes)
    children = [Child(open_at_once, urls, index, gate) for index in range(processes)]
    reports = [child.finish() for child in children]
    assert reports == [[b"ok"] * len(urls)] * processes
    for url in urls:
        assert asyncio.run(_count_turns(url, [], SCOPES)) == processes


async def _count_turns(url: str, acks: list[Ack], scopes: list[Scope] | tuple[Scope, ...]) -> int:
    store: Store
    async with open_store(url) as store:
        return await check_whole(store, acks, scopes)
