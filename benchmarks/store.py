"""The benchmark of the store: `python -m benchmarks store`."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import import_part, large_part, sqlite_part, writers_part
from benchmarks.machine import disk_folder, facts, is_in_memory
from benchmarks.report import Part, Report, Show, Tick, at_most, unmeasured
from benchmarks.server import INSTALL, benchmark_server, check_server
from benchmarks.sizes import Sizes

# Where each part begins, as a share of the time that a full run takes.
_STARTS = {"sqlite": 0.0, "writers": 0.08, "import": 0.16, "large": 0.2, "postgres": 0.5, "large pg": 0.6}


async def run(sizes: Sizes, *, postgres: str | None, show: Show) -> Report:
    """Measure everything and return what was found."""
    found = Part()
    if postgres is not None:
        check_server(postgres)  # before the minutes of measuring, not after
    with tempfile.TemporaryDirectory(prefix="recollect-bench-", dir=disk_folder()) as name:
        folder = Path(name)
        machine = facts(folder)
        if is_in_memory(folder):
            found.notes.append("The files were in memory, not on a disk: commits cost nothing here.")
        await _measure_sqlite(found, folder, sizes, machine, show)
        await _measure_postgres(found, sizes, machine, postgres, show)
    show("done", 1)
    return Report("store", datetime.now(UTC).date().isoformat(), machine, found)


async def _measure_sqlite(
    found: Part, folder: Path, sizes: Sizes, machine: dict[str, object], show: Show
) -> None:
    sync_ms = float(str(machine["fdatasync_ms"]))
    found.add(await sqlite_part.measure(folder, sizes, _ticker(show, "sqlite", "SQLite")))
    writers = _ticker(show, "writers", "SQLite, many writers")
    found.add(await writers_part.measure(folder, sizes, sync_ms, writers))
    found.add(await import_part.measure(sizes, _ticker(show, "import", "imports")))
    found.add(await large_part.measure_sqlite(folder, sizes, _ticker(show, "large", "SQLite, large store")))


async def _measure_postgres(
    found: Part, sizes: Sizes, machine: dict[str, object], url: str | None, show: Show
) -> None:
    try:
        from benchmarks import postgres_part

        with benchmark_server(url) as server:
            machine["postgresql"] = server.version
            found.add(await postgres_part.measure(server, sizes, _ticker(show, "postgres", "PostgreSQL")))
            large = _ticker(show, "large pg", "PostgreSQL, large store")
            found.add(await large_part.measure_postgres(server, sizes, large))
    except ImportError as error:
        found.add(_without_server(str(error)))


def _without_server(problem: str) -> Part:
    goals = [
        unmeasured("PostgreSQL: append a turn of 2 messages, against bare psycopg", at_most(1.5)),
        unmeasured("PostgreSQL: read the last 10, against bare psycopg", at_most(1.5)),
        unmeasured("PostgreSQL: last 10 of a thread in a large store", at_most(1.3)),
    ]
    return Part(goals, notes=[f"PostgreSQL was not measured ({problem}): {INSTALL}"])


def _ticker(show: Show, part: str, label: str) -> Tick:
    """Turn the progress of a part into that of the whole."""
    start = _STARTS[part]
    end = min([other for other in _STARTS.values() if other > start], default=1.0)
    show(label, start)
    return lambda done: show(label, start + done * (end - start))
