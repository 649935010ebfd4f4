"""Document B, "Agent loop tests": runtimes in both modes, against a real server and a real store."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)
from tests.backends.gateway.failure_modes import MODES, Mode
from tests.runtime.runtimes import (
    Way,
    WireModel,
    both_ways,
    call_to_add,
    loaded,
    write_notes,
    write_skill,
)
from tests.support.gateway_server import KEY, answers, refuses

from recollect import ToolCall
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio

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


FAILURES = [*{mode.category: mode for mode in reversed(MODES) if not mode.only}.values()]
"""One failure of each category; the tests of the client have them all."""


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
    """It is one message after the skills and before the history, fenced, and without the raw fields."""
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
        assert wire.system == [f"Be kind.\n\n{setup.runtime.backend.rule}"]
        assert "untrusted reference data" in wire.system[0]


@both_ways
async def test_add_and_flush_happen_after_the_final_assistant_response_and_exactly_once_each(
    tmp_path: Path, way: Way
) -> None:
    """Two messages, in order of time, under the session's name."""
    before, asked_until_then = int(time.time() * 1000), list[list[str]]()

    def respond(_: object) -> str:
        asked_until_then.append([*setup.gateway.operations])
        return "It is red."

    async with loaded(tmp_path, "memory_gateway", ScriptedModel(respond)) as setup:
        await setup.say(way, "which colour?")
        (added,), (flushed,) = setup.gateway.sent_to("add"), setup.gateway.sent_to("flush")
        assert setup.gateway.operations == ["search", "add", "flush"]
    assert asked_until_then == [["search"]]
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
async def test_tool_system_and_reasoning_content_is_absent_from_the_add_payload(
    tmp_path: Path, way: Way
) -> None:
    """Only the prompt and the final answer go out; nothing that tools, skills, memory or reasoning added."""
    write_skill(tmp_path, "sailing", "Reef early.")
    async with loaded(tmp_path, "memory_gateway", _reasoning_model()) as setup:
        setup.gateway.on("search", answers(FOUND))
        result = await setup.say(way, "which colour?", skills=["sailing"])
        (added,) = setup.gateway.sent_to("add")
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert [message["content"] for message in added["messages"]] == ["which colour?", "It is red."]
    for word in ("Reef", "ladder", "session_search", "Be kind", "boat", "Let me look", "Pondering"):
        assert word not in str(added)


@both_ways
@pytest.mark.parametrize("failure", FAILURES, ids=str)
@pytest.mark.parametrize("operation", ["search", "add", "flush"])
async def test_recall_add_and_flush_failures_do_not_change_the_returned_agent_run_result(
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


async def test_hidden_success_audit_events_contain_no_credentials(tmp_path: Path) -> None:
    """They have the documented fields, are of the session and the run, and are never in the history."""
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


@pytest.mark.parametrize("operation", ["search", "add", "flush"])
async def test_hidden_failure_audit_events_contain_no_credentials(tmp_path: Path, operation: str) -> None:
    """A gateway that quotes the whole request in its error gets nothing of it into an event."""
    async with loaded(tmp_path, "memory_gateway", ScriptedModel("fine")) as setup:
        setup.gateway.on(operation, refuses(401))
        result = await setup.say("run", "hello")
        events = await setup.events()
        second = await setup.say("run", "again")
    assert [event.payload["status"] for event in events if event.name.endswith("_failed")] == [401]
    assert {event.run_id for event in events} == {result.run_id}
    assert not any(event.context_visible for event in events)
    assert KEY not in str(events)
    assert "memory_gateway" not in str(second.prompt)


@both_ways
async def test_curated_mode_injects_a_frozen_snapshot(tmp_path: Path, way: Way) -> None:
    """A change by hand, or by the tool, is seen by the next run and not by this one."""
    write_notes(tmp_path, "MEMORY.md", "The boat is red.")
    write_notes(tmp_path, "USER.md", "Her name is Ada.")

    def look(_: object) -> str:
        write_notes(tmp_path, "MEMORY.md", "The boat is blue.")
        return "hm"

    model = ScriptedModel([[call_to_add("It has two masts.", "user")], look, "fine"])
    async with loaded(tmp_path, "curated", model) as setup:
        result = await setup.say(way, "what do you know?")
        await setup.say(way, "and now?")
        assert setup.gateway.requests == []
    assert result.text == "hm"
    first, second, third = ("\n".join(m.text for m in shown if m.role == "system") for shown in model.shown)
    assert "The boat is red." in first
    assert "Her name is Ada." in first
    assert first == second
    assert "The boat is blue." in third
    assert "It has two masts." in third


@both_ways
async def test_curated_mode_has_the_original_memory_tool(tmp_path: Path, way: Way) -> None:
    """The tool is registered, the model can call it, and what it adds is in the file after the run."""
    model = ScriptedModel([call_to_add("The boat is red."), "noted"])
    async with loaded(tmp_path, "curated", model) as setup:
        assert "memory" in setup.runtime.tool_names
        result = await setup.say(way, "my boat is red")
        assert setup.curated("MEMORY.md") == "The boat is red."
    (told,) = [answer for message in result.messages for answer in message.tool_results]
    assert (told.name, told.is_error) == ("memory", False)


async def test_gateway_mode_does_not_register_or_expose_the_original_memory_tool(tmp_path: Path) -> None:
    """A model that calls it all the same is told that there is none; session search is there."""
    model = ScriptedModel(
        [ToolCall("c1", "memory", {"target": "user", "action": "add", "content": "x"}), "ok"]
    )
    async with loaded(tmp_path, "memory_gateway", model) as setup:
        assert "memory" not in setup.runtime.tool_names
        assert "session_search" in setup.runtime.tool_names
        result = await setup.say("run", "hello")
        assert not (tmp_path / ".recollect" / "memories").exists()
    told = [answer.content for message in result.messages for answer in message.tool_results]
    assert told == ["There is no tool 'memory'; known: session_search."]


def _reasoning_model() -> FunctionModel:
    """Return a model that reasons, speaks, calls a tool, reasons again and answers."""

    async def respond(
        messages: list[ModelMessage], _: AgentInfo
    ) -> AsyncIterator[str | DeltaThinkingCalls | DeltaToolCalls]:
        yield {0: DeltaThinkingPart(content="Pondering what to say.")}
        if len(messages) > 1:
            yield "It is red."
            return
        yield "Let me look."
        yield {1: DeltaToolCall(name="session_search", json_args='{"query": "ladder"}', tool_call_id="c1")}

    return FunctionModel(stream_function=respond)
