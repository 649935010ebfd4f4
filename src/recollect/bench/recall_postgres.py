"""Searching on PostgreSQL: one user in databases of different sizes."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import psycopg

from recollect.bench import recall_speed
from recollect.bench.fill import fill_postgres
from recollect.bench.postgres_part import BarePostgres
from recollect.bench.recall_fill import add_vectors, owners
from recollect.bench.recall_sizes import RecallSizes
from recollect.bench.recall_speed import Searched, Ticker
from recollect.bench.recorder import calls
from recollect.bench.report import Part
from recollect.bench.server import Server
from recollect.recall.embedding.embedder import Embedding
from recollect.storage.opening import open_store
from recollect.testing.databases import run_sql

if TYPE_CHECKING:
    from recollect.storage.store import Store


async def measure(server: Server, embedder: Embedding, sizes: RecallSizes, ticker: Ticker) -> Part:
    """Fill the databases, and measure in them."""
    tick = ticker("filling PostgreSQL")
    owned = {"few": sizes.few, "usual": sizes.usual, "many": sizes.many}
    reading = calls(await recall_speed.reading_statements(), "postgres")
    async with AsyncExitStack() as stack:
        urls = {name: stack.enter_context(server.database(name)) for name in owned}
        stores: dict[str, Store] = {}
        for name, messages in owned.items():
            await fill_postgres(urls[name], owners(messages), tick)
            stores[name] = await stack.enter_async_context(open_store(urls[name]))
            await add_vectors(stores[name], embedder.model_id)
            run_sql(urls[name], "VACUUM (ANALYZE)")
        server.settle()
        connection = await psycopg.AsyncConnection.connect(urls["usual"], autocommit=True)
        bare = BarePostgres(await stack.enter_async_context(connection))
        searched = Searched(
            "PostgreSQL", stores["few"], stores["usual"], stores["many"], lambda: bare.run(reading)
        )
        return await recall_speed.measure(searched, embedder, sizes, ticker)
