"""Processes that write curated memory beside the test: many at once, until killed, or on a full disk."""

import json
import os
import random
import resource
import signal
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import NoReturn

from tests.backends.curated.runs import addition
from tests.support.waiting import GENEROUS

from recollect.backends.curated.entries import Change, Operation, Target
from recollect.backends.curated.files import lock_folders
from recollect.backends.curated.folder import CuratedFolder
from recollect.backends.curated.journal import LOG_LIMIT, Source
from recollect.errors import RecollectError

LIMITS: dict[Target, int] = {"memory": 100_000, "user": 100_000}
NOBODY = 65534
SHARE = 15
_WARM_UP = 10  # commits by which the time of one is measured


def write_share(line: Connection, path: str, index: int, gate: Barrier, log_limit: int = LOG_LIMIT) -> None:
    """Add entries to both files, each in a run of its own, at the same time as others."""
    folder = CuratedFolder(Path(path), limits=LIMITS, log_limit=log_limit, lock_seconds=60)
    gate.wait(GENEROUS)
    for number in range(SHARE):
        name = f"p{index}-{number}"
        folder.commit([addition(name), addition(name, "user")], Source("tool", name, "s1"))
    line.send_bytes(b"done")


def kill_writers(
    line: Connection,
    path: str,
    rounds: int,
    seed: int,
    log_limit: int = LOG_LIMIT,
    *,
    until_one_drops: bool = False,
) -> None:
    """Have writers killed at random moments, and report what was wrong after each."""
    rng = random.Random(seed)
    folder = CuratedFolder(Path(path), log_limit=log_limit)
    folder.commit([_counted(0)], Source("tool", "begin", "s1"))
    started = time.monotonic()
    for count in range(1, _WARM_UP):
        folder.commit([_counted(count)], Source("tool", f"warm-up-{count}", "s1"))
    slowest = 3 * (time.monotonic() - started) / _WARM_UP
    problems: list[str] = []
    count, written = _WARM_UP - 1, 0
    number = 0
    # Some kill has to hit the moment between log and file, but which one does is a matter of chance.
    while number < rounds or (until_one_drops and number < 50 * rounds and not _dropped(folder)):
        acknowledged = _killed(folder, count, f"{number}", rng.uniform(0, slowest))
        found, problem = _state(folder)
        if found not in (acknowledged, acknowledged + 1) or problem:
            problems.append(f"round {number}: {found} after {acknowledged}: {problem}")
        written += found - count
        count = found
        number += 1
    line.send_bytes(
        json.dumps({"problems": problems, "written": written, "dropped": _dropped(folder)}).encode()
    )


def _dropped(folder: CuratedFolder) -> int:
    """Return how many changes were logged and not made."""
    return sum(not change.is_applied for change in folder.history().changes)


def _killed(folder: CuratedFolder, count: int, name: str, seconds: float) -> int:
    """Let a forked process write until it is killed; return the last count that it acknowledged."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        _write_on(folder, writer, count, name)
    os.close(writer)
    os.read(reader, 1)  # the first is written: it takes longer than the others, right after the fork
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    acknowledged = count + 1
    while data := os.read(reader, 4096):
        acknowledged += len(data)
    os.close(reader)
    return acknowledged


def _write_on(folder: CuratedFolder, writer: int, count: int, name: str) -> NoReturn:
    while True:
        count += 1
        folder.commit([_counted(count)], Source("tool", f"{name}-{count}", "s1"))
        os.write(writer, b".")


def _counted(count: int) -> Change:
    """Return a change that counts up, and rewrites all of a file of some size."""
    text = f"counter {count} " + "x" * (count % 300)
    if not count:
        return addition(text)
    return Change("memory", (Operation("replace", text, f"counter {count - 1} "),))


def _state(folder: CuratedFolder) -> tuple[int, str]:
    """Return the count in the file, and what does not agree with it."""
    parsed = folder.read("memory")
    count = int(parsed.entries[0].split()[1])
    if len(parsed.entries) != 1 or parsed.entries[0] != f"counter {count} {'x' * (count % 300)}".strip():
        return count, f"the file is torn: {parsed.entries}"
    history = folder.history()
    made = [change for change in history.changes if change.is_applied]
    counted = [int(change.edits[-1].after.split()[1]) for change in made if change.edits[-1].after]
    is_whole = len(made) == count + 1 or len(history.changes) >= folder.log_limit
    if history.known["memory"] != parsed.entries or not is_whole:
        return count, f"the log says {len(made)} changes"
    if counted != list(range(count + 1 - len(made), count + 1)):
        return count, f"the log has a gap: {counted}"
    if any(change.source.kind != "tool" for change in made):
        return count, "the log blames a person"
    return count, ""


def write_within_a_size_limit(line: Connection, path: str) -> None:
    """Commit while no file may grow beyond a few bytes, and again with room."""
    folder = CuratedFolder(Path(path))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    said: list[str] = []
    for size in (0, 700, 900, hard):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        said.append(_outcome(partial(_commit, folder, "x" * 400)))
    line.send_bytes(json.dumps(said).encode())


def write_without_permission(line: Connection, path: str) -> None:
    """Commit to a folder, and read it, as somebody who may only read there."""
    folder = CuratedFolder(Path(path))
    folder.commit([addition("loads all that a writer needs")], Source("tool", "first", "s1"))
    Path(path).chmod(0o555)
    for file in Path(path).iterdir():
        file.chmod(0o644)
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    said = [
        _outcome(folder.check_writable),
        _outcome(partial(_commit, folder, "new")),
        str(len(folder.read("memory").entries)),
        str(len(folder.history().changes)),
    ]
    line.send_bytes(json.dumps(said).encode())


def check_without_the_log(line: Connection, path: str) -> None:
    """Ask whether a folder can be written to, as somebody who may do so but for its log."""
    folder = CuratedFolder(Path(path))
    folder.commit([addition("loads all that a writer needs")], Source("tool", "first", "s1"))
    Path(path).chmod(0o777)
    folder.journal.path.chmod(0o000)
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    line.send_bytes(_outcome(folder.check_writable).encode())


def _commit(folder: CuratedFolder, text: str) -> None:
    folder.commit([addition(text)], Source("tool", "again", "s1"))


def _outcome(work: Callable[[], None]) -> str:
    try:
        work()
    except RecollectError as error:
        return type(error).__name__
    return "ok"


def fork_in_a_lock(line: Connection, path: str) -> None:
    """Fork while a folder is locked, leave the lock, and say whether it can be taken beside the child."""
    waiting, end = os.pipe()
    with lock_folders([Path(path)], 1):
        child = os.fork()
        if not child:
            os.close(end)
            os.read(waiting, 1)  # until the parent has gone on
            os._exit(0)
    line.send_bytes(_outcome(partial(_lock, Path(path))).encode())
    os.close(end)
    os.waitpid(child, 0)


def _lock(path: Path) -> None:
    with lock_folders([path], 1):
        pass
