"""The gateway's backend against a real server: timestamps, cancellation, and an audit log that fails."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.backends.audit_list import AuditList
from tests.support.gateway_backends import COMPLETED, NOON, NOON_MS, STARTED, TEA, backend_on
from tests.support.gateway_server import KEY, answers, gateway_server, never, refuses

from recollect import StorageError
from recollect.backends.base import MemoryBackend, Recollection
from recollect.backends.gateway.backend import MAX_QUERY_CHARACTERS

pytestmark = pytest.mark.anyio


async def test_failed_search_is_an_event_and_recalls_nothing() -> None:
    """A 401 has its status in the event, a dead gateway has none."""
    audit = AuditList()
    async with gateway_server() as server:
        server.on("search", refuses(401))
        assert await backend_on(server, audit).recall_before_run(STARTED) == Recollection()
    assert await backend_on(server, audit).recall_before_run(STARTED) == Recollection()
    assert audit.events == [
        (
            "memory_gateway_recall_failed",
            {"operation": "search", "category": "http_status", "status": 401},
        ),
        ("memory_gateway_recall_failed", {"operation": "search", "category": "connection"}),
    ]


async def test_long_prompt_is_searched_with_its_beginning() -> None:
    """A gateway that refuses long queries still recalls; what is persisted is whole."""
    prompt = "🍵" * (MAX_QUERY_CHARACTERS + 1)
    async with gateway_server() as server:
        backend = backend_on(server, AuditList())
        await backend.recall_before_run(replace(STARTED, prompt=prompt))
        await backend.persist_after_run(replace(COMPLETED, prompt=prompt))
    assert server.sent_to("search")[0]["query"] == "🍵" * MAX_QUERY_CHARACTERS
    assert server.sent_to("add")[0]["messages"][0]["content"] == prompt


async def test_session_id_is_prefixed_to_the_letter() -> None:
    """A session that is called `chat:x` itself is another one than `x`."""
    async with gateway_server() as server:
        await backend_on(server, AuditList()).persist_after_run(replace(COMPLETED, session_id="chat:x"))
    assert server.sent_to("add")[0]["session_id"] == "chat:chat:x"


@pytest.mark.parametrize(
    ("asked", "answered", "expected"),
    [
        (NOON, NOON, (NOON_MS, NOON_MS + 1)),
        (NOON, NOON - timedelta(hours=1), (NOON_MS, NOON_MS + 1)),
        (NOON, NOON + timedelta(microseconds=1_999), (NOON_MS, NOON_MS + 1)),
        (datetime(1969, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), (1, 2)),
        (
            datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2))),
            NOON + timedelta(milliseconds=5),
            (NOON_MS, NOON_MS + 5),
        ),
    ],
)
async def test_timestamps_are_positive_and_grow(
    asked: datetime, answered: datetime, expected: tuple[int, int]
) -> None:
    """A clock that stands still, goes back or is unset makes no message older than the one before it."""
    async with gateway_server() as server:
        run = replace(COMPLETED, asked_at=asked, answered_at=answered)
        await backend_on(server, AuditList()).persist_after_run(run)
    times = [message["timestamp"] for message in server.sent_to("add")[0]["messages"]]
    assert times == list(expected)


@pytest.mark.parametrize("name", ["recall_succeeded", "recall_failed"])
async def test_failure_of_the_audit_log_in_recall_is_raised(name: str) -> None:
    """An event that cannot be written is the store's failure, and is not swallowed."""
    broken = StorageError("the disk is full")
    async with gateway_server() as server:
        if name == "recall_failed":
            server.on("search", refuses(500))
        backend = backend_on(server, AuditList(fails={f"memory_gateway_{name}": broken}))
        with pytest.raises(StorageError) as caught:
            await backend.recall_before_run(STARTED)
    assert caught.value is broken


@pytest.mark.parametrize("name", ["add_succeeded", "add_failed", "flush_succeeded", "flush_failed"])
async def test_failure_of_the_audit_log_in_persistence_is_raised(name: str) -> None:
    """It is raised, and what was added is flushed all the same."""
    broken = StorageError("the disk is full")
    operation, outcome = name.split("_")
    async with gateway_server() as server:
        if outcome == "failed":
            server.on(operation, refuses(500))
        backend = backend_on(server, AuditList(fails={f"memory_gateway_{name}": broken}))
        with pytest.raises(StorageError) as caught:
            await backend.persist_after_run(COMPLETED)
    assert caught.value is broken
    assert server.operations == (["add"] if name == "add_failed" else ["add", "flush"])


@pytest.mark.parametrize("operation", ["add", "flush"])
async def test_cancelled_persistence_leaves_nothing_open(operation: str) -> None:
    """A cancellation passes through at once; no connection, no task and no event of an outcome is left."""
    audit = AuditList()
    async with gateway_server() as server:
        server.on(operation, never())
        before = asyncio.all_tasks()
        task = asyncio.create_task(backend_on(server, audit).persist_after_run(COMPLETED))
        await server.heard(operation)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.left_alone()
        assert asyncio.all_tasks() <= before
    assert audit.names == ([] if operation == "add" else ["memory_gateway_add_succeeded"])


async def test_status_has_the_settings_and_not_the_key() -> None:
    """It says where and how memory is kept; the key is not even hinted at."""
    async with gateway_server() as server:
        status = backend_on(server, AuditList()).status()
    assert status == {
        "mode": "memory_gateway",
        "base_url": server.url,
        "user_id": "gateway_test_user",
        "app_id": "default",
        "project_id": "default",
        "scope": ["current_chat", "resources"],
        "top_k": 8,
        "timeout_seconds": 10.0,
        "agent_id": "recollect",
    }
    assert KEY not in repr(status)


async def test_it_is_a_backend_without_tools() -> None:
    """The model cannot write here itself; the rule calls recalled memory untrusted and quotes nothing."""
    async with gateway_server() as server:
        server.on("search", answers({"results": [TEA]}))
        backend = backend_on(server, AuditList())
        rule = backend.rule
        await backend.recall_before_run(STARTED)
        await backend.close()
        await backend.close()
    assert isinstance(backend, MemoryBackend)
    assert backend.name == "memory_gateway"
    assert list(backend.get_tools()) == []
    assert backend.rule == rule
    assert "untrusted reference data" in rule
    assert "instructions" in rule
