"""What tests of the agent share: running it in both ways, and looking at a store from outside."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal, TypeAlias, cast

import pytest

from recollect import Agent, Event, Memory, Message, Result, ToolCall
from recollect.storage.opening import sqlite_path
from recollect.testing import Reply, ScriptedModel

Mode: TypeAlias = Literal["generate", "stream"]

both_modes = pytest.mark.parametrize("mode", ["generate", "stream"])
"""Runs a test for `generate` and for `stream`."""

ADA: dict[str, Any] = {"tenant_id": None, "resource_id": "ada", "thread_id": "t1"}
"""The ids of a run of one user."""

CALL = ToolCall("call-1", "lookup", {"word": "ping"})
"""A call of the tool `lookup`."""


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means pong"


async def events_of(agent: Agent, prompt: Any, **options: Any) -> list[Event]:  # noqa: ANN401 - those of stream
    """Stream an answer and return all its events."""
    return [event async for event in agent.stream(prompt, **options)]


async def answer(agent: Agent, mode: Mode, prompt: Any, **options: Any) -> Result:  # noqa: ANN401 - those of generate
    """Run an agent in one of the two ways and return the result."""
    if mode == "generate":
        return await agent.generate(prompt, **options)
    final = (await events_of(agent, prompt, **options))[-1].result
    assert final is not None
    return final


def streamed_text(events: Iterable[Event]) -> str:
    """Return the text of a stream's events as one string."""
    return "".join(event.text for event in events)


def model_of(*replies: Reply, mode: Mode = "stream", chunk_size: int = 3) -> ScriptedModel:
    """Return a scripted model that cuts its texts into small chunks."""
    return ScriptedModel(replies, chunk_size=chunk_size if mode == "stream" else None)


def texts(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """Return who said what."""
    return [(message.role, message.text) for message in messages]


def spoken(messages: Iterable[Message]) -> Message:
    """Return the last message of the assistant."""
    return [message for message in messages if message.role == "assistant"][-1]


def is_unopened(memory: Memory) -> bool:
    """Whether nobody has asked a memory for its store yet."""
    return not memory._handle._opened  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the only evidence that it was not touched


def dump(url: str) -> Mapping[str, Sequence[object]]:
    """Return all rows of a SQLite file but events, as another connection sees them."""
    with closing(sqlite3.connect(f"file:{sqlite_path(url)}?mode=ro", uri=True)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        tables = [cast("str", row[0]) for row in names]
        return {
            table: sorted(connection.execute(f'SELECT * FROM "{table}"').fetchall(), key=repr)  # noqa: S608 - names of our own tables
            for table in tables
            if table != "events"
        }
