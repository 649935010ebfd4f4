"""Files that are whole after a crash: read only if regular, replaced at once, appended to the disk.

What stands in them is left to others.
"""

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from recollect.errors import (
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_LARGEST = 64 * 1024 * 1024
_TEMPORARY = ".recollect.tmp"


class Found(NamedTuple):
    """A file's bytes, and what is to stay as it is when it is replaced."""

    data: bytes
    mode: int
    owner: tuple[int, int]


def read_file(path: Path, *, largest: int = _LARGEST) -> Found | None:
    """Return a regular file, or None if there is none; what is no file, or too large, is an error."""
    with _faults(path, "read"):
        try:
            # A pipe in its place would otherwise be waited for without end.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            os.close(descriptor)
            raise StorageUnavailableError(f"{path} is not a file; move away what stands in its place")
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(largest + 1)
    if len(data) > largest:
        raise StorageUnavailableError(f"{path} is larger than {largest:,} bytes; shorten it by hand")
    return Found(data, stat.S_IMODE(facts.st_mode), (facts.st_uid, facts.st_gid))


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter, to the disk, unless it is there."""
    with _faults(folder, "make"):
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        for place in missing:
            _sync_folder(place.parent)


def replace_file(path: Path, data: bytes, like: Found | None = None) -> None:
    """Put new bytes in a file's place, at once and to the disk; a link keeps pointing where it does."""
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}{_TEMPORARY}")
    with _faults(path, "write"):
        try:
            _write_new(temporary, data, like)
            temporary.replace(target)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(target.parent)


def append_to_file(path: Path, data: bytes, *, sync: bool = True) -> int:
    """Append to a file, to the disk, and return its size before; a part that was written is cut off again."""
    with _faults(path, "write"):
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _PRIVATE_FILE)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            size = os.fstat(descriptor).st_size
            # A line that a crash has left unfinished must not run into the next.
            gap = b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""
            try:
                _write_all(descriptor, gap + data)
                if sync:
                    os.fsync(descriptor)
            except OSError:
                with suppress(OSError):
                    file.truncate(size)
                raise
        if is_new:
            _sync_folder(path.parent)
    return size


def cut_file(path: Path, size: int) -> None:
    """Take off what was appended to a file, as far as the disk lets us."""
    with suppress(OSError):
        os.truncate(path, size)


def sweep(folder: Path) -> None:
    """Remove what writers that were killed have left; call it only where nobody else can write."""
    with suppress(OSError):
        for path in folder.glob(f".*{_TEMPORARY}"):
            path.unlink()


def _write_new(path: Path, data: bytes, like: Found | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(path, flags, _PRIVATE_FILE)
    try:
        if like is not None:
            with suppress(PermissionError):
                os.fchown(descriptor, *like.owner)
            os.fchmod(descriptor, like.mode)
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _faults(path: Path, doing: str) -> Generator[None]:
    """Make errors of the system ours."""
    try:
        yield
    except OSError as error:
        raise fault(error, path, doing) from error


def fault(error: OSError, path: Path, doing: str) -> StorageError:
    """Return our error for one of the system, with what to do about it."""
    what = f"cannot {doing} {path}: {error.strerror or error}"
    if error.errno in _FULL:
        return StorageFullError(f"{what}; make room and try again")
    if error.errno in _FORBIDDEN and doing != "read":
        return StorageReadOnlyError(f"{what}; give this user the right to write there")
    if error.errno == errno.EBUSY:
        return StorageUnavailableError(f"{what}; mount the folder and not the single file")
    if error.errno in _FORBIDDEN:
        return StorageUnavailableError(f"{what}; give this user the right to read it")
    return StorageUnavailableError(what)
