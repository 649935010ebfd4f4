"""Runs the parts of the benchmark of recall in order."""

from collections.abc import Mapping, Sequence

from benchmarks.harness.machine import describe_machine, scratch_folder
from benchmarks.harness.report import Part, Report, Show, make_ticker
from benchmarks.harness.server import benchmark_server, check_server
from benchmarks.recall import quality, speed
from benchmarks.recall.chats import Conversation
from benchmarks.recall.languages import measure_embedders
from benchmarks.recall.stores import NOTE, postgres_stores, sqlite_stores
from benchmarks.sizes import RecallSizes
from recollect.recall.embedding.embedder import default_embedder

# Where each part begins, as a share of the time that a full run takes.
_STARTS = {
    "quality": 0.0,
    "languages": 0.27,
    "indexing": 0.3,
    "filling SQLite": 0.4,
    "SQLite, warm": 0.6,
    "SQLite, cold": 0.62,
    "SQLite, few and many": 0.65,
    "SQLite, other users": 0.68,
    "SQLite, a large user": 0.69,
    "filling PostgreSQL": 0.7,
    "PostgreSQL, warm": 0.88,
    "PostgreSQL, cold": 0.91,
    "PostgreSQL, few and many": 0.95,
}


async def run_quality(data: Mapping[str, Sequence[Conversation]], *, languages: bool, show: Show) -> Report:
    """Measure the quality of recall alone."""
    begin = make_ticker(show, {"quality": 0.0, "languages": 0.9})
    with scratch_folder() as folder:
        machine = describe_machine(folder)
        found = await quality.measure(folder, data, default_embedder(), begin("quality"))
        if languages:
            found.add(await measure_embedders(folder, begin("languages")))
    show("done", 1)
    return Report("recall", machine, found, _take_further(found))


async def run(
    sizes: RecallSizes,
    *,
    data: Mapping[str, Sequence[Conversation]],
    languages: bool,
    postgres: str | None,
    show: Show,
) -> Report:
    """Run all parts and return the report."""
    if postgres is not None:
        check_server(postgres)  # before the minutes of measuring, not after
    embedder = default_embedder()
    model, found, begin = embedder.model_id, Part(notes=[NOTE]), make_ticker(show, _STARTS)
    with scratch_folder() as folder:
        machine = describe_machine(folder)
        if not data:
            found.add(quality.make_unmeasured_part())
        else:
            found.add(await quality.measure(folder, data, embedder, begin("quality")))
        if languages:
            found.add(await measure_embedders(folder, begin("languages")))
        found.add(await speed.measure_indexing(folder, embedder, sizes, begin("indexing")))
        async with sqlite_stores(folder, model, sizes, begin("filling SQLite")) as (searched, among):
            found.add(await speed.measure(searched, embedder, sizes, begin))
            tick = begin("SQLite, other users")
            found.add(await speed.measure_among_others(searched.usual, among, model, sizes, tick))
            if sizes.large:
                tick = begin("SQLite, a large user")
                found.add(await speed.measure_large(folder, searched.many, model, sizes, tick))
    with benchmark_server(postgres) as server:
        machine["postgresql"] = server.version
        async with postgres_stores(server, model, sizes, begin("filling PostgreSQL")) as searched:
            found.add(await speed.measure(searched, embedder, sizes, begin))
    show("done", 1)
    return Report("recall", machine, found, _take_further(found))


def _take_further(found: Part) -> dict[str, object]:
    """Take the figures that stand at the top level of the JSON."""
    further = {"sets": found.figures.pop("sets", {})}
    if "languages" in found.figures:
        further["languages"] = found.figures.pop("languages")
    return further
