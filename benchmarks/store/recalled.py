"""A turn with recall on: from saving it until it can be found by meaning."""

import time
from pathlib import Path

from benchmarks.harness.replay import messages_of
from benchmarks.harness.report import Part, Tick, format_micros, report_only
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import Timings, make_lap
from benchmarks.sizes import StoreSizes
from recollect.memory.memory import Memory
from recollect.recall.embedding.embedder import default_embedder

_NAME = "A turn with recall on, {:,} in a row, until all are searchable by meaning: ms a turn"


async def measure(folder: Path, sizes: StoreSizes, tick: Tick) -> Part:
    """Save turns in a row, then wait until all have their vectors."""
    turns = SampleTexts().turns(sizes.recalled_turns)
    waiting, embedder = iter(turns), default_embedder()
    await embedder.embed_documents(["Load the model."])
    path = folder / "recalled.db"
    async with Memory(path, user_id="user", semantic_recall=True, embedder=embedder) as memory:
        save = make_lap(lambda: memory.save_messages(messages_of(next(waiting))))
        started = time.perf_counter()
        saved = Timings([await save(len(turns))])
        saving = time.perf_counter() - started
        tick(0.5)
        await memory.settled()
        total = time.perf_counter() - started
    return _make_part(saved, saving, total)


def _make_part(saved: Timings, saving: float, total: float) -> Part:
    turns = len(saved.all)
    goal = report_only(
        _NAME.format(turns), total / turns * 1000, ours=f"{format_micros(saved.p50)} to save it"
    )
    figures = {
        "turns": turns,
        "seconds_per_turn": total / turns,
        "saving_seconds": saving,
        "total_seconds": total,
        "save": saved.to_micros(),
    }
    return Part([goal], {"turn_with_recall": figures})
