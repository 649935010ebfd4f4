"""Facts of the machine that a reader needs to understand a figure; nothing that identifies it."""

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs")
_MOUNTS = Path("/proc/self/mountinfo")
_SYNCS = 200
_PACKAGES = ("recollect", "apsw", "psycopg", "openai-agents", "pydantic", "pydantic-ai-slim")


IN_MEMORY = "The files were in memory, not on a disk: commits cost nothing here."
"""The note for reports where `is_in_memory`."""


@contextmanager
def scratch_folder() -> Generator[Path]:
    """Provide a folder for the files of one run, if possible on a disk."""
    with tempfile.TemporaryDirectory(prefix="recollect-bench-", dir=choose_disk_folder()) as name:
        yield Path(name)


def choose_disk_folder() -> Path:
    """Return a folder for test files, if possible on a disk: in memory, sharing commits gains nothing."""
    usual = Path(tempfile.gettempdir())
    return Path.cwd() if is_in_memory(usual) and not is_in_memory(Path.cwd()) else usual


def is_in_memory(folder: Path) -> bool:
    """Whether the files of a folder never reach a disk."""
    return find_file_system(folder) in _MEMORY_FILE_SYSTEMS


def find_file_system(folder: Path) -> str:
    """Return the type of a folder's file system, or "unknown"."""
    if not _MOUNTS.exists():
        return "unknown"
    place = folder.resolve()
    kinds: dict[Path, str] = {}
    for line in _MOUNTS.read_text("utf-8").splitlines():
        left, _, right = line.partition(" - ")
        kinds[Path(left.split()[4])] = right.split()[0]
    return next((kinds[path] for path in (place, *place.parents) if path in kinds), "unknown")


def measure_sync_ms(folder: Path) -> float:
    """Return how long the disk takes to sync 4 KB: the median of some tries."""
    sync = getattr(os, "fdatasync", os.fsync)
    seconds: list[float] = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_SYNCS):
            file.write(b"\0" * 4096)
            file.flush()
            started = time.perf_counter()
            sync(file.fileno())
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1000


def describe_machine(folder: Path) -> dict[str, object]:
    """Return the published facts of the machine."""
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "file_system": find_file_system(folder),
        "fdatasync_ms": round(measure_sync_ms(folder), 3),
        "load_average": read_load(),
        "versions": {name: version for name in _PACKAGES if (version := _get_version(name))},
    }


def read_load() -> float | None:
    """Return the load average of the last minute, if the system has one."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _get_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
