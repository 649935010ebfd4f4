"""Children whose disk is full or may not be written; each reports what its store said, as JSON.

Mechanisms that need no privilege: a limit on the size of files (RLIMIT_FSIZE), and file modes, which
bind everybody but root, so root becomes somebody else first. Where a file system may be mounted, in
a namespace of the child's own, a real small disk is used.
"""

import asyncio
import ctypes
import json
import os
import random
import resource
import tempfile
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.faults.turns import SCOPES, Ack, check_whole, make_turn

from recollect import Agent, Memory, RecollectError, Result, Store, open_store
from recollect.storage.sqlite.writer import Writer
from recollect.testing import ScriptedModel

NOBODY = 65534
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_REC_PRIVATE = 0x4000 | 0x40000
_SMALL_DISK = "size=2m"
_ROOM_LEFT = 300_000  # bytes that a write may still add before the disk is full
_MOST_TURNS = 2000  # more than any disk here can take


def write_on_a_limited_disk(line: Connection, folder: str) -> None:
    """Fill a disk, go on, make room, and go on."""
    limit = _SmallDisk(folder) if _mount_small_disk(folder) else _SizeLimit(folder)
    line.send_bytes(json.dumps(asyncio.run(_fill_up(folder, limit))).encode())


def write_within_a_size_limit(line: Connection, folder: str) -> None:
    """The same with a limit on the size of files, which exists everywhere."""
    line.send_bytes(json.dumps(asyncio.run(_fill_up(folder, _SizeLimit(folder)))).encode())


def write_without_permission(line: Connection, path: str) -> None:
    """Open, read and write a file as somebody who may only read it."""
    asyncio.run(_load_everything())
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    line.send_bytes(json.dumps(asyncio.run(_try_to_write(path))).encode())


def write_alone_within_a_size_limit(line: Connection, folder: str) -> None:
    """Write one turn after the other until the disk is full, and again once there is room."""
    line.send_bytes(json.dumps(asyncio.run(_write_alone(folder))).encode())


def chat_without_permission(line: Connection, path: str) -> None:
    """Chat with an agent whose store may only be read."""
    asyncio.run(_load_everything())
    asyncio.run(_chat("sqlite://", "hello"))
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    line.send_bytes(json.dumps(asyncio.run(_chat(f"sqlite:///{path}", "hello"))).encode())


def chat_on_a_full_disk(line: Connection, folder: str) -> None:
    """Chat with an agent until its disk is full, and once more when there is room again."""
    line.send_bytes(json.dumps(asyncio.run(_chat_until_full(folder))).encode())


class _SizeLimit:
    """No file may grow beyond a size; Python has SIGXFSZ ignored, so writing fails with EFBIG."""

    name = "size limit"

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def impose(self) -> None:
        largest = max(file.stat().st_size for file in self._folder.iterdir())
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + _ROOM_LEFT, hard))

    def lift(self) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


class _SmallDisk:
    """A file of no use takes most of the room until it is removed; writing fails with ENOSPC."""

    name = "small disk"

    def __init__(self, folder: str) -> None:
        self._ballast = Path(folder, "ballast")
        self._ballast.write_bytes(bytes(1_200_000))

    def impose(self) -> None:
        """Nothing to do: the disk is small as it is."""

    def lift(self) -> None:
        self._ballast.unlink()


def _mount_small_disk(folder: str) -> bool:
    """Mount a file system that only this process sees; say if that is allowed here."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) and libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS):
        return False
    libc.mount(b"none", b"/", None, _MS_REC_PRIVATE, None)
    return libc.mount(b"none", folder.encode(), b"tmpfs", 0, _SMALL_DISK.encode()) == 0


async def _fill_up(folder: str, limit: _SizeLimit | _SmallDisk) -> dict[str, object]:
    rng = random.Random(1)
    async with open_store(f"sqlite:///{folder}/store.db") as store:
        acks = [await make_turn(rng, "before").write(store)]
        limit.impose()
        alone = await _until_full(store, rng, acks)
        together = await _together(store, rng, acks, "full", 400)
        read = await _outcome(store.last_messages(None, scope=SCOPES[0]))
        kept = await _outcome(check_whole(store, acks))
        limit.lift()
        again = await _together(store, rng, acks, "after", 400)
        acks.append(await make_turn(rng, "last", words=400).write(store))
        await check_whole(store, acks)
    return {
        "mechanism": limit.name,
        "alone": alone,
        "together": together,
        "read": read,
        "kept": kept,
        "again": again,
        "turns": len(acks),
    }


async def _write_alone(folder: str) -> dict[str, object]:
    """Report how the last write failed on the loop's own thread, and what became of its transaction."""
    rng, limit = random.Random(1), _SizeLimit(folder)
    async with open_store(f"sqlite:///{folder}/store.db") as store:
        acks = [await make_turn(rng, "before").write(store)]
        limit.impose()
        with _watching_lone_writes() as failures:
            said = await _until_full(store, rng, acks)
            for number in range(20):  # a write that comes too soon after another goes to the thread
                await asyncio.sleep(0)
                await _outcome(make_turn(rng, f"full-{number}", words=400).write(store))
        kept = await _outcome(check_whole(store, acks))
        limit.lift()
        acks.append(await make_turn(rng, "last", words=400).write(store))
        await check_whole(store, acks)
    return {"said": said, "failures": failures, "kept": kept}


@contextmanager
def _watching_lone_writes() -> Generator[list[str]]:
    """Provide the errors of writes that were tried without the writer's thread."""
    failures: list[str] = []
    name = "_write_here"
    write_here: Any = getattr(Writer, name)

    def watch(writer: Writer, work: object) -> object:
        try:
            return write_here(writer, work)
        except Exception as error:
            failures.append(type(error.__cause__).__name__)
            raise

    setattr(Writer, name, watch)
    try:
        yield failures
    finally:
        setattr(Writer, name, write_here)


async def _until_full(store: Store, rng: random.Random, acks: list[Ack]) -> str:
    for number in range(_MOST_TURNS):
        try:
            acks.append(await make_turn(rng, f"filling-{number}", words=400).write(store))
        except RecollectError as error:
            return f"{type(error).__name__}: {error}"
    return "it never became full"


async def _together(store: Store, rng: random.Random, acks: list[Ack], name: str, words: int) -> list[str]:
    turns = [make_turn(rng, f"{name}-{number}", words=words) for number in range(10)]
    outcomes = await asyncio.gather(*(turn.write(store) for turn in turns), return_exceptions=True)
    acks += [outcome for outcome in outcomes if isinstance(outcome, Ack)]
    return ["ok" if isinstance(outcome, Ack) else type(outcome).__name__ for outcome in outcomes]


async def _chat(url: str, prompt: str) -> dict[str, object]:
    memory = Memory(
        url, user_id="ann", thread_id="t", tenant_id=1
    )  # entered, it would open its store at once
    described = _describe(await Agent(ScriptedModel("yes"), memory=memory).generate(prompt))
    await memory.close()
    return described


def _describe(result: Result) -> dict[str, object]:
    errors = [entry.error for entry in result.trace if entry.error]
    return {"text": result.text, "saved": result.saved, "errors": errors}


async def _chat_until_full(folder: str) -> dict[str, object]:
    limit = _SizeLimit(folder)
    async with Memory(f"sqlite:///{folder}/store.db", user_id="ann", thread_id="t", tenant_id=1) as memory:
        agent = Agent(ScriptedModel("yes"), memory=memory)
        await agent.generate("hello")
        limit.impose()
        full = await agent.generate("long " * 4000)
        while full.saved:
            full = await agent.generate("long " * 4000)
        limit.lift()
        return {"full": _describe(full), "again": _describe(await agent.generate("hello again"))}


async def _load_everything() -> None:
    """Import all that a store needs while this process may still read the installation."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(f"sqlite:///{folder}/store.db") as store:
            await asyncio.gather(*(make_turn(random.Random(3), f"{name}").write(store) for name in "ab"))
            await store.last_messages(None, scope=SCOPES[0])


async def _try_to_write(path: str) -> dict[str, str]:
    try:
        async with open_store(f"sqlite:///{path}") as store:
            return {
                "open": "ok",
                "read": await _outcome(store.last_messages(1, scope=SCOPES[0])),
                "write": await _outcome(make_turn(random.Random(2), "new").write(store)),
            }
    except RecollectError as error:
        return {"open": f"{type(error).__name__}: {error}"}


async def _outcome(call: Awaitable[object]) -> str:
    try:
        await call
    except RecollectError as error:
        return f"{type(error).__name__}: {error}"
    return "ok"
