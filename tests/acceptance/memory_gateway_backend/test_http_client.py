"""Document B, "HTTP client tests": the gateway's client against a real server."""

import time
import traceback

import pytest
from tests.backends.gateway.failure_modes import MODES, SHORT, Mode
from tests.support.gateway_calls import OPERATIONS, call_gateway, each_operation, fail_call
from tests.support.gateway_server import KEY, answers, gateway_server, settings_for, waits
from tests.support.waiting import GENEROUS

from recollect.backends.gateway.client import GatewayMessage, MemoryGatewayClient

pytestmark = pytest.mark.anyio

TURN = [
    GatewayMessage("gateway_test_user", "user", 1_780_000_000_000, "Do I drink tea?"),
    GatewayMessage("recollect", "assistant", 1_780_000_001_000, "You do."),
]
FAILURES = [(mode, operation) for mode in MODES for operation in OPERATIONS if mode.only in ("", operation)]
"""Every way to fail, of every call that fails in this way."""


async def test_search_uses_the_exact_path_and_payload_shape() -> None:
    """Search is one POST with the document's fields and nothing else."""
    async with gateway_server() as server:
        client = MemoryGatewayClient(settings_for(server))
        assert await client.search("s1", "Do I drink tea?") == []
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/memories/search")
    assert request.headers["content-type"] == "application/json"
    assert request.json == {
        "user_id": "gateway_test_user",
        "user_key": KEY,
        "conversation_id": "s1",
        "query": "Do I drink tea?",
        "scope": ["current_chat", "resources"],
        "top_k": 8,
        "app_id": "default",
        "project_id": "default",
    }


async def test_add_uses_the_exact_path_and_payload_shape() -> None:
    """Add is one POST with the session, the identity and the messages."""
    async with gateway_server() as server:
        client = MemoryGatewayClient(settings_for(server, app_id="desk", project_id="p1"))
        await client.add("chat:s1", TURN)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/memories/add")
    assert request.json == {
        "user_id": "gateway_test_user",
        "user_key": KEY,
        "session_id": "chat:s1",
        "app_id": "desk",
        "project_id": "p1",
        "messages": [
            {
                "sender_id": "gateway_test_user",
                "role": "user",
                "timestamp": 1_780_000_000_000,
                "content": "Do I drink tea?",
            },
            {
                "sender_id": "recollect",
                "role": "assistant",
                "timestamp": 1_780_000_001_000,
                "content": "You do.",
            },
        ],
    }


async def test_flush_uses_the_exact_path_and_payload_shape() -> None:
    """Flush is one POST with the session and the identity."""
    async with gateway_server() as server:
        await MemoryGatewayClient(settings_for(server)).flush("chat:s1")
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/memories/flush")
    assert request.json == {
        "user_id": "gateway_test_user",
        "user_key": KEY,
        "session_id": "chat:s1",
        "app_id": "default",
        "project_id": "default",
    }


@each_operation
async def test_configured_timeout_is_applied(operation: str) -> None:
    """The same late answer is a failure within a short time and a success within a longer one."""
    async with gateway_server() as server:
        server.on(operation, waits(SHORT * 2, answers({"results": []})))
        short = MemoryGatewayClient(settings_for(server, timeout_seconds=SHORT))
        started = time.monotonic()
        assert (await fail_call(short, operation)).category == "timeout"
        assert time.monotonic() - started >= SHORT * 0.9
        await call_gateway(MemoryGatewayClient(settings_for(server, timeout_seconds=GENEROUS)), operation)


@pytest.mark.parametrize(("mode", "operation"), FAILURES, ids=str)
async def test_non_2xx_network_invalid_json_and_invalid_response_shapes_produce_sanitized_client_exceptions(
    mode: Mode, operation: str
) -> None:
    """The error has operation, path, category and status, and no cause that could be shown."""
    async with gateway_server() as server:
        server.on(operation, mode.behaviour)
        started = time.monotonic()
        client = MemoryGatewayClient(settings_for(server, timeout_seconds=mode.seconds))
        error = await fail_call(client, operation)
        assert time.monotonic() - started < GENEROUS
        await server.left_alone()
    assert (error.operation, error.path) == (operation, f"/memories/{operation}")
    assert (error.category, error.status) == (mode.category, mode.status)
    assert (error.__cause__, error.__context__) == (None, None)
    assert len(server.requests) == 1, "nothing is tried again and no redirect is followed"


@pytest.mark.parametrize(
    ("mode", "operation"),
    [(mode, operation) for mode, operation in FAILURES if mode.category != "timeout" or mode.name == "never"],
    ids=str,
)
async def test_exception_strings_never_contain_the_configured_key(mode: Mode, operation: str) -> None:
    """Nor do its repr, fields, arguments and printed traceback, whatever the server repeats."""
    async with gateway_server() as server:
        server.on(operation, mode.behaviour)
        client = MemoryGatewayClient(settings_for(server, timeout_seconds=mode.seconds))
        error = await fail_call(client, operation)
    assert KEY in server.requests[0].body.decode()
    printed = "".join(traceback.format_exception(error))
    assert KEY not in f"{error} {error!r} {vars(error)!r} {error.args!r} {printed}"
