"""Runs the parts of the benchmark of the store in order, and times `import recollect`."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.harness.machine import IN_MEMORY, describe_machine, is_in_memory, scratch_folder
from benchmarks.harness.report import Part, Report, Show, Tick, Ticker, at_most, make_ticker
from benchmarks.harness.server import benchmark_server, check_server
from benchmarks.harness.timing import Ratio, compute_medians, figures_of, make_sync_lap, race
from benchmarks.sizes import StoreSizes
from benchmarks.store import operations, recalled, size, writers

# Where each part begins, as a share of the time that a full run takes.
_STARTS = {
    "SQLite": 0.0,
    "SQLite, many writers": 0.08,
    "SQLite, processor time": 0.18,
    "SQLite, bytes a message": 0.2,
    "a turn with recall on": 0.22,
    "imports": 0.26,
    "SQLite, large store": 0.28,
    "PostgreSQL": 0.55,
    "PostgreSQL, large store": 0.65,
}
_IMPORT_LIMIT = 3.0
_CODE = {"interpreter": "pass", "ours": "import recollect", "pydantic": "import pydantic"}


async def run(sizes: StoreSizes, *, postgres: str | None, show: Show) -> Report:
    """Run all parts and return the report."""
    if postgres is not None:
        check_server(postgres)  # before the minutes of measuring, not after
    found, begin = Part(), make_ticker(show, _STARTS)
    with scratch_folder() as folder:
        machine = describe_machine(folder)
        if is_in_memory(folder):
            found.notes.append(IN_MEMORY)
        await _measure_sqlite(found, folder, sizes, float(str(machine["fdatasync_ms"])), begin)
    with benchmark_server(postgres) as server:
        machine["postgresql"] = server.version
        found.add(await operations.measure_postgres(server, sizes, begin("PostgreSQL")))
        found.add(await operations.measure_large_postgres(server, sizes, begin("PostgreSQL, large store")))
    show("done", 1)
    return Report("store", machine, found)


async def _measure_sqlite(
    found: Part, folder: Path, sizes: StoreSizes, sync_ms: float, begin: Ticker
) -> None:
    found.add(await operations.measure_sqlite(folder, sizes, begin("SQLite")))
    found.add(await writers.measure(folder, sizes, sync_ms, begin("SQLite, many writers")))
    found.add(await operations.measure_processor_time(folder, sizes, begin("SQLite, processor time")))
    found.add(await size.measure(folder, sizes, begin("SQLite, bytes a message")))
    found.add(await recalled.measure(folder, sizes, begin("a turn with recall on")))
    found.add(await measure_imports(sizes, begin("imports")))
    found.add(await operations.measure_large_sqlite(folder, sizes, begin("SQLite, large store")))


async def measure_imports(sizes: StoreSizes, tick: Tick) -> Part:
    """Race processes that import recollect, pydantic or nothing."""
    laps = {name: make_sync_lap(lambda code=code: _run(code)) for name, code in _CODE.items()}
    found = await race(laps, rounds=sizes.import_rounds, tries=1, tick=tick)
    bare, ours, theirs = (found[name] for name in _CODE)
    # The cost of an import is what it adds to the start of the interpreter.
    added, other = (max(timings.p50 - bare.p50, 1e-6) for timings in (ours, theirs))
    measured = Ratio.of(
        added / other,
        ((mine - start) / (its - start) for start, mine, its in compute_medians(bare, ours, theirs)),
    )
    goal = at_most(
        "`import recollect`, against `import pydantic`",
        _IMPORT_LIMIT,
        measured.value,
        ours=f"{added * 1000:.0f} ms",
        other=f"{other * 1000:.0f} ms",
        spread=measured.spread,
    )
    return Part([goal], {"import": figures_of(found)})


def _run(code: str) -> None:
    # Without compiled files, which installed packages have, the compiler would be measured.
    compiling = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", code], check=True, env=compiling)
