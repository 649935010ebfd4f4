"""Curated files on the disk: what is damaged is left as it is, what a person wrote is respected."""

import asyncio
import fcntl
import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.backends.curated.children import fork_in_a_lock
from tests.backends.curated.runs import add, addition, completed, entries, found, snapshot
from tests.faults.children import Child

from recollect import RecollectError
from recollect.backends.curated.backend import CuratedMemoryBackend
from recollect.backends.curated.files import LOCK_NAME, CuratedFile, FileState, lock_folders
from recollect.backends.curated.folder import CuratedFolder
from recollect.backends.curated.journal import Source
from recollect.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

pytestmark = pytest.mark.anyio

DAMAGED = {
    "invalid UTF-8": b"caf\xe9\n\xa7\n",
    "an empty entry": "a\n§\n\n§\nb".encode(),
    "Windows line ends": "a\r\n§\r\nb".encode(),
    "an open delimiter": "a\n§\n".encode(),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
async def test_damaged_file_is_left_as_it_is_and_copied(tmp_path: Path, data: bytes) -> None:
    """The error says how to repair it; the copy is made once; the other file can still be changed."""
    path = tmp_path / "MEMORY.md"
    path.write_bytes(data)
    path.chmod(0o640)
    backend = CuratedMemoryBackend(tmp_path)
    said: list[str] = []
    for name in ("u0", "u1"):
        with pytest.raises(StorageCorruptError, match="To repair it") as caught:
            await backend.persist_after_run(completed(add("new"), add(name, "user"), run_id=name))
        said.append(str(caught.value))
    assert path.read_bytes() == data
    (backup,) = found(tmp_path, "MEMORY.md.*.bak")
    assert backup.read_bytes() == data
    assert stat.S_IMODE(backup.stat().st_mode) == 0o640
    assert all(backup.name in one for one in said)
    assert entries(tmp_path, "USER.md") == ["u0", "u1"]


async def test_folder_or_pipe_in_a_files_place_is_an_error(tmp_path: Path) -> None:
    """Nothing waits for a pipe, the snapshot has the other file, and no descriptor is left open."""
    (tmp_path / "MEMORY.md").mkdir()
    os.mkfifo(tmp_path / "USER.md")
    backend = CuratedMemoryBackend(tmp_path)
    opened = len(found(Path("/dev/fd")))
    for target in ("memory", "user"):
        with pytest.raises(StorageUnavailableError, match="not a file"):
            await backend.persist_after_run(completed(add("new", target), run_id=target))
    assert (await snapshot(backend)).count("cannot be read now") == 2
    assert len(found(Path("/dev/fd"))) <= opened


async def test_file_that_is_marked_read_only_is_not_replaced(tmp_path: Path) -> None:
    """Replacing would need no right on the file itself, but a person has said no."""
    path = tmp_path / "MEMORY.md"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(StorageReadOnlyError, match="read-only"):
        await CuratedMemoryBackend(tmp_path).persist_after_run(completed(add("new")))
    assert path.read_text() == "old"


async def test_mode_and_link_of_a_file_stay(tmp_path: Path) -> None:
    """A link keeps pointing to the file, which keeps its mode; a new file is private."""
    target = tmp_path / "elsewhere" / "notes.md"
    target.parent.mkdir()
    target.write_text("old\n")
    target.chmod(0o664)
    folder = tmp_path / "memories"
    folder.mkdir()
    (folder / "MEMORY.md").symlink_to(target)
    await CuratedMemoryBackend(folder).persist_after_run(completed(add("new"), add("Ada", "user")))
    assert (folder / "MEMORY.md").is_symlink()
    assert target.read_text("utf-8") == "old\n§\nnew\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o664
    assert stat.S_IMODE((folder / "USER.md").stat().st_mode) == 0o600
    assert (target.parent / LOCK_NAME).exists()


async def test_folder_is_made_with_the_first_write_and_not_before(tmp_path: Path) -> None:
    """A run that only reads leaves nothing behind."""
    folder = tmp_path / "a" / "b"
    backend = CuratedMemoryBackend(folder)
    assert not await snapshot(backend)
    await backend.persist_after_run(completed())
    assert not folder.parent.exists()
    await backend.persist_after_run(completed(add("new")))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_what_a_person_wrote_in_between_is_respected(tmp_path: Path) -> None:
    """The file is read again under the lock, kept to the character, and the log says who wrote it."""
    backend = CuratedMemoryBackend(tmp_path)
    await backend.persist_after_run(completed(add("one")))
    (tmp_path / "MEMORY.md").write_text("\ufeffby hand\n§\none\n", "utf-8")
    await backend.persist_after_run(completed(add("two"), run_id="r2"))
    assert (tmp_path / "MEMORY.md").read_text("utf-8") == "\ufeffby hand\n§\none\n§\ntwo\n"
    kinds = [change.source.kind for change in backend.folder.history().changes]
    assert kinds == ["tool", "by hand", "tool"]


async def test_waiting_for_others_ends_and_holds_nobody_up(tmp_path: Path) -> None:
    """The error says who had it; the next try succeeds, also when the lock file was removed meanwhile."""
    backend = CuratedMemoryBackend(tmp_path, lock_seconds=0.05)
    with lock_folders([tmp_path], 1):
        with pytest.raises(StorageBusyError, match=r"0\.05 seconds"):
            await backend.persist_after_run(completed(add("new")))
        (tmp_path / LOCK_NAME).unlink()
        await backend.persist_after_run(completed(add("new")))
    assert entries(tmp_path) == ["new"]


def test_editor_that_saves_at_the_last_moment_is_not_overwritten(tmp_path: Path) -> None:
    """Editors know no lock: the file is compared once more right before it is replaced."""
    file = CuratedFile(tmp_path / "MEMORY.md")
    state = file.read_to_change()
    file.path.write_text("by hand")
    with pytest.raises(RecollectError, match="just now"):
        file.write(["new"], state)
    assert file.path.read_text() == "by hand"


async def test_change_is_made_on_what_an_editor_saved_meanwhile(tmp_path: Path) -> None:
    """The change is planned again on it, and the log blames the right one for each."""
    backend = CuratedMemoryBackend(tmp_path)
    backend.folder.files["memory"] = _Edited(tmp_path / "MEMORY.md")
    await backend.persist_after_run(
        completed(add("new"), {"action": "remove", "old_text": "new"}, add("one"))
    )
    assert entries(tmp_path) == ["by hand", "one"]
    changes = backend.folder.history().changes
    assert [change.source.kind for change in changes] == ["by hand", "tool", "tool", "tool"]


class _Edited(CuratedFile):
    """A file into which somebody saves, once, in the moment before it is replaced."""

    __slots__ = ()

    def write(self, entries: Sequence[str], over: FileState) -> None:
        if not self.path.exists():
            self.path.write_text("by hand")
        super().write(entries, over)


async def test_loop_goes_on_while_a_writer_waits_for_others(tmp_path: Path) -> None:
    """A run that is cancelled meanwhile changes nothing or all, and the next run is not held up."""
    backend = CuratedMemoryBackend(tmp_path)
    with lock_folders([tmp_path], 1):
        waiting = asyncio.create_task(backend.persist_after_run(completed(add("one"))))
        next_run = asyncio.create_task(backend.persist_after_run(completed(add("two"), run_id="r2")))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert await snapshot(backend) == ""
        assert not waiting.done()
        waiting.cancel()
    await next_run
    assert entries(tmp_path) in (["two"], ["one", "two"])


def test_two_folders_that_link_to_one_file_lose_nothing(tmp_path: Path) -> None:
    """They share the lock of the folder in which the file really is."""
    (tmp_path / "MEMORY.md").touch()
    folders = [CuratedFolder(tmp_path / name, limits={"memory": 9999, "user": 9999}) for name in "ab"]
    for folder in folders:
        folder.path.mkdir()
        (folder.path / "MEMORY.md").symlink_to(tmp_path / "MEMORY.md")

    def write(folder: CuratedFolder) -> None:
        for number in range(20):
            name = f"{folder.path.name}{number}"
            folder.commit([addition(name)], Source("tool", name, "s1"))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, folders))
    assert sorted(entries(tmp_path)) == sorted(f"{name}{number}" for name in "ab" for number in range(20))


async def test_leftovers_of_killed_writers_are_swept(tmp_path: Path) -> None:
    """Only our own temporary files are removed."""
    left, other = tmp_path / ".MEMORY.md.0123.recollect.tmp", tmp_path / ".other.tmp"
    left.write_text("x")
    other.write_text("x")
    await CuratedMemoryBackend(tmp_path).persist_after_run(completed(add("new")))
    assert (left.exists(), other.exists()) == (False, True)


def test_each_step_of_a_commit_is_on_the_disk_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log, then the new bytes, then the name that points to them: a power cut leaves old or new."""
    folder = CuratedFolder(tmp_path)
    folder.commit([addition("first")], Source("tool", "r1", "s1"))
    steps: list[tuple[str, int]] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        facts = os.fstat(descriptor)
        is_log = os.path.samestat(facts, (tmp_path / "changes.jsonl").stat())
        name = "folder" if stat.S_ISDIR(facts.st_mode) else "log" if is_log else "bytes"
        steps.append((name, len(folder.read("memory").entries)))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    folder.commit([addition("second")], Source("tool", "r2", "s1"))
    assert steps == [("log", 1), ("bytes", 1), ("folder", 2)]


def test_lock_on_a_file_that_was_removed_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who tidies up between opening and locking it must not let two writers in."""
    lock, calls = fcntl.flock, list[int]()

    def too_late(descriptor: int, operation: int) -> None:
        if not calls:
            (tmp_path / LOCK_NAME).unlink()
        calls.append(operation)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", too_late)
    with lock_folders([tmp_path], 1), pytest.raises(StorageBusyError), lock_folders([tmp_path], 0):
        pass
    assert len(calls) > 2


def test_lock_is_free_again_when_a_process_was_forked_within_it(tmp_path: Path) -> None:
    """The child has the open file too, which alone would keep others out for as long as it lives."""
    with Child(fork_in_a_lock, str(tmp_path)) as child:
        assert child.hear() == b"ok"
