"""The same memory and the same questions give the same ranking on SQLite and on PostgreSQL."""

import json
from typing import Any

import pytest
from tests.recall.corpus import QUESTIONS, threads
from tests.support.embedders import Remembering

from recollect import Memory

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


async def rankings(url: str, embedder: object) -> list[Any]:
    """Fill a database and return the results of every question, without the timings."""
    found: list[Any] = []
    options = {"tenant_id": None, "resource_id": "ada"}
    async with Memory(url, semantic_recall=True, embedder=embedder, **options) as memory:  # pyright: ignore[reportArgumentType] - ids by name
        for thread, messages in threads().items():
            await memory.save_messages(messages, thread_id=thread)
        if embedder is not None:
            await memory.settled()
        for question in QUESTIONS:
            for within in ("user", "thread"):
                result = await memory.query(
                    question, top_k=30, max_tokens=100_000, within=within, thread_id="thread 2", explain=True
                )  # fmt: skip
                values = result.to_dict()
                del values["timings"]
                found.append(json.loads(json.dumps(values)))
    return found


@pytest.mark.parametrize("embedder", [None, Remembering()], ids=["words", "hybrid"])
async def test_rankings_are_equal_on_both_engines(
    sqlite_url: str, postgres_url: str, embedder: object
) -> None:
    """Hits, scores, parts, ranks, neighbours, segments and misses are equal to the last digit."""
    sqlite, postgres = await rankings(sqlite_url, embedder), await rankings(postgres_url, embedder)
    assert len(sqlite) == 2 * len(QUESTIONS)
    assert sum(len(values["hits"]) for values in sqlite) > 100
    for ours, theirs in zip(sqlite, postgres, strict=True):
        assert ours == theirs
