"""The loop in gateway mode, against a real server: guards, errors, limits and background persistence."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.runtimes import Way, both_ways, loaded
from tests.support.gateway_server import Received, answers

from recollect import ToolCall
from recollect.errors import ModelError
from recollect.testing import ScriptedModel

pytestmark = [pytest.mark.anyio]


async def test_the_offline_model_promises_no_notes_that_a_gateway_has_no_tool_for(tmp_path: Path) -> None:
    """In curated mode it says how to note something, once there is nothing to quote."""
    for mode, is_said in (("memory_gateway", False), ("curated", True)):
        async with loaded(tmp_path, mode, "offline", store=f"{mode}.db") as setup:
            result = await setup.say("run", "Where is the harbour?")
        assert "It has nothing on this" in result.text
        assert ("remember that" in result.text) is is_said


@both_ways
async def test_what_left_the_guards_is_searched_for_shown_and_persisted(tmp_path: Path, way: Way) -> None:
    """An address that a guard took out reaches neither the gateway nor the session nor the model."""
    model = ScriptedModel("Write to ben@example.org.")
    async with loaded(tmp_path, "memory_gateway", model, guards=["PIIDetector"]) as setup:
        result = await setup.say(way, "I am ada@example.org")
        assert result.text == "Write to ***@***.***."
        sent = str([request.body for request in setup.gateway.requests])
        assert setup.gateway.sent_to("search")[0]["query"] == "I am ***@***.***"
        assert "example.org" not in sent + str(await setup.transcript()) + str(model.shown)


@both_ways
async def test_runs_that_end_in_an_error_or_a_trip_are_not_persisted(tmp_path: Path, way: Way) -> None:
    """Neither at the gateway nor in the session."""
    failing = ScriptedModel([RuntimeError("no")])
    async with loaded(tmp_path, "memory_gateway", failing) as setup:
        with pytest.raises((ModelError, RuntimeError)):
            await setup.say(way, "hello")
        assert setup.gateway.operations == ["search"]
        assert await setup.transcript() == []
    guards: list[Any] = [{"name": "PIIDetector", "strategy": "block", "side": "output"}]
    async with loaded(tmp_path, "memory_gateway", ScriptedModel("ben@example.org"), guards=guards) as setup:
        result = await setup.say(way, "who?")
        assert result.tripwire
        assert setup.gateway.operations == ["search"]
        assert await setup.transcript() == []


@both_ways
async def test_a_prompt_that_a_guard_blocks_reaches_no_gateway(tmp_path: Path, way: Way) -> None:
    """Not even the search."""
    guards: list[Any] = [{"name": "PIIDetector", "strategy": "block"}]
    async with loaded(tmp_path, "memory_gateway", ScriptedModel("fine"), guards=guards) as setup:
        result = await setup.say(way, "I am ada@example.org")
        assert result.tripwire
        assert setup.gateway.requests == []
        assert await setup.events() == []


@both_ways
async def test_a_tool_limit_fallback_answer_is_persisted(tmp_path: Path, way: Way) -> None:
    """It is the assistant's response that the user got."""
    model = ScriptedModel(ToolCall("c1", "session_search", {"query": "boat"}))
    async with loaded(tmp_path, "memory_gateway", model, maxToolRounds=2) as setup:
        result = await setup.say(way, "look everywhere")
        (added,) = setup.gateway.sent_to("add")
    assert result.finish_reason == "tool_limit"
    assert added["messages"][1]["content"] == result.text
    assert "smaller steps" in result.text


async def test_with_persist_after_the_answer_does_not_wait_for_add_and_flush(tmp_path: Path) -> None:
    """They follow the answer, once each, and closing the runtime waits for them."""
    async with loaded(tmp_path, "memory_gateway", ScriptedModel("fine"), persist="after") as setup:
        held = asyncio.Event()
        good = answers({})

        async def hold(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await held.wait()
            await good(request, reader, writer)

        setup.gateway.on("add", hold)
        result = await setup.say("run", "hello")
        assert result.text == "fine"
        assert "flush" not in setup.gateway.operations
        held.set()
        await setup.runtime.close()
        assert setup.gateway.operations == ["search", "add", "flush"]
        assert [event.name for event in await setup.events()][1:] == [
            "memory_gateway_add_succeeded",
            "memory_gateway_flush_succeeded",
        ]


async def test_a_failure_to_write_an_event_is_not_swallowed_by_the_backend(tmp_path: Path) -> None:
    """The backend raises it; in the loop it is told in the trace, and the chat goes on."""
    async with loaded(tmp_path, "memory_gateway", ScriptedModel("fine")) as setup:
        await setup.say("run", "hello")
        with closing(sqlite3.connect(tmp_path / ".recollect" / "recollect.db")) as database:
            database.execute("ALTER TABLE events RENAME TO events_away")
        result = await setup.say("run", "again")
        assert result.text == "fine"
        errors = {
            (entry.phase, entry.error) for entry in result.trace if entry.processor_id == "long-term-memory"
        }
        assert {phase for phase, error in errors if error} == {"input", "commit"}
        assert setup.gateway.operations == ["search", "add", "flush"] * 2
