"""Curated memory beside other processes, kills and full disks: nothing is lost, nothing is half."""

import json
import os
from pathlib import Path

import pytest
from tests.backends.curated.children import (
    SHARE,
    check_without_the_log,
    kill_writers,
    write_share,
    write_within_a_size_limit,
    write_without_permission,
)
from tests.backends.curated.runs import entries
from tests.faults.children import Child, forks

from recollect.backends.curated.folder import CuratedFolder

pytestmark = [pytest.mark.faults]

PROCESSES = 8
kills = pytest.mark.parametrize(
    "rounds", [12, pytest.param(200, marks=(pytest.mark.long, pytest.mark.timeout(900)))]
)


def test_nothing_is_lost_when_eight_processes_write_at_once(tmp_path: Path) -> None:
    """Every entry is in both files once, and in the log once."""
    gate = forks.Barrier(PROCESSES)
    children = [Child(write_share, str(tmp_path), index, gate) for index in range(PROCESSES)]
    for child in children:
        assert child.finish(120) == [b"done"]
    wanted = sorted(f"p{index}-{number}" for index in range(PROCESSES) for number in range(SHARE))
    assert sorted(entries(tmp_path)) == sorted(entries(tmp_path, "USER.md")) == wanted
    changes = CuratedFolder(tmp_path).history().changes
    assert sorted(change.source.run_id for change in changes) == sorted(wanted * 2)
    assert all(change.is_applied and change.source.kind == "tool" for change in changes)


@kills
def test_file_is_whole_and_the_log_agrees_after_kills(tmp_path: Path, rounds: int) -> None:
    """The file is the old or the new one, what was acknowledged is in it, and the log tells what was made."""
    with Child(kill_writers, str(tmp_path), rounds, 1, until_one_drops=True) as child:
        said = json.loads(child.hear(800))
    assert said["problems"] == []
    assert said["written"] >= rounds
    assert said["dropped"] > 0, "no kill has hit the moment between log and file"


def test_short_log_stays_whole_when_eight_processes_write_at_once(tmp_path: Path) -> None:
    """Every entry is in both files once; the log has the newest changes, and blames nobody."""
    gate = forks.Barrier(PROCESSES)
    children = [Child(write_share, str(tmp_path), index, gate, 10) for index in range(PROCESSES)]
    for child in children:
        assert child.finish(120) == [b"done"]
    wanted = sorted(f"p{index}-{number}" for index in range(PROCESSES) for number in range(SHARE))
    assert sorted(entries(tmp_path)) == sorted(entries(tmp_path, "USER.md")) == wanted
    history = CuratedFolder(tmp_path).history()
    assert 10 <= len(history.changes) <= 22
    assert all(change.is_applied and change.source.kind == "tool" for change in history.changes)
    assert history.known == {"memory": (*entries(tmp_path),), "user": (*entries(tmp_path, "USER.md"),)}


@kills
def test_short_log_agrees_with_the_file_after_kills(tmp_path: Path, rounds: int) -> None:
    """A kill while it is shortened leaves the long log or the short one."""
    with Child(kill_writers, str(tmp_path), rounds, 2, 3) as child:
        said = json.loads(child.hear(800))
    assert said["problems"] == []
    assert said["written"] >= rounds
    with CuratedFolder(tmp_path).lock():
        assert not list(tmp_path.glob(".*.tmp")), "the next writer takes away what killed ones left"


def test_nothing_is_half_written_when_the_disk_is_full(tmp_path: Path) -> None:
    """Log and file grow together or not at all; with room again it goes on."""
    (tmp_path / "MEMORY.md").write_text("old")
    with Child(write_within_a_size_limit, str(tmp_path)) as child:
        said = json.loads(child.hear())
    assert said[0] == "StorageFullError"
    assert said[-1] == "ok"
    assert entries(tmp_path) == ["old", "x" * 400]
    changes = CuratedFolder(tmp_path).history().changes
    assert [change.source.kind for change in changes] == ["by hand", "tool"]
    assert not list(tmp_path.glob(".*.tmp"))


def reachable(folder: Path) -> Path:
    """Make a folder that another user can reach: root becomes somebody else."""
    folder.mkdir()
    for place in (folder, *folder.parents):
        if os.access(place, os.W_OK) and place.stat().st_uid == os.geteuid() and place != Path("/"):
            place.chmod(place.stat().st_mode | 0o755)
    return folder


def test_folder_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    """Writing says what is missing, already when it is planned, and the entries and the log are there."""
    folder = reachable(tmp_path / "memories")
    with Child(write_without_permission, str(folder)) as child:
        said = json.loads(child.hear())
    folder.chmod(0o755)
    assert said == ["StorageReadOnlyError", "StorageReadOnlyError", "1", "1"]


def test_log_that_cannot_be_read_is_said_when_a_change_is_planned(tmp_path: Path) -> None:
    """A model that was told of a success would be told wrong."""
    with Child(check_without_the_log, str(reachable(tmp_path / "memories"))) as child:
        assert child.hear() == b"StorageReadOnlyError"
