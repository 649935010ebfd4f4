"""`recollect chat` while another process holds the store: it says what it waits for, and can stop."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.chat.terminal import Terminal
from tests.cli.chat.test_chat import piped
from tests.support.waiting import until

from recollect.cli.chat.loop import report_waits
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.sqlite.connection import connect
from recollect.trace import Trace

PATIENT = """
import sys
from recollect.cli.app import main
from recollect.storage import opening

opening.BUSY_SECONDS = 600
sys.argv = ["recollect", "chat"]
main()
"""
"""A chat that would wait for a file far longer than a test waits for its end."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An agent that has answered once, so that its store is there."""
    piped(tmp_path, "", "init")
    piped(tmp_path, "hi\n", "chat", "--session", "s1")
    return tmp_path


@contextmanager
def held(folder: Path) -> Generator[None]:
    """Write to the store of a folder, and take long over it."""
    connection = connect(str(folder / ".recollect" / "recollect.db"))
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()


def prompts(folder: Path) -> list[str]:
    """Return what was asked in the session and kept."""

    async def read() -> list[str]:
        async with open_store(f"sqlite:///{folder}/.recollect/recollect.db") as store:
            messages = await store.last_messages(None, scope=Scope(None, "local", "s1"))
            return [message.text for message in messages if message.role == "user"]

    return asyncio.run(read())


def test_a_chat_says_that_it_waits_for_the_store_and_saves_when_it_is_free(folder: Path) -> None:
    """On a line of its own after the answer, once; nothing is lost."""
    with Terminal(["chat"], folder) as terminal:
        terminal.wait_for("you> ")
        with held(folder):
            terminal.type("hello\n")
            terminal.wait_for("\n(still saving this turn; another process may be writing")
        assert "(still saving" not in terminal.wait_for("you> ")
        terminal.type("/quit\n")
        assert terminal.ended() == 0
    assert prompts(folder) == ["hi", "hello"]


def test_ctrl_c_ends_the_wait_for_the_store_and_so_does_leaving(folder: Path) -> None:
    """The turn is not kept, also when the store is free later; nobody waits for it at the end."""
    with Terminal([], folder, code=PATIENT) as terminal:
        terminal.wait_for("you> ")
        with held(folder):
            terminal.type("hello\n")
            terminal.wait_for("(still saving this turn")
            terminal.interrupt()
            terminal.wait_for("(stopped; this turn is not kept)")
            terminal.wait_for("you> ")
            terminal.type("/quit\n")
            assert terminal.ended() == 0
    assert prompts(folder) == ["hi"]


@pytest.mark.anyio
async def test_only_what_goes_on_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that has ended, and one that streams, are not waited for."""
    monkeypatch.setattr("recollect.cli.chat.loop._PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("recollect.cli.chat.loop._CHECK_SECONDS", 0.01)
    told: list[str] = []
    trace = Trace()
    async with report_waits(trace, told.append):
        with trace.time_call("moderation", "input"):
            await until(lambda: len(told) > 0)
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.05)
        with trace.time_call("pii", "stream"):
            await asyncio.sleep(0.05)
        with trace.time_call("long-term-memory", "commit"):
            await until(lambda: len(told) > 1)
            await asyncio.sleep(0.05)
    assert told == [
        "(still waiting for moderation; Ctrl-C stops)",
        "(still telling long-term memory of this turn; Ctrl-C stops)",
    ]


@pytest.mark.anyio
async def test_long_waits_are_told_when_the_clock_is_set_back_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How long a step takes is measured by a clock that nobody sets."""
    monkeypatch.setattr("recollect.cli.chat.loop._PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr("recollect.cli.chat.loop._CHECK_SECONDS", 0.01)
    told: list[str] = []
    trace = Trace()
    async with report_waits(trace, told.append):
        with trace.time_call("moderation", "input") as entry:
            entry.started_at_ns += 3600 * 10**9  # an hour from now, as it is if the clock is set back
            await until(lambda: len(told) > 0)
    assert told == ["(still waiting for moderation; Ctrl-C stops)"]
