"""The peers to compare with: a bare Pydantic AI agent, and `SQLiteSession` of OpenAI's Agents SDK.

The second is an optional dependency.
"""

import importlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic_ai import Agent
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from recollect.agent.provider import to_model_messages
from recollect.messages import Message

INSTALL = "pip install 'recollect[bench]'"
"""The command that installs the peer."""

_LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")


class Session(Protocol):
    """The methods of the peer that we use."""

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
    """Open the peer on a file, or return None if it is not installed."""
    try:
        agents = importlib.import_module("agents")
    except ImportError:
        return None
    return cast("Session", agents.SQLiteSession("conversation", path))


def items_of(turn: tuple[str, str]) -> list[dict[str, str]]:
    """Return a turn's two messages in the format of the peer."""
    return [{"role": "user", "content": turn[0]}, {"role": "assistant", "content": turn[1]}]


def describe_durability(path: Path) -> str:
    """Describe how durable the peer's commits are; it sets the journal and keeps SQLite's other defaults."""
    connection = sqlite3.connect(path)
    try:
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
    finally:
        connection.close()
    return f"journal_mode={str(journal).upper()}, synchronous={_LEVELS[level]}"


def make_instant_model(chunks: Sequence[str]) -> FunctionModel:
    """Return a model that streams the chunks, or returns them joined without a stream."""

    async def answer(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("".join(chunks))])

    async def speak(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[str]:
        for chunk in chunks:
            yield chunk

    return FunctionModel(answer, stream_function=speak)


def make_bare_turn(
    model: FunctionModel, prompt: str, history: Sequence[Message]
) -> Callable[[], Awaitable[object]]:
    """Return a function that runs a bare agent with the history in its own format."""
    agent = Agent(model)
    handed = to_model_messages(history, "", {})[: len(history)]  # it ends with an answer, not with a question
    return lambda: agent.run(prompt, message_history=handed)


def make_bare_stream(model: FunctionModel, prompt: str) -> Callable[[], Awaitable[None]]:
    """Return a function that reads one stream of the model layer, with nothing of ours around it."""
    request: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(prompt)])]

    async def drain() -> None:
        async with model_request_stream(model, request) as stream:
            async for _ in stream:
                pass

    return drain
