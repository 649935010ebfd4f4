"""A log that was cut short, is gone, or belongs to another file: whole turns or our errors."""

import asyncio
import random
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.faults.turns import SCOPES, Ack, check_whole, make_turn

from recollect import RecollectError, Scope, open_store

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

EARLY, LATE = 20, 40  # turns that are in the file, and turns that are in the log alone
CUTS = 24


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Ack]]:
    """The files that a crash leaves, with a log that was not copied into the file; and all turns."""
    folder = tmp_path_factory.mktemp("logs")
    return asyncio.run(_make_files(folder, "store.db", seed=1))


async def _make_files(folder: Path, name: str, *, seed: int) -> tuple[Path, list[Ack]]:
    rng = random.Random(seed)
    path = folder / name
    async with open_store(path) as store:
        acks = [await make_turn(rng, f"early-{number}").write(store) for number in range(EARLY)]
    async with open_store(path) as store:
        acks += [await make_turn(rng, f"late-{number}").write(store) for number in range(LATE)]
        copy = folder / f"crashed-{name}"
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{copy}{end}")
    return copy, acks


def _copy(source: Path, folder: Path) -> Path:
    path = folder / "store.db"
    for end in ("", "-wal"):
        shutil.copy(f"{source}{end}", f"{path}{end}")
    return path


async def _check(path: Path, acks: list[Ack], least: int) -> int:
    """Make sure that the first turns, at least so many, are there and whole, and that writing goes on."""
    rng = random.Random(2)
    async with open_store(path) as store:
        found = await check_whole(store, acks[:least])
        assert await check_whole(store, acks[:found]) == found, "a later turn is there, and an earlier is not"
        await make_turn(rng, "afterwards", scope=SCOPES[0]).write(store)
    assert _ask(path, "PRAGMA integrity_check") == [("ok",)]
    return found


def _ask(path: Path, query: str) -> list[tuple[Any, ...]]:
    connection: Any = apsw.Connection(str(path))
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


async def test_nothing_is_lost_when_the_index_of_the_log_is_gone(
    crashed: tuple[Path, list[Ack]], tmp_path: Path
) -> None:
    """The log alone has the turns that are not in the file; its index is made again."""
    source, acks = crashed
    assert await _check(_copy(source, tmp_path), acks, EARLY + LATE) == EARLY + LATE


@pytest.mark.parametrize("seed", range(CUTS))
async def test_turns_up_to_a_point_are_there_when_the_log_was_cut_short(
    crashed: tuple[Path, list[Ack]], tmp_path: Path, seed: int
) -> None:
    """Wherever it was cut, within a frame too, the store opens with whole turns, the first of all."""
    source, acks = crashed
    path = _copy(source, tmp_path)
    log = path.with_name("store.db-wal")
    content = log.read_bytes()
    log.write_bytes(content[: random.Random(seed).randrange(len(content))])
    await _check(path, acks, EARLY)


@pytest.mark.parametrize("content", [None, b"", b"no log at all" * 1000])
async def test_earlier_turns_are_there_when_the_log_is_gone_or_garbled(
    crashed: tuple[Path, list[Ack]], tmp_path: Path, content: bytes | None
) -> None:
    """What was only in the log is lost, and the rest is whole."""
    source, acks = crashed
    path = _copy(source, tmp_path)
    log = path.with_name("store.db-wal")
    if content is None:
        log.unlink()
    else:
        log.write_bytes(content)
    assert await _check(path, acks, EARLY) == EARLY


@pytest.mark.parametrize("seed", range(8))
async def test_turns_up_to_a_point_are_there_when_bytes_of_the_log_changed(
    crashed: tuple[Path, list[Ack]], tmp_path: Path, seed: int
) -> None:
    """A frame whose checksum is wrong ends the log."""
    source, acks = crashed
    path = _copy(source, tmp_path)
    log = path.with_name("store.db-wal")
    content = bytearray(log.read_bytes())
    content[random.Random(seed).randrange(32, len(content))] ^= 0xFF
    log.write_bytes(content)
    await _check(path, acks, EARLY)


async def test_only_our_errors_appear_when_the_log_is_of_another_file(
    crashed: tuple[Path, list[Ack]], tmp_path: Path
) -> None:
    """SQLite cannot tell whose log it is; what comes of it is whole pages of the other, or errors of ours."""
    source, _ = crashed
    other, _ = await _make_files(tmp_path, "other.db", seed=7)
    path = _copy(source, tmp_path)
    shutil.copy(f"{other}-wal", f"{path}-wal")
    await _use(path)


async def _use(path: Path) -> None:
    """Read and write; only errors of ours may appear."""
    rng = random.Random(3)
    try:
        async with open_store(path) as store:
            for scope in SCOPES:
                try:
                    await store.last_messages(None, scope=scope)
                    _ = [line async for line in store.export(scope=scope)]
                    await make_turn(rng, f"new {scope}", scope=scope).write(store)
                    await store.erase(scope=Scope(scope.tenant_id, scope.user_id))
                except RecollectError:
                    continue
    except RecollectError:
        return
