"""Processes that write, open or die beside the test, and the test's end of the line to them.

They are forked from a server process that has imported recollect but opened no store, so that a
child costs milliseconds. Whatever a child reports is out of its hands at once: a kill loses none of it.
"""

import asyncio
import multiprocessing
import random
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier, Event
from typing import Any, Concatenate, ParamSpec, Self

import apsw
from tests.faults.turns import SCOPES, Ack, make_turn
from tests.support.embedders import Words
from tests.support.waiting import GENEROUS

from recollect import RecollectError, Scope, Store, open_store
from recollect.errors import StorageUnavailableError
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.indexer import Indexer

P = ParamSpec("P")

TOGETHER = 8
"""How many turns a child writes at once between those that it writes alone."""

SHARE = 60
"""How many turns each of several processes has to write."""

SHARED = Scope(1, "all", "shared")
"""The thread that all processes write to."""

forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(
    ["tests.faults.children", "recollect.storage.sqlite.engine", "recollect.storage.postgres.engine"]
)


class Child:
    """A process that was given one end of a line as its first argument."""

    def __init__(
        self, target: Callable[Concatenate[Connection, P], None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Start it."""
        self._line, theirs = forks.Pipe(duplex=False)
        self.process = forks.Process(target=target, args=(theirs, *args), kwargs=kwargs, daemon=True)
        self.process.start()
        theirs.close()

    def listen(self, seconds: float) -> list[bytes]:
        """Return what it reports within a time, or until its end."""
        heard: list[bytes] = []
        deadline = time.monotonic() + seconds
        try:
            while self._line.poll(max(0.0, deadline - time.monotonic())):
                heard.append(self._line.recv_bytes())
        except EOFError:
            pass
        return heard

    def hear(self, seconds: float = GENEROUS) -> bytes:
        """Return the next report."""
        assert self._line.poll(seconds), f"the child said nothing for {seconds} s"
        return self._line.recv_bytes()

    def kill(self) -> list[bytes]:
        """Kill it with SIGKILL and return what was still on the line."""
        self.process.kill()
        self.process.join()
        return self.listen(0)

    def finish(self, seconds: float = GENEROUS) -> list[bytes]:
        """Wait for its own end and return what it reported."""
        heard = self.listen(seconds)
        self.process.join(seconds)
        assert self.process.exitcode == 0, f"the child ended with {self.process.exitcode}; it said {heard}"
        return heard

    def __enter__(self) -> Self:
        """Return the child itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it if it still runs."""
        self.process.kill()
        self.process.join()
        self._line.close()


def write_until_killed(line: Connection, url: str, seed: str, words: int, *, indexes: bool = False) -> None:
    """Write turns alone and together without end, and report each acknowledged one; index them meanwhile."""
    indexer = Indexer(as_embedder(Words())) if indexes else None
    asyncio.run(_write_until_killed(line, url, random.Random(seed), words, seed, indexer))


async def _write_until_killed(  # noqa: PLR0917 - each is one thing that a child is told
    line: Connection, url: str, rng: random.Random, words: int, name: str, indexer: Indexer | None
) -> None:
    written = 0

    async def write(store: Store) -> None:
        nonlocal written
        written += 1
        turn = make_turn(rng, f"{name}-{written}", words=words)
        line.send_bytes((await turn.write(store)).to_bytes())
        if indexer is not None:
            indexer.schedule(turn.scope, store)

    async with open_store(url) as store:
        while True:
            for _ in range(rng.randint(0, TOGETHER)):
                await write(store)
            await asyncio.gather(*(write(store) for _ in range(TOGETHER)))


def write_through_outages(line: Connection, url: str, seed: str) -> None:
    """Write turns without end, whatever the server does, and report acknowledged turns and wrong errors."""
    asyncio.run(_write_through_outages(line, url, seed))


async def _write_through_outages(line: Connection, url: str, seed: str) -> None:
    async def write_always(store: Store, writer: int) -> None:
        rng = random.Random(f"{seed}-{writer}")
        for number in range(1_000_000):
            try:
                turn = make_turn(rng, f"{seed}-{writer}-{number}")
                line.send_bytes(b"+" + (await turn.write(store)).to_bytes())
            except StorageUnavailableError:
                line.send_bytes(b"-")
                await asyncio.sleep(0.05)  # the server is down; another call at once only heats the room
            except Exception as error:  # noqa: BLE001 - the parent checks it
                line.send_bytes(b"!" + repr(error).encode())

    async with open_store(url, pool_size=3) as store:
        await asyncio.gather(*(write_always(store, writer) for writer in range(4)))


def write_share(line: Connection, url: str, index: int, gate: Barrier, over: Event) -> None:
    """Write a share of turns, half of them to the thread of all, go on until it is over, and report each."""
    asyncio.run(_write_share(line, url, index, gate, over))


async def _write_share(line: Connection, url: str, index: int, gate: Barrier, over: Event) -> None:
    rng = random.Random(index)
    scopes = (SHARED, Scope(1, f"user {index}", "own"))
    async with open_store(url) as store:
        gate.wait(GENEROUS)
        work = [make_turn(rng, f"p{index}-{turn}", scope=scopes[turn % 2]) for turn in range(SHARE)]
        alone, together = work[: SHARE // 2], work[SHARE // 2 :]
        acks: list[Ack] = [await turn.write(store) for turn in alone]
        acks += await asyncio.gather(*(turn.write(store) for turn in together))
        line.send_bytes(b"share")
        while not over.is_set():
            acks.append(await make_turn(rng, f"p{index}-{len(acks)}", scope=scopes[1]).write(store))
    for ack in acks:
        line.send_bytes(ack.to_bytes())


def open_at_once(line: Connection, urls: list[str], index: int, gate: Barrier) -> None:
    """Open each database at the same moment as the others do, write a turn, and report how it went."""
    for number, url in enumerate(urls):
        gate.wait(GENEROUS)
        line.send_bytes(asyncio.run(_outcome_of_opening(url, f"p{index}-{number}", SCOPES[index])).encode())


async def _outcome_of_opening(url: str, name: str, scope: Scope) -> str:
    try:
        async with open_store(url) as store:
            await make_turn(random.Random(name), name, scope=scope).write(store)
    except RecollectError as error:
        return repr(error)
    return "ok"


def hold_the_pen(line: Connection, path: str, over: Event) -> None:
    """Keep others from writing to a SQLite file until that is over."""
    connection: Any = apsw.Connection(path)
    connection.execute("BEGIN IMMEDIATE")
    line.send_bytes(b"holding")
    over.wait(GENEROUS)
    connection.execute("ROLLBACK")
    connection.close()
