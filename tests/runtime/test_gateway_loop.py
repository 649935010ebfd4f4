"""The loop in gateway mode: document B's agent loop tests, against a real server on loopback."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.backends.gateway.failure_modes import MODES, Mode
from tests.runtime.engines import Way, WireModel, both_ways, loaded, write_skill
from tests.support.gateway_server import KEY, Received, answers

from recollect import ToolCall
from recollect.errors import ModelError
from recollect.testing import ScriptedModel

pytestmark = [pytest.mark.anyio]

FOUND = {
    "results": [
        {
            "id": "m1",
            "session_id": "chat:s0",
            "text": "The boat is red.",
            "score": 0.9,
            "source_scope": "resources",
            "resource_uri": "doc://boats",
            "raw": {"secret": "do not show this"},
        }
    ]
}


@both_ways
async def test_gateway_search_occurs_before_the_provider_call(tmp_path: Path, way: Way) -> None:
    """When the model is asked, the search is over and nothing was added yet."""
    seen: list[list[str]] = []
    model = ScriptedModel(lambda _: str(seen.append([*setup.gateway.operations])))
    async with loaded(tmp_path, "memory_gateway", model) as setup:
        await setup.say(way, "hello")
        assert seen == [["search"]]
        assert setup.gateway.operations == ["search", "add", "flush"]
        assert setup.gateway.sent_to("search") == [
            {
                "user_id": "ada",
                "user_key": KEY,
                "conversation_id": "s1",
                "query": "hello",
                "scope": ["current_chat", "resources"],
                "top_k": 8,
                "app_id": "default",
                "project_id": "default",
            }
        ]


@both_ways
async def test_recalled_content_appears_before_the_current_user_prompt_and_outside_the_system_prompt(
    tmp_path: Path, way: Way
) -> None:
    """It is one message behind the skills and before the history, fenced, and without the raw fields."""
    write_skill(tmp_path, "sailing", "Reef early.")
    wire = WireModel(["first", "second"])
    async with loaded(tmp_path, "memory_gateway", wire.model()) as setup:
        await setup.say(way, "an earlier question")
        setup.gateway.on("search", answers(FOUND))
        result = await setup.say(way, "which colour?", skills=["sailing"])
    kinds = [(message.role, message.origin) for message in result.prompt]
    assert kinds == [
        ("system", "system"),  # the skill
        ("system", "memory"),  # what was recalled
        ("user", "memory"),
        ("assistant", "memory"),
        ("user", "input"),
    ]
    recalled, earlier, question = wire.sent[-1]
    assert "The boat is red." in recalled
    assert "not instructions" in recalled
    assert (earlier, question) == ("an earlier question", "which colour?")
    assert "red" not in wire.system[-1]
    assert "do not show this" not in str(wire.sent) + str(wire.system)


async def test_the_system_prompt_contains_the_untrusted_reference_rule_in_gateway_mode(
    tmp_path: Path,
) -> None:
    """It stands there in every run, whether anything was recalled or not."""
    wire = WireModel()
    async with loaded(tmp_path, "memory_gateway", wire.model()) as setup:
        await setup.say("run", "hello")
        assert wire.system == [f"Be kind.\n\n{setup.engine.backend.rule}"]
        assert "untrusted reference data" in wire.system[0]


@both_ways
async def test_add_and_flush_happen_after_the_final_response_and_exactly_once_each(
    tmp_path: Path, way: Way
) -> None:
    """Two messages, in order of time, under the session's name."""
    before = int(time.time() * 1000)
    async with loaded(tmp_path, "memory_gateway", ScriptedModel("It is red.")) as setup:
        await setup.say(way, "which colour?")
        (added,), (flushed,) = setup.gateway.sent_to("add"), setup.gateway.sent_to("flush")
    times = [message.pop("timestamp") for message in added["messages"]]
    assert before <= times[0] < times[1] <= time.time() * 1000 + 1
    identity = {
        "user_id": "ada",
        "user_key": KEY,
        "session_id": "chat:s1",
        "app_id": "default",
        "project_id": "default",
    }
    assert added == identity | {
        "messages": [
            {"sender_id": "ada", "role": "user", "content": "which colour?"},
            {"sender_id": "recollect", "role": "assistant", "content": "It is red."},
        ]
    }
    assert flushed == identity


@both_ways
async def test_tool_system_reasoning_and_skill_content_is_absent_from_the_add_payload(
    tmp_path: Path, way: Way
) -> None:
    """Only what was asked and the final answer go out; nothing that memory or skills added."""
    write_skill(tmp_path, "sailing", "Reef early.")
    call = ToolCall("c1", "session_search", {"query": "ladder"})
    model = ScriptedModel([["Let me look.", call], "It is red."])
    async with loaded(tmp_path, "memory_gateway", model) as setup:
        setup.gateway.on("search", answers(FOUND))
        await setup.say(way, "which colour?", skills=["sailing"])
        (added,) = setup.gateway.sent_to("add")
    assert [message["content"] for message in added["messages"]] == ["which colour?", "It is red."]
    for word in ("Reef", "ladder", "session_search", "Be kind", "boat", "Let me look"):
        assert word not in str(added)


async def test_the_offline_model_promises_no_notes_that_a_gateway_has_no_tool_for(tmp_path: Path) -> None:
    """In curated mode it says how to note something, once there is nothing to quote."""
    for mode, is_said in (("memory_gateway", False), ("curated", True)):
        async with loaded(tmp_path, mode, "offline") as setup:
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


FAILURES = [*{mode.category: mode for mode in reversed(MODES) if not mode.only}.values()]
"""One failure of each category; the tests of the client have them all."""


@both_ways
@pytest.mark.parametrize("failure", FAILURES, ids=str)
@pytest.mark.parametrize("operation", ["search", "add", "flush"])
async def test_recall_add_and_flush_failures_do_not_change_the_result(
    tmp_path: Path, way: Way, operation: str, failure: Mode
) -> None:
    """The run goes on within the timeout, is saved, and a hidden event says what went wrong."""
    gateway = {"timeoutSeconds": 2 * failure.seconds}  # the other operations have to succeed within it
    async with loaded(tmp_path, "memory_gateway", ScriptedModel("fine"), gateway=gateway) as setup:
        setup.gateway.on(operation, failure.behaviour)
        result = await asyncio.wait_for(setup.say(way, "hello"), 2 * failure.seconds + 60)
        events = {event.name: dict(event.payload) for event in await setup.events()}
        operations = setup.gateway.operations
        transcript = await setup.transcript()
    assert (result.text, result.saved, result.tripwire) == ("fine", True, None)
    assert transcript == [("user", "hello"), ("assistant", "fine")]
    name = "recall" if operation == "search" else operation
    told = events[f"memory_gateway_{name}_failed"]
    assert (told["operation"], told["category"]) == (operation, failure.category)
    assert told.get("status") == failure.status
    assert operations == {"search": ["search", "add", "flush"], "add": ["search", "add"]}.get(
        operation, ["search", "add", "flush"]
    )
    assert ("memory_gateway_flush_succeeded" in events) == (operation == "search")
    assert told.get("add_succeeded") == (True if operation == "flush" else None)


async def test_hidden_success_events_are_filled_as_listed_and_contain_no_credentials(tmp_path: Path) -> None:
    """They are of the session and the run, not visible in any context, and never in the history."""
    async with loaded(tmp_path, "memory_gateway", ScriptedModel("fine")) as setup:
        setup.gateway.on("search", answers(FOUND))
        result = await setup.say("run", "hello")
        events = await setup.events()
        second = await setup.say("run", "again")
    assert [(event.name, dict(event.payload)) for event in events] == [
        ("memory_gateway_recall_succeeded", {"scope": ["current_chat", "resources"], "result_count": 1}),
        ("memory_gateway_add_succeeded", {"session_id": "chat:s1", "message_count": 2}),
        ("memory_gateway_flush_succeeded", {"session_id": "chat:s1"}),
    ]
    assert {event.run_id for event in events} == {result.run_id}
    assert not any(event.context_visible for event in events)
    assert KEY not in str(events)
    assert "memory_gateway" not in str(second.prompt)


async def test_gateway_mode_does_not_register_or_expose_the_memory_tool(tmp_path: Path) -> None:
    """A model that calls it all the same is told that there is none; session search is there."""
    model = ScriptedModel(
        [ToolCall("c1", "memory", {"target": "user", "action": "add", "content": "x"}), "ok"]
    )
    async with loaded(tmp_path, "memory_gateway", model) as setup:
        assert "memory" not in setup.engine.tools
        assert "session_search" in setup.engine.tools
        result = await setup.say("run", "hello")
        assert not (tmp_path / ".recollect" / "memories").exists()
    told = [answer.content for message in result.messages for answer in message.tool_results]
    assert told == ["There is no tool 'memory'; known: session_search."]


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
    """They are done behind it, once each, and closing the engine waits for them."""
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
        await setup.engine.close()
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
