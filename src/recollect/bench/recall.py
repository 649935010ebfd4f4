"""The benchmark of recall: `recollect bench recall`."""

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from recollect.bench import recall_indexing, recall_quality, recall_sqlite
from recollect.bench.locomo import Conversation
from recollect.bench.machine import disk_folder, facts
from recollect.bench.recall_fill import NOTE
from recollect.bench.recall_sizes import RecallSizes
from recollect.bench.recall_speed import Ticker, names_and_limits
from recollect.bench.report import Part, Report, Show, Tick, at_most, unmeasured
from recollect.bench.server import INSTALL, benchmark_server, check_server
from recollect.recall.embedding.embedder import Embedding, default_embedder

# Where each part begins, as a share of the time that a full run takes.
_STARTS = {
    "quality": 0.0,
    "indexing": 0.3,
    "filling SQLite": 0.4,
    "SQLite, warm": 0.6,
    "SQLite, cold": 0.62,
    "SQLite, few and many": 0.65,
    "SQLite, other users": 0.68,
    "filling PostgreSQL": 0.7,
    "PostgreSQL, warm": 0.88,
    "PostgreSQL, cold": 0.91,
    "PostgreSQL, few and many": 0.95,
}


async def run(
    sizes: RecallSizes, *, data: Sequence[Conversation] | None, postgres: str | None, show: Show
) -> Report:
    """Measure everything and return what was found."""
    if postgres is not None:
        check_server(postgres)  # before the minutes of measuring, not after
    embedder = default_embedder()
    found, ticker = Part(notes=[NOTE]), _ticker(show)
    with tempfile.TemporaryDirectory(prefix="recollect-bench-", dir=disk_folder()) as name:
        folder = Path(name)
        machine = facts(folder)
        if data is None:
            found.add(recall_quality.without_data())
        else:
            found.add(await recall_quality.measure(folder, data, embedder, ticker("quality")))
        found.add(await recall_indexing.measure(folder, embedder, sizes, ticker("indexing")))
        found.add(await recall_sqlite.measure(folder, embedder, sizes, ticker))
    found.add(await _measure_postgres(embedder, sizes, machine, postgres, ticker))
    show("done", 1)
    systems = found.figures.pop("systems", None)
    further: dict[str, object] = {} if systems is None else {"systems": systems}
    return Report("recall", datetime.now(UTC).date().isoformat(), machine, found, further)


async def _measure_postgres(
    embedder: Embedding, sizes: RecallSizes, machine: dict[str, object], url: str | None, ticker: Ticker
) -> Part:
    try:
        from recollect.bench import recall_postgres

        with benchmark_server(url) as server:
            machine["postgresql"] = server.version
            return await recall_postgres.measure(server, embedder, sizes, ticker)
    except ImportError as error:
        return _without_server(str(error), sizes)


def _without_server(problem: str, sizes: RecallSizes) -> Part:
    goals = [unmeasured(name, at_most(limit)) for name, limit in names_and_limits("PostgreSQL", sizes)]
    return Part(goals, notes=[f"PostgreSQL was not measured ({problem}): {INSTALL}"])


def _ticker(show: Show) -> Ticker:
    """Turn the progress of a part into that of the whole."""

    def begin(part: str) -> Tick:
        start = _STARTS[part]
        end = min([other for other in _STARTS.values() if other > start], default=1.0)
        show(part, start)
        return lambda done: show(part, start + done * (end - start))

    return begin
