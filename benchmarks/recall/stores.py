"""Stores to search: one user with many messages and a vector for each, alone or among others.

The vectors are random, because embedding a hundred thousand texts would take half an hour. How long a search
takes does not depend on what is in them.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import psycopg
from numpy.typing import NDArray
from tests.support.databases import run_sql

from benchmarks.harness.fill import Owner, crowd, fill_postgres, fill_sqlite
from benchmarks.harness.replay import BarePostgres, BareSqlite, Recorder, calls
from benchmarks.harness.report import Tick, ignore_progress
from benchmarks.harness.server import Server
from benchmarks.sizes import RecallSizes
from recollect.recall.embedding.embedder import Embedding
from recollect.recall.index.cache import MOST_MESSAGES
from recollect.storage.engine import Statement
from recollect.storage.opening import open_store
from recollect.storage.records import MessageVectors
from recollect.storage.sqlite.connection import MEMORY
from recollect.storage.sqlite.engine import SqliteEngine
from recollect.storage.store import Store

NOTE = (
    "The searched user's messages are made up and their vectors are random; the messages of other users have "
    "no vectors."
)
"""What a reader has to know of these stores."""

DIMENSIONS = 384
"""How long the vectors are: as long as those of the built-in embedder."""

SEARCHED = Owner("searched", 0).thread(0)
"""The user who is searched, in the thread that asks."""

_AT_ONCE = 1_000
_SPAN = np.array([0, 200], dtype="<u4").tobytes()


ReadBare: TypeAlias = Callable[[], Awaitable[object]]
"""Reads the search rows of the user with a bare driver."""


class Searched(NamedTuple):
    """An engine, the stores in which the user has few, usual and many messages, and the bare driver."""

    engine: str
    few: Store
    usual: Store
    many: Store
    read_bare: ReadBare


def unit_vectors(count: int, seed: int = 5) -> NDArray[np.float32]:
    """Return random vectors of length 1."""
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSIONS), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ready_embedder(model_id: str) -> Embedding:
    """Return an embedder that takes no time: it has one vector, for whatever is asked."""
    vector = unit_vectors(1, seed=6)[0]

    async def embed_query(_: str) -> object:
        return vector

    async def embed_documents(texts: list[str]) -> object:
        return [vector for _ in texts]

    return Embedding(embed_query, embed_documents, model_id, DIMENSIONS)


def owners(messages: int, others: int = 0) -> list[Owner]:
    """Return the user with so many messages, and as many others as share some more."""
    return [Owner(SEARCHED.user_id, messages), *(crowd(others) if others else ())]


async def add_vectors(store: Store, model_id: str) -> None:
    """Give every message of the user a vector, as if it came from a model."""
    found = await store.search_rows(scope=SEARCHED)
    vectors = unit_vectors(len(found.rows)).astype("<f2")
    items = [
        MessageVectors(row.number, _SPAN, vector.tobytes())
        for row, vector in zip(found.rows, vectors, strict=True)
    ]
    for first in range(0, len(items), _AT_ONCE):
        await store.put_vectors(
            items[first : first + _AT_ONCE],
            model_id=model_id,
            dimensions=DIMENSIONS,
            epoch=found.epoch,
            scope=SEARCHED,
        )


@asynccontextmanager
async def sqlite_stores(
    folder: Path, model_id: str, sizes: RecallSizes, tick: Tick
) -> AsyncGenerator[tuple[Searched, Store]]:
    """Provide SQLite files with the user alone, and one in which the user is among many others."""
    owned = {"few": (sizes.few, 0), "usual": (sizes.usual, 0), "many": (sizes.many, 0)}
    owned["among"] = (sizes.usual, sizes.others)
    reading = calls(await _reading_statements(), "sqlite")
    async with AsyncExitStack() as stack:
        stores: dict[str, Store] = {}
        for name, (messages, others) in owned.items():
            path = folder / f"{name}.db"
            fill_sqlite(path, owners(messages, others), tick if others else ignore_progress)
            stores[name] = await stack.enter_async_context(open_store(f"sqlite:///{path}"))
            await add_vectors(stores[name], model_id)
        bare = BareSqlite(folder / "usual.db")
        stack.callback(bare.close)

        async def read_bare() -> object:
            return bare.read(reading)

        among = stores.pop("among")
        yield Searched("SQLite", **stores, read_bare=read_bare), among


@asynccontextmanager
async def postgres_stores(
    server: Server, model_id: str, sizes: RecallSizes, tick: Tick
) -> AsyncGenerator[Searched]:
    """Provide PostgreSQL databases with the user alone."""
    owned = {"few": sizes.few, "usual": sizes.usual, "many": sizes.many}
    reading = calls(await _reading_statements(), "postgres")
    async with AsyncExitStack() as stack:
        urls = {name: stack.enter_context(server.database(name)) for name in owned}
        stores: dict[str, Store] = {}
        for name, messages in owned.items():
            await fill_postgres(urls[name], owners(messages), tick)
            stores[name] = await stack.enter_async_context(open_store(urls[name]))
            await add_vectors(stores[name], model_id)
            run_sql(urls[name], "VACUUM (ANALYZE)")
        server.settle()
        connection = await psycopg.AsyncConnection.connect(urls["usual"], autocommit=True)
        bare = BarePostgres(await stack.enter_async_context(connection), SEARCHED)
        yield Searched("PostgreSQL", **stores, read_bare=lambda: bare.run(reading))


async def _reading_statements() -> list[Statement]:
    """Record the statements with which a search reads a user's rows for the first time."""
    recorder = Recorder(await SqliteEngine.open(MEMORY))
    async with Store(recorder) as store:
        await store.search_rows(limit=MOST_MESSAGES, scope=SEARCHED)
    return recorder.transactions[-1]
