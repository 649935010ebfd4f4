"""The files of curated memory: crash-safe writes, and one writer at a time in a folder.

Only regular files are read. Files are replaced atomically, and writes are synced to disk. A lock keeps out
the writers of all other processes and threads. A curated file that cannot be parsed is never overwritten.
"""

import errno
import fcntl
import hashlib
import logging
import os
import secrets
import stat
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from recollect.backends.curated.entries import ParsedFile, parse, serialise
from recollect.errors import (
    StaleChangeError,
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_MAX_BYTES = 64 * 1024 * 1024
_TEMPORARY = ".recollect.tmp"
LOCK_NAME = ".memory.lock"
"""The empty file that a writer locks; it is never removed."""
_MIN_PAUSE, _MAX_PAUSE = 0.001, 0.025  # seconds between two attempts to lock
_log = logging.getLogger("recollect")
_MAX_MEMORY_BYTES = 4 * 1024 * 1024
_WRITABLE = 0o222


class FileContent(NamedTuple):
    """A file's bytes, and its mode and owner, which stay when the file is replaced."""

    data: bytes
    mode: int
    owner: tuple[int, int]


def read_file(path: Path, *, max_bytes: int = _MAX_BYTES) -> FileContent | None:
    """Read a file, or return None if it does not exist; a folder, a pipe or a large file is an error."""
    with _translate_errors(path, "read"):
        try:
            # Without O_NONBLOCK, opening a pipe would wait forever.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            os.close(descriptor)
            raise StorageUnavailableError(f"{path} is not a file; move it away")
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise StorageUnavailableError(f"{path} is larger than {max_bytes:,} bytes; shorten it by hand")
    return FileContent(data, stat.S_IMODE(facts.st_mode), (facts.st_uid, facts.st_gid))


def make_folder(folder: Path) -> None:
    """Make a private folder and sync it to disk, unless it exists."""
    with _translate_errors(folder, "make"):
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        for place in missing:
            _sync_folder(place.parent)


def replace_file(path: Path, data: bytes, like: FileContent | None = None) -> None:
    """Replace a file atomically and sync it to disk; a symlink stays one, and its target is replaced."""
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}{_TEMPORARY}")
    with _translate_errors(path, "write"):
        try:
            _write_new(temporary, data, like)
            temporary.replace(target)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(target.parent)


def append_to_file(path: Path, data: bytes, *, sync: bool = True) -> int:
    """Append to a file, sync it, and return its previous size; after an error, truncate it to that size."""
    with _translate_errors(path, "write"):
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _PRIVATE_FILE)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            size = os.fstat(descriptor).st_size
            # A crash may have left an unfinished line; start on a new one.
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


def truncate_file(path: Path, size: int) -> None:
    """Remove what was appended to a file, if the disk allows it."""
    with suppress(OSError):
        os.truncate(path, size)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed writers; the caller must hold the lock."""
    with suppress(OSError):
        for path in folder.glob(f".*{_TEMPORARY}"):
            path.unlink()


def remove_file(path: Path) -> bool:
    """Remove a file for good, the target of a link too; return whether there was one."""
    with _translate_errors(path, "remove"):
        found = [one for one in {Path(os.path.realpath(path)), path} if os.path.lexists(one)]
        for one in found:
            one.unlink()
            _sync_folder(one.parent)
    return bool(found)


def _write_new(path: Path, data: bytes, like: FileContent | None) -> None:
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
def _translate_errors(path: Path, doing: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise to_storage_error(error, path, doing) from error


def to_storage_error(error: OSError, path: Path, doing: str) -> StorageError:
    """Return our error for one of the operating system, with what to do about it."""
    what = f"cannot {doing} {path}: {error.strerror or error}"
    if error.errno in _FULL:
        return StorageFullError(f"{what}; make room and try again")
    if error.errno in _FORBIDDEN and doing != "read":
        return StorageReadOnlyError(f"{what}; give this user write permission there")
    if error.errno == errno.EBUSY:
        return StorageUnavailableError(f"{what}; mount the folder, not the single file")
    if error.errno in _FORBIDDEN:
        return StorageUnavailableError(f"{what}; give this user read permission")
    return StorageUnavailableError(what)


@contextmanager
def lock_folders(folders: Iterable[Path], seconds: float) -> Generator[None]:
    """Keep other writers out of the folders; raises `StorageBusyError` after so many seconds of waiting."""
    deadline = time.monotonic() + seconds
    with ExitStack() as held:
        # Always in the same order, so that no two writers wait for each other.
        for folder in sorted({Path(os.path.realpath(folder)) for folder in folders}):
            held.callback(_release, _acquire(folder / LOCK_NAME, deadline, seconds))
        yield


def _acquire(path: Path, deadline: float, seconds: float) -> int:
    pause = _MIN_PAUSE
    while True:
        descriptor = _try_lock(path)
        if descriptor is not None:
            return descriptor
        if time.monotonic() >= deadline:
            raise StorageBusyError(f"other writers held {path} for {seconds:g} seconds; try again")
        time.sleep(pause)
        pause = min(pause * 2, _MAX_PAUSE)


def _try_lock(path: Path) -> int | None:
    """Take the lock if it is free; a lock on a file that was removed meanwhile does not count."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise to_storage_error(error, path, "lock") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        os.close(descriptor)
        raise to_storage_error(error, path, "lock") from error
    os.close(descriptor)
    return None


def _release(descriptor: int) -> None:
    # Closing is not enough: a child forked meanwhile also has the descriptor.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


class FileState(NamedTuple):
    """A file that was read to be changed: its parsed content, and its bytes at that time."""

    parsed: ParsedFile
    found: FileContent | None


@dataclass(frozen=True, slots=True)
class CuratedFile:
    """A file with entries; to change it, the caller must hold the lock of its folder."""

    path: Path

    def read(self) -> ParsedFile:
        """Return the content, even of a file that must not be written; a missing file is empty."""
        return self._parse(self._read_bytes())

    def read_to_change(self) -> FileState:
        """Return the content if writing it back would lose nothing.

        Otherwise copy the file to a backup and raise an error that says how to repair it.
        """
        found = self._read_bytes()
        if found is not None and not found.mode & _WRITABLE:
            raise StorageReadOnlyError(f"{self.path} is marked read-only; `chmod u+w` it to allow changes")
        try:
            parsed = self._parse(found)
        except StorageCorruptError as error:
            raise self._make_corrupt_error(str(error), found) from None
        if parsed.problem is not None:
            raise self._make_corrupt_error(
                f"{self.path} is not in the form of a memory file: {parsed.problem}", found
            )
        return FileState(parsed, found)

    def write(self, entries: Sequence[str], over: FileState) -> None:
        """Replace what was read; raises `StaleChangeError` if an editor has saved the file meanwhile."""
        if self._read_bytes() != over.found:
            raise StaleChangeError(f"{self.path} was changed just now by somebody else; try again")
        text = serialise(entries, over.parsed.start, over.parsed.ending)
        replace_file(self.path, text.encode(), over.found)

    def _read_bytes(self) -> FileContent | None:
        return read_file(self.path, max_bytes=_MAX_MEMORY_BYTES)

    def _parse(self, found: FileContent | None) -> ParsedFile:
        if found is None:
            return ParsedFile()
        try:
            return parse(found.data.decode())
        except UnicodeDecodeError as error:
            raise StorageCorruptError(f"{self.path} is not UTF-8 text (byte {error.start})") from None

    def _make_corrupt_error(self, problem: str, found: FileContent | None) -> StorageCorruptError:
        return StorageCorruptError(
            f"{problem}. It was left as it is{self._back_up(found)}. To repair it, save it as UTF-8 with "
            "Unix line ends, with one line that holds only § between two entries, and with none elsewhere"
        )

    def _back_up(self, found: FileContent | None) -> str:
        """Copy the file once for each content, and return a phrase that says where to."""
        if found is None:
            return ""
        name = f"{self.path.name}.{hashlib.sha256(found.data).hexdigest()[:12]}.bak"
        backup = self.path.with_name(name)
        try:
            if read_file(backup, max_bytes=_MAX_MEMORY_BYTES) is None:
                replace_file(backup, found.data, found)
        except StorageError as error:
            _log.warning("%s could not be copied: %s", self.path, error)
            return ", and could not be copied"
        return f", and a copy is in {backup.name}"
