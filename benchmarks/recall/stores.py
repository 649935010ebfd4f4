"""Stores to search: one user with many messages and a vector for each, alone or among others.

The vectors are random, because embedding a hundred thousand texts would take half an hour. The time of a
search does not depend on their values.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import psycopg
from numpy.typing import NDArray
from tests.support.databases import run_sql

from benchmarks.harness.fill import Owner, fill_postgres, fill_sqlite, make_crowd
from benchmarks.harness.replay import BarePostgres, BareSqlite, Recorder, prepare_calls
from benchmarks.harness.report import Tick, ignore_progress
from benchmarks.harness.server import Server
from benchmarks.sizes import RecallSizes
from recollect.recall.embedding.embedder import CheckedEmbedder
from recollect.storage.engine import BUSY_SECONDS, Statement
from recollect.storage.opening import open_store
from recollect.storage.records import MessageTerms, SearchRow
from recollect.storage.sqlite.connection import MEMORY
from recollect.storage.sqlite.engine import SqliteEngine
from recollect.storage.store import Store

NOTE = (
    "The searched user's messages are made up and their vectors are random; the messages of other users have "
    "no vectors."
)
"""The note of a report on these stores."""

DIMENSIONS = 384
"""The length of the vectors: that of the built-in embedder."""

SEARCHED = Owner("searched", 0).thread(0)
"""The scope of the searched user."""

_BATCH = 1_000


ReadBare: TypeAlias = Callable[[], Awaitable[object]]
"""Reads the search rows of the user with a bare driver."""


class SearchedStores(NamedTuple):
    """An engine, the stores in which the user has few, usual and many messages, and the bare driver."""

    engine: str
    few: Store
    usual: Store
    many: Store
    read_bare: ReadBare


def make_unit_vectors(count: int, seed: int = 5) -> NDArray[np.float32]:
    """Return random vectors of length 1."""
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSIONS), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def make_instant_embedder(model_id: str) -> CheckedEmbedder:
    """Return an embedder that takes no time: it returns the same vector for every text."""
    vector = make_unit_vectors(1, seed=6)[0]

    async def embed_query(_: str) -> object:
        return vector

    async def embed_documents(texts: list[str]) -> object:
        return [vector for _ in texts]

    return CheckedEmbedder(embed_query, embed_documents, model_id, DIMENSIONS)


def make_owners(messages: int, others: int = 0) -> list[Owner]:
    """Return the searched user with so many messages, and other users with `others` messages together."""
    return [Owner(SEARCHED.user_id, messages), *(make_crowd(others) if others else ())]


async def add_vectors(store: Store, model_id: str) -> None:
    """Give every message of the user a vector, as if it came from a model."""
    erase_epoch = (await store.unindexed_messages(model_id, limit=1, scope=SEARCHED)).erase_epoch
    after: int | None = 0
    while after is not None:
        found = await store.search_rows(after=after, vectors_from=None, limit=_BATCH, scope=SEARCHED)
        vectors = make_unit_vectors(len(found.rows), seed=after).astype("<f2")
        items = [_add_vector(row, vector.tobytes()) for row, vector in zip(found.rows, vectors, strict=True)]
        if items:
            await store.put_search_rows(items, model_id=model_id, erase_epoch=erase_epoch, scope=SEARCHED)
        after = found.up_to


def _add_vector(row: SearchRow, vector: bytes) -> MessageTerms:
    if row.asks is None or row.term_hashes is None or row.term_counts is None:
        raise AssertionError("the store was filled with search rows")
    return MessageTerms(row.number, row.asks, row.term_hashes, row.term_counts, [vector])


@asynccontextmanager
async def sqlite_store(
    folder: Path, name: str, owners: list[Owner], model_id: str, tick: Tick = ignore_progress
) -> AsyncGenerator[Store]:
    """Provide a SQLite file with the messages of users, and the vectors of the searched one."""
    path = folder / f"{name}.db"
    fill_sqlite(path, owners, tick)
    async with open_store(f"sqlite:///{path}") as store:
        await add_vectors(store, model_id)
        yield store


@asynccontextmanager
async def sqlite_stores(
    folder: Path, model_id: str, sizes: RecallSizes, tick: Tick
) -> AsyncGenerator[tuple[SearchedStores, Store]]:
    """Provide SQLite files with the user alone, and one in which the user is among many others."""
    owned = {"few": (sizes.few, 0), "usual": (sizes.usual, 0), "many": (sizes.many, 0)}
    owned["among"] = (sizes.usual, sizes.others)
    reading = prepare_calls(await _record_reading(), "sqlite")
    async with AsyncExitStack() as stack:
        stores: dict[str, Store] = {}
        for name, (messages, others) in owned.items():
            owners, shown = make_owners(messages, others), tick if others else ignore_progress
            stores[name] = await stack.enter_async_context(
                sqlite_store(folder, name, owners, model_id, shown)
            )
        bare = BareSqlite(folder / "usual.db")
        stack.callback(bare.close)

        async def read_bare() -> object:
            return bare.read(reading)

        among = stores.pop("among")
        yield SearchedStores("SQLite", **stores, read_bare=read_bare), among


@asynccontextmanager
async def postgres_stores(
    server: Server, model_id: str, sizes: RecallSizes, tick: Tick
) -> AsyncGenerator[SearchedStores]:
    """Provide PostgreSQL databases with the user alone."""
    owned = {"few": sizes.few, "usual": sizes.usual, "many": sizes.many}
    reading = prepare_calls(await _record_reading(), "postgres")
    async with AsyncExitStack() as stack:
        urls = {name: stack.enter_context(server.database(name)) for name in owned}
        stores: dict[str, Store] = {}
        for name, messages in owned.items():
            await fill_postgres(urls[name], make_owners(messages), tick)
            stores[name] = await stack.enter_async_context(open_store(urls[name]))
            await add_vectors(stores[name], model_id)
            run_sql(urls[name], "VACUUM (ANALYZE)")
        server.settle()
        connection = await psycopg.AsyncConnection.connect(urls["usual"], autocommit=True)
        bare = BarePostgres(await stack.enter_async_context(connection), SEARCHED)
        yield SearchedStores("PostgreSQL", **stores, read_bare=lambda: bare.run(reading))


async def _record_reading() -> list[Statement]:
    """Record the statements that read all rows of a user at once."""
    recorder = Recorder(await SqliteEngine.open(MEMORY, BUSY_SECONDS, max_vacuum_bytes=0))
    async with Store(recorder) as store:
        await store.search_rows(scope=SEARCHED)
    return recorder.transactions[-1]
