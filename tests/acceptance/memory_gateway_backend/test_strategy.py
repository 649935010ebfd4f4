"""Document B, "Strategy tests": both backends on a real server, with their events in a real store."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.support.agents import model_of
from tests.support.gateway_backends import COMPLETED, NOON_MS, STARTED, TEA, backend_on
from tests.support.gateway_server import KEY, answers, gateway_server, refuses, says

from recollect import Agent, Message, Scope, Store, ToolCall
from recollect.backends.base import RecalledItem, Recollection, StoreAudit
from recollect.backends.gateway.backend import MemoryGatewayBackend
from recollect.backends.processor import BackendProcessor
from recollect.messages import ReasoningPart, TextPart
from recollect.runtime.loader import AgentRuntime, EngineLoader
from recollect.storage.opening import StoreHandle

pytestmark = pytest.mark.anyio

Events: TypeAlias = list[tuple[str, dict[str, object]]]


def audit_in(store: Store) -> StoreAudit:
    """Return the audit log of a runtime, in a store."""
    return StoreAudit(StoreHandle(store), Scope(None, "ada"))


async def events_in(store: Store) -> Events:
    """Return the events of the session, which are all hidden and of the one run."""
    events = await store.list_events(scope=Scope(None, "ada", "s1"))
    assert not any(event.context_visible for event in events)
    assert {event.run_id for event in events} == {"r1"}
    return [(event.name, dict(event.payload)) for event in events]


def load_runtime(folder: Path, mode: str, url: str) -> AgentRuntime:
    """Load a runtime whose file has a gateway section, whatever the mode."""
    gateway = {"baseUrl": url, "userId": "ada", "userKey": KEY, "scope": ["resources"]}
    file = folder / "config.json"
    file.write_text(json.dumps({"memory": {"mode": mode, "gateway": gateway}}), "utf-8")
    return EngineLoader(file).load()


async def test_curated_mode_returns_a_frozen_snapshot_and_performs_no_http_requests(tmp_path: Path) -> None:
    """A snapshot stays as it was when its file changes; only the other mode asks the gateway."""
    async with gateway_server() as server:
        async with load_runtime(tmp_path, "curated", server.url) as runtime:
            notes = runtime.config.curated.folder
            notes.mkdir(parents=True)
            (notes / "MEMORY.md").write_text("The boat is red.", "utf-8")
            found = await runtime.backend.recall_before_run(STARTED)
            (notes / "MEMORY.md").write_text("The boat is blue.", "utf-8")
            again = await runtime.backend.recall_before_run(STARTED)
            await runtime.backend.persist_after_run(COMPLETED)
        assert "The boat is red." in found.snapshot
        assert "blue" not in found.snapshot
        assert "The boat is blue." in again.snapshot
        assert (found.items, server.connections) == ((), 0)
        async with load_runtime(tmp_path, "memory_gateway", server.url) as runtime:
            await runtime.backend.recall_before_run(STARTED)
            await runtime.backend.persist_after_run(COMPLETED)
        assert server.operations == ["search", "add", "flush"]


async def test_gateway_mode_performs_search_with_configured_scopes_and_strips_raw_fields(
    store: Store,
) -> None:
    """Recall asks for the scopes and the number that the settings name, and keeps nothing of `raw`."""
    async with gateway_server() as server:
        server.on("search", answers({"results": [TEA]}))
        backend = backend_on(server, audit_in(store), scope=("resources", "all_user_memory"), top_k=3)
        found = await backend.recall_before_run(STARTED)
    (sent,) = server.sent_to("search")
    assert (sent["scope"], sent["top_k"]) == (["resources", "all_user_memory"], 3)
    assert (sent["conversation_id"], sent["query"]) == ("s1", "Do I drink tea?")
    assert found == Recollection(items=(RecalledItem("Ada drinks tea.", id="m1"),))
    told = {"scope": ["resources", "all_user_memory"], "result_count": 1}
    assert await events_in(store) == [("memory_gateway_recall_succeeded", told)]


@pytest.mark.parametrize("results", [[], [{"text": ""}, {"id": "m1"}, 3]])
async def test_empty_search_results_produce_no_reference_message(store: Store, results: list[object]) -> None:
    """Nothing found, or nothing usable, is a success, and the model is shown the prompt alone."""
    model = model_of("fine", "fine")
    async with gateway_server() as server:
        server.on("search", answers({"results": results}))
        await _ask(backend_on(server, audit_in(store)), model)
        server.on("search", answers({"results": [TEA]}))
        await _ask(backend_on(server, audit_in(store)), model)
    empty, full = model.shown
    assert [(message.origin, message.text) for message in empty] == [("input", "Do I drink tea?")]
    assert [message.origin for message in full] == ["memory", "input"]
    name, told = (await events_in(store))[0]
    assert (name, told["result_count"]) == ("memory_gateway_recall_succeeded", 0)


async def test_gateway_persistence_sends_exactly_prompt_and_final_response_then_flushes_once(
    store: Store,
) -> None:
    """Two messages in order, then one flush of the same session; tools and reasoning stay out."""
    turn = (
        Message("user", "Do I drink tea?"),
        Message("assistant", [ReasoningPart("hidden"), ToolCall("c1", "lookup", {"word": "hidden"})]),
        Message("assistant", [ReasoningPart("hidden"), TextPart("You do.")]),
    )
    async with gateway_server() as server:
        backend = backend_on(server, audit_in(store), agent_id="beaver")
        await backend.persist_after_run(replace(COMPLETED, messages=turn))
    assert server.operations == ["add", "flush"]
    (added,), (flushed,) = server.sent_to("add"), server.sent_to("flush")
    assert added.pop("messages") == [
        {
            "sender_id": "gateway_test_user",
            "role": "user",
            "timestamp": NOON_MS,
            "content": "Do I drink tea?",
        },
        {
            "sender_id": "beaver",
            "role": "assistant",
            "timestamp": NOON_MS + 1_000,
            "content": "You do.",
        },
    ]
    assert flushed == added
    assert flushed["session_id"] == "chat:s1"
    assert await events_in(store) == [
        ("memory_gateway_add_succeeded", {"session_id": "chat:s1", "message_count": 2}),
        ("memory_gateway_flush_succeeded", {"session_id": "chat:s1"}),
    ]


async def test_add_failure_skips_flush(store: Store) -> None:
    """Nothing is flushed and nothing tried again when add fails."""
    async with gateway_server() as server:
        server.on("add", refuses(500))
        await backend_on(server, audit_in(store)).persist_after_run(COMPLETED)
    assert server.operations == ["add"]
    assert await events_in(store) == [
        ("memory_gateway_add_failed", {"operation": "add", "category": "http_status", "status": 500})
    ]


async def test_flush_failure_preserves_the_successful_add_outcome(store: Store) -> None:
    """Both events are there, and the failure says that add had succeeded."""
    async with gateway_server() as server:
        server.on("flush", says(b"<html>"))
        await backend_on(server, audit_in(store)).persist_after_run(COMPLETED)
    assert server.operations == ["add", "flush"]
    assert await events_in(store) == [
        ("memory_gateway_add_succeeded", {"session_id": "chat:s1", "message_count": 2}),
        (
            "memory_gateway_flush_failed",
            {"operation": "flush", "category": "invalid_json", "status": 200, "add_succeeded": True},
        ),
    ]


async def _ask(backend: MemoryGatewayBackend, model: object) -> None:
    """Ask an agent with this long-term memory the question of the run."""
    processor = BackendProcessor(backend)
    agent = Agent(model, input_processors=[processor])
    await agent.generate("Do I drink tea?", run_id="r1", thread_id="s1", resource_id="ada")
