"""The peer that we compare with: the `SQLiteSession` of OpenAI's Agents SDK, an optional dependency."""

import importlib
import sqlite3
from pathlib import Path
from typing import Any, Protocol, cast

INSTALL = "pip install 'recollect[bench]'"
"""How to get the peer."""

_LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")


class Session(Protocol):
    """What we use of the peer."""

    async def add_items(self, items: list[Any]) -> None:
        """Append messages."""
        ...

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest messages."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


def open_session(path: Path) -> Session | None:
    """Open the peer on a file, or return None where it is not installed."""
    try:
        agents = importlib.import_module("agents")
    except ImportError:
        return None
    return cast("Session", agents.SQLiteSession("conversation", path))


def items_of(turn: tuple[str, str]) -> list[dict[str, str]]:
    """Return a turn's two messages as the peer takes them."""
    return [{"role": "user", "content": turn[0]}, {"role": "assistant", "content": turn[1]}]


def durability(path: Path) -> str:
    """Say how durable the peer's commits are; it sets the journal and leaves the rest at its default."""
    connection = sqlite3.connect(path)
    try:
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
    finally:
        connection.close()
    return f"journal_mode={str(journal).upper()}, synchronous={_LEVELS[level]}"
