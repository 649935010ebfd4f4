"""The store does not depend on how a PostgreSQL database is set up."""

import asyncio
from typing import LiteralString, cast

import pytest
from tests.support.databases import run_sql

from recollect import Message, Scope, open_store

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_concurrent_turns_succeed_when_the_default_isolation_is_strict(
    postgres_url: str, level: str
) -> None:
    """Writers of one thread wait for each other and see what the others committed meanwhile."""
    scope = Scope(1, "ann", "chat")
    database = run_sql(postgres_url, "SELECT current_database()")[0][0]
    setting = f"ALTER DATABASE {database} SET default_transaction_isolation = '{level}'"
    run_sql(postgres_url, cast("LiteralString", setting))
    try:
        async with open_store(postgres_url) as store:
            turns = [store.append_turn([Message("user", f"{n}")], scope=scope) for n in range(20)]
            placed = await asyncio.gather(*turns)
    finally:
        reset = f"ALTER DATABASE {database} RESET default_transaction_isolation"
        run_sql(postgres_url, cast("LiteralString", reset))
    assert sorted(places[0].position for places in placed) == list(range(1, 21))
