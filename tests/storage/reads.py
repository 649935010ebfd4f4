"""Counting what a store reads: the steps of SQLite's machine, or the pages that PostgreSQL looks into.

Unlike a time, the count is the same on every machine.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import apsw
import psycopg
import pytest

_EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "


@dataclass
class Reads:
    """What was read since somebody last asked."""

    _steps: int = 0
    _plans: list[psycopg.AsyncCursor[Any]] = field(default_factory=list[psycopg.AsyncCursor[Any]])

    async def take(self) -> int:
        """Return how much was read, and begin again with nothing."""
        plans = [(await cursor.fetchall())[0][0][0]["Plan"] for cursor in self._plans]
        found = self._steps + sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans)
        self._steps, self._plans = 0, []
        return found

    def trace(self, connection: Any) -> None:  # noqa: ANN401 - apsw's types need a newer Python to be complete
        """Count the steps of each statement of a SQLite connection."""
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count)

    def _count(self, event: dict[str, Any]) -> None:
        self._steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def explaining(self, execute: Callable[..., Any]) -> Callable[..., Any]:
        """Return what has PostgreSQL explain each query before it runs it."""

        async def explain_and_execute(
            connection: psycopg.AsyncConnection[Any], query: str, params: object = None, **options: object
        ) -> psycopg.AsyncCursor[Any]:
            if "FROM recollect." in query and query.startswith("SELECT"):
                self._plans.append(await execute(connection, _EXPLAIN + query, params))
            return await execute(connection, query, params, **options)

        return explain_and_execute


@contextmanager
def counted_reads() -> Generator[Reads]:
    """Count what is read by stores that are opened in the block."""
    reads = Reads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, reads.trace])
        patch.setattr(psycopg.AsyncConnection, "execute", reads.explaining(psycopg.AsyncConnection.execute))
        yield reads
