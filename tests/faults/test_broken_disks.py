"""Disks that are full, read-only or failing: a clear error, no half turn, and all is well once it is over."""

import asyncio
import errno
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from tests.faults.children import Child
from tests.faults.disks import (
    chat_on_a_full_disk,
    chat_without_permission,
    write_on_a_limited_disk,
    write_within_a_size_limit,
    write_without_permission,
)
from tests.faults.turns import SCOPES, Ack, check_whole, make_turn

from recollect import open_store
from recollect.errors import StorageUnavailableError

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

FULL = ("StorageFullError", "StorageUnavailableError")


@pytest.mark.parametrize("child", [write_on_a_limited_disk, write_within_a_size_limit])
def test_nothing_is_half_written_when_the_disk_is_full(
    tmp_path: Path, child: Callable[[Connection, str], None]
) -> None:
    """Writes fail alone and together, reads go on, and the same store works again once there is room."""
    seen = _told_by(child, str(tmp_path))
    kind, _, text = seen["alone"].partition(": ")
    assert kind == "StorageFullError" if seen["mechanism"] == "small disk" else kind in FULL
    assert "store.db" in text
    assert "free some" in text or "check the disk" in text
    assert set(seen["together"]) <= {*FULL, "ok"}
    assert seen["together"] != ["ok"] * 10
    assert seen["read"] == seen["kept"] == "ok"
    assert seen["again"] == ["ok"] * 10
    assert seen["turns"] > 12


def test_writing_is_refused_when_the_file_may_only_be_read(readable_folder: Path) -> None:
    """The store can be opened and read, and a write says that the file is read-only."""
    path = asyncio.run(_small_store(readable_folder))
    path.chmod(0o444)
    readable_folder.chmod(0o777)
    seen = _told_by(write_without_permission, str(path))
    assert seen["open"] == seen["read"] == "ok"
    assert seen["write"].startswith("StorageReadOnlyError: ")
    assert "check the file's permissions" in seen["write"]


def test_opening_is_refused_when_file_and_folder_may_only_be_read(readable_folder: Path) -> None:
    """Without a place for its log the database cannot be used; the error says why."""
    path = asyncio.run(_small_store(readable_folder))
    path.chmod(0o444)
    readable_folder.chmod(0o555)
    seen = _told_by(write_without_permission, str(path))
    assert seen["open"].startswith("StorageReadOnlyError: ")
    assert "check the file's permissions" in seen["open"]
    assert [file.name for file in readable_folder.iterdir()] == ["store.db"]


@pytest.mark.parametrize("mode", [0o777, 0o555])
def test_chat_answers_when_the_store_may_only_be_read(readable_folder: Path, mode: int) -> None:
    """The turn is not saved, and the trace says what to check, whether or not the folder can be written."""
    path = asyncio.run(_small_store(readable_folder))
    path.chmod(0o444)
    readable_folder.chmod(mode)
    seen = _told_by(chat_without_permission, str(path))
    assert (seen["text"], seen["saved"]) == ("yes", False)
    assert any("check the file's permissions" in error for error in seen["errors"])


def test_chat_answers_when_the_disk_is_full(tmp_path: Path) -> None:
    """The turn is not saved, the trace says why, and the same agent saves again once there is room."""
    seen = _told_by(chat_on_a_full_disk, str(tmp_path))
    assert (seen["full"]["text"], seen["full"]["saved"]) == ("yes", False)
    assert any("free some" in error or "check the disk" in error for error in seen["full"]["errors"])
    assert seen["again"] == {"text": "yes", "saved": True, "errors": []}


@pytest.mark.parametrize("place", ["new.db", "private/new.db", "private/folder/new.db"])
def test_opening_is_refused_when_the_folder_may_not_be_entered(readable_folder: Path, place: str) -> None:
    """A place where no file can be made is told from one that does not exist."""
    (readable_folder / "private").mkdir(mode=0o700)
    if os.geteuid() != 0:
        (readable_folder / "private").chmod(0o000)
    readable_folder.chmod(0o555)
    seen = _told_by(write_without_permission, str(readable_folder / place))
    assert seen["open"].startswith(("StorageUnavailableError: ", "StorageReadOnlyError: "))
    assert place in seen["open"]


async def test_errors_are_ours_when_the_disk_fails_under_an_open_store(tmp_path: Path) -> None:
    """Reads and writes name the failing disk, and the same store works again once it is over."""
    rng = random.Random(1)
    path = tmp_path / "store.db"
    async with open_store(f"sqlite:///{path}") as store:
        acks = [await make_turn(rng, f"{number}", scope=SCOPES[0]).write(store) for number in range(10)]
        with _unreadable(path.with_name("store.db-wal")):
            for limit in (5, None):
                with pytest.raises(StorageUnavailableError, match="check the disk"):
                    await store.last_messages(limit, scope=SCOPES[0])
            with pytest.raises(StorageUnavailableError, match="check the disk"):
                await anext(aiter(store.export(scope=SCOPES[0])))
            with pytest.raises(StorageUnavailableError, match="check the disk"):
                await make_turn(rng, "alone").write(store)
            turns = [make_turn(rng, f"together-{number}") for number in range(5)]
            outcomes = await asyncio.gather(*(turn.write(store) for turn in turns), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StorageUnavailableError] * 5
        acks += await asyncio.gather(*(make_turn(rng, f"after-{number}").write(store) for number in range(5)))
        assert await check_whole(store, acks) == len(acks)


@pytest.fixture
def readable_folder() -> Generator[Path]:
    """A folder that every user can reach, unlike those that pytest makes."""
    folder = Path(tempfile.mkdtemp(prefix="rc-"))
    folder.chmod(0o755)
    yield folder
    for place in (folder, folder / "private"):
        if place.exists():
            place.chmod(0o700)
    shutil.rmtree(folder)


def _told_by(child: Callable[[Connection, str], None], place: str) -> Any:  # noqa: ANN401 - what children report
    with Child(child, place) as process:
        return json.loads(process.finish()[0])


async def _small_store(folder: Path) -> Path:
    async with open_store(f"sqlite:///{folder}/store.db") as store:
        acks: list[Ack] = [await make_turn(random.Random(1), "kept", scope=SCOPES[0]).write(store)]
        assert await check_whole(store, acks) == 1
    return folder / "store.db"


@contextmanager
def _unreadable(path: Path) -> Generator[None]:
    """Have the kernel fail every read and write of a file that this process has open.

    The file's descriptors lead to a folder for a while, which can be neither read nor written.
    """
    kept = {number: os.dup(number) for number in _descriptors_of(path)}
    assert kept
    folder = os.open(path.parent, os.O_RDONLY)
    with pytest.raises(OSError, match=os.strerror(errno.EISDIR)):
        os.read(folder, 1)
    for number in kept:
        os.dup2(folder, number)
    os.close(folder)
    try:
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)


def _descriptors_of(path: Path) -> list[int]:
    wanted = path.stat()
    found: list[int] = []
    for number in range(3, 1024):
        try:
            status = os.fstat(number)
        except OSError:
            continue
        if (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.append(number)
    return found
