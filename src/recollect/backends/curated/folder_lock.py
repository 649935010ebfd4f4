"""One writer at a time in a folder, whichever process or thread it is in."""

import fcntl
import os
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path

from recollect.backends.curated.durable import fault
from recollect.errors import StorageBusyError

LOCK_NAME = ".memory.lock"
"""The file that a writer holds a lock on; it is empty, and stays."""

_SHORTEST, _LONGEST = 0.001, 0.025  # seconds between two tries


@contextmanager
def locked(folders: Iterable[Path], seconds: float) -> Generator[None]:
    """Keep other writers out of folders; waiting longer than some seconds for it is a `StorageBusyError`."""
    deadline = time.monotonic() + seconds
    with ExitStack() as held:
        # In one order for everybody, so that no two writers wait for each other.
        for folder in sorted({Path(os.path.realpath(folder)) for folder in folders}):
            held.callback(_release, _acquired(folder / LOCK_NAME, deadline, seconds))
        yield


def _acquired(path: Path, deadline: float, seconds: float) -> int:
    pause = _SHORTEST
    while True:
        descriptor = _tried(path)
        if descriptor is not None:
            return descriptor
        if time.monotonic() >= deadline:
            raise StorageBusyError(f"others held {path} for {seconds:g} seconds; try again")
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST)


def _tried(path: Path) -> int | None:
    """Take the lock if it is free; a lock file that was removed meanwhile locks nobody out."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise fault(error, path, "lock") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        os.close(descriptor)
        raise fault(error, path, "lock") from error
    os.close(descriptor)
    return None


def _release(descriptor: int) -> None:
    # A child that was forked meanwhile has the descriptor too, so closing it would not be enough.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
