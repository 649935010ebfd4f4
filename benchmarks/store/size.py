"""The bytes of a message in a SQLite file that was filled turn by turn, as users do."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.replay import messages_of
from benchmarks.harness.report import Part, Tick, report_only
from benchmarks.harness.texts import SampleTexts
from benchmarks.sizes import StoreSizes
from recollect.recall.embedding.indexer import Indexer
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.store import Store


async def measure(folder: Path, sizes: StoreSizes, tick: Tick) -> Part:
    """Fill a store, and measure its file as written and with search terms for every message."""
    path = folder / "size.db"
    scopes = [Scope(1, f"user-{number:05}", "conversation") for number in range(sizes.measured_threads)]
    async with open_store(f"sqlite:///{path}") as store:
        await _fill(store, scopes, sizes.messages_per_thread // 2, tick)
    written = _count_bytes(path)
    async with open_store(f"sqlite:///{path}") as store:
        await index_terms(store, scopes)
    indexed = _count_bytes(path)
    messages = len(scopes) * sizes.messages_per_thread
    found = {"as written": written / messages, "with search terms, without vectors": indexed / messages}
    name = f"SQLite: bytes a message, {messages:,} messages of {len(scopes)} threads"
    figures = {"messages": messages, "written": written, "with_terms": indexed}
    goals = [report_only(f"{name}, {state}", value) for state, value in found.items()]
    return Part(goals, {"sqlite_bytes": figures})


async def _fill(store: Store, scopes: Sequence[Scope], turns: int, tick: Tick) -> None:
    """Append turns to all threads, one to each before any thread gets its next."""
    source = SampleTexts()
    for number in range(turns):
        texts = source.turns(len(scopes))
        await asyncio.gather(
            *(
                store.append_turn(messages_of(turn), scope=scope)
                for turn, scope in zip(texts, scopes, strict=True)
            )
        )
        tick((number + 1) / turns)


async def index_terms(store: Store, scopes: Sequence[Scope]) -> None:
    """Give every message of the users its search terms, but no vectors."""
    indexer = Indexer(None)
    for scope in scopes:
        indexer.schedule(scope, store)
    await indexer.wait_until_idle()


def _count_bytes(path: Path) -> int:
    """Return the size of a closed store: closing has copied the log into the file and deleted it."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
