"""The peers that we compare with: a bare Pydantic AI agent, and the `SQLiteSession` of OpenAI's Agents SDK.

The latter is an optional dependency.
"""

import importlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from recollect.agent.provider import to_model_messages
from recollect.messages import Message

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


def instant_model(chunks: Sequence[str]) -> FunctionModel:
    """Return a model that says the chunks one by one, or all at once where no stream is asked for."""

    async def answer(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("".join(chunks))])

    async def speak(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[str]:
        for chunk in chunks:
            yield chunk

    return FunctionModel(answer, stream_function=speak)


def bare_turn(
    model: FunctionModel, prompt: str, history: Sequence[Message]
) -> Callable[[], Awaitable[object]]:
    """Return a function that runs a bare agent, which is handed the history in its own form."""
    agent = Agent(model)
    handed = to_model_messages(history, "", {})[: len(history)]  # it ends with an answer, not with a question
    return lambda: agent.run(prompt, message_history=handed)
