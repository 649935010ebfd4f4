"""Several processes change one working memory: no change is lost."""

import asyncio
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

import pytest
from tests.faults.children import Child, forks

from recollect import Scope, WorkingMemory, open_store

pytestmark = [pytest.mark.faults]

USER = Scope(1, "ada")
PROCESSES = 2
WRITES = 25


def write_fields(line: Connection, url: str, name: str, gate: Barrier) -> None:
    """Write fields of one's own and one that all share, some at once and some one after the other."""
    asyncio.run(_write_fields(url, name, gate))
    line.send_bytes(b"done")


async def _write_fields(url: str, name: str, gate: Barrier) -> None:
    async with open_store(url) as store:
        await asyncio.to_thread(gate.wait)

        async def write(number: int) -> None:
            patch: dict[str, object] = {f"{name}-{number}": number, "all": {f"{name}-{number}": True}}
            strategy = "replace" if number % 5 == 0 else "merge"
            await store.update_working_memory(patch, strategy=strategy, seen_version=10**6, scope=USER)

        await asyncio.gather(*(write(number) for number in range(WRITES - 10)))
        for number in range(WRITES - 10, WRITES):
            await write(number)


def test_no_change_is_lost_when_two_processes_share_a_file(sqlite_url: str) -> None:
    """Merges, and replacements that lost the race, of two processes on one SQLite file all count."""
    _write_together(sqlite_url)


@pytest.mark.postgres
def test_no_change_is_lost_when_two_processes_share_a_server(postgres_url: str) -> None:
    """The same on PostgreSQL."""
    _write_together(postgres_url)


def _write_together(url: str) -> None:
    gate = forks.Barrier(PROCESSES)
    children = [Child(write_fields, url, f"p{index}", gate) for index in range(PROCESSES)]
    assert [child.finish() for child in children] == [[b"done"]] * PROCESSES
    names = {f"p{index}-{number}": number for index in range(PROCESSES) for number in range(WRITES)}
    memory = asyncio.run(_read(url))
    assert memory["all"] == dict.fromkeys(names, True)
    assert {name: value for name, value in memory.items() if name != "all"} == names
    assert memory.version == PROCESSES * WRITES


async def _read(url: str) -> WorkingMemory:
    async with open_store(url) as store:
        return await store.get_working_memory(scope=USER)
