"""What the store leaves in its tables, beyond what its methods show."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.storage.reads import counted_reads
from tests.support.databases import run_sql

from recollect import Message, Scope, Store, open_store

pytestmark = pytest.mark.anyio

GHOST = Scope(1, "ghost", "none")

REMOVALS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "delete_memory": lambda store: store.delete_memory("key", scope=GHOST),
    "clear_memory": lambda store: store.clear_memory(scope=GHOST),
    "delete_state": lambda store: store.delete_state(scope=GHOST),
    "delete_thread": lambda store: store.delete_thread(scope=GHOST),
    "delete_messages": lambda store: store.delete_messages(["m"], scope=GHOST),
    "clear_history": lambda store: store.clear_history(scope=GHOST),
    "erase": lambda store: store.erase(scope=GHOST),
}


@pytest.mark.parametrize("removal", REMOVALS)
async def test_no_row_names_a_user_when_nothing_was_there_to_remove(tmp_path: Path, removal: str) -> None:
    """Removing what is not there leaves nothing behind, not even the row that locks a user."""
    path = tmp_path / "store.db"
    async with open_store(f"sqlite:///{path}") as store:
        assert not getattr(outcome := await REMOVALS[removal](store), "total", outcome)
    connection: Any = apsw.Connection(str(path))
    assert connection.execute("SELECT count(*) FROM users").fetchall() == [(0,)]
    connection.close()


async def test_page_costs_the_same_when_the_thread_is_long(store_url: str) -> None:
    """A page of ten reads ten messages and not the rest of the thread."""
    scopes = {size: Scope(1, "ann", f"of {size}") for size in (200, 10_000)}
    read: dict[int, int] = {}
    with counted_reads() as reads:
        async with open_store(store_url) as store:
            for size, scope in scopes.items():
                turn = [Message("user", "Hello.", id=f"{size}/{n}") for n in range(size)]
                await store.append_turn(turn, scope=scope)
            if store.engine_name == "postgresql":
                # The server may still take the table for as small as other tests left it.
                run_sql(store_url, "ANALYZE recollect.messages")
            for size, scope in scopes.items():
                await reads.take()
                assert len(await store.page_of_messages(limit=10, scope=scope)) == 10
                read[size] = await reads.take()
    assert 0 < read[10_000] <= 2 * read[200], read
