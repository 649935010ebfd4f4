"""Turning off durability, so that only the processor's work is left.

The connections are found by APSW's own hook for new connections: no private attribute of the store is used.
"""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Protocol, cast

import apsw


class _Cursor(Protocol):
    def fetchall(self) -> list[tuple[int]]: ...


class Connection(Protocol):
    """The part of `apsw.Connection` that is used here."""

    def execute(self, statements: str) -> _Cursor:
        """Run SQL."""
        ...


@contextmanager
def without_durability() -> Generator[list[Connection]]:
    """Set `synchronous=OFF` on every connection that was opened in the block, when the block ends.

    At the end, because who opens a connection sets `synchronous` itself.
    """
    opened: list[Connection] = []
    hooks = cast("list[object]", apsw.connection_hooks)
    hooks.append(opened.append)
    try:
        yield opened
        for connection in opened:
            with suppress(apsw.ConnectionClosedError):
                connection.execute("PRAGMA synchronous = OFF").fetchall()
    finally:
        hooks.remove(opened.append)
