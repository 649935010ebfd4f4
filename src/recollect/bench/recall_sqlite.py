"""Searching on SQLite: one user alone in a file, and among many others."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.bench import recall_speed
from recollect.bench.fill import fill_sqlite
from recollect.bench.recall_fill import add_vectors, owners
from recollect.bench.recall_sizes import RecallSizes
from recollect.bench.recall_speed import Searched, Ticker
from recollect.bench.recorder import calls
from recollect.bench.report import Part
from recollect.bench.sqlite_part import BareSqlite
from recollect.recall.embedding.embedder import Embedding
from recollect.storage.opening import open_store

if TYPE_CHECKING:
    from recollect.storage.store import Store


async def measure(folder: Path, embedder: Embedding, sizes: RecallSizes, ticker: Ticker) -> Part:
    """Fill the files, and measure in them."""
    tick = ticker("filling SQLite")
    owned = {"few": (sizes.few, 0), "usual": (sizes.usual, 0), "many": (sizes.many, 0)}
    owned["among"] = (sizes.usual, sizes.others)
    reading = calls(await recall_speed.reading_statements(), "sqlite")
    async with AsyncExitStack() as stack:
        stores: dict[str, Store] = {}
        for name, (messages, others) in owned.items():
            path = folder / f"{name}.db"
            fill_sqlite(path, owners(messages, others), tick if others else _ignored)
            stores[name] = await stack.enter_async_context(open_store(f"sqlite:///{path}"))
            await add_vectors(stores[name], embedder.model_id)
        bare = BareSqlite(folder / "usual.db")
        stack.callback(bare.close)

        async def read_bare() -> object:
            return bare.read(reading)

        searched = Searched("SQLite", stores["few"], stores["usual"], stores["many"], read_bare)
        found = await recall_speed.measure(searched, embedder, sizes, ticker)
        others_tick = ticker("SQLite, other users")
        among, model = stores["among"], embedder.model_id
        found.add(await recall_speed.measure_among_others(stores["usual"], among, model, sizes, others_tick))
        return found


def _ignored(_: float) -> None:
    """Show no progress."""
