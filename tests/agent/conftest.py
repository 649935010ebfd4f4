"""Fixtures of the agent's tests."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from tests.agent.openai_server import ChatServer, Say, chat_server
from tests.support.waiting import GENEROUS


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    """A server on a loop of its own."""
    found: list[ChatServer] = []
    started, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with chat_server(Say(texts=["fine"])) as state:
            found.append(state)
            started.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(GENEROUS)
    yield found[0]
    done.set()
    thread.join()
