"""The gateway's client against a real server: URLs, what it believes of answers, and many calls at once."""

import asyncio
import json

import pytest
from tests.support.gateway_server import answers, gateway_server, says, settings_for

from recollect.backends.base import RecalledItem
from recollect.backends.gateway.client import GatewayMessage, MemoryGatewayClient

pytestmark = pytest.mark.anyio

TURN = [
    GatewayMessage("gateway_test_user", "user", 1_780_000_000_000, "Do I drink tea?"),
    GatewayMessage("recollect", "assistant", 1_780_000_001_000, "You do."),
]


@pytest.mark.parametrize(
    ("ending", "path"),
    [
        ("", "/memories/search"),
        ("/", "/memories/search"),
        ("//", "/memories/search"),
        ("/api/v1", "/api/v1/memories/search"),
        ("/api/v1/", "/api/v1/memories/search"),
        ("/über%20uns", "/%C3%BCber%20uns/memories/search"),
    ],
)
async def test_base_url_may_have_a_path_and_a_slash_at_its_end(ending: str, path: str) -> None:
    """The operation's path is appended to the path of the base URL."""
    async with gateway_server() as server:
        await MemoryGatewayClient(settings_for(server, base_url=server.url + ending)).search("s1", "tea")
    assert [request.path for request in server.requests] == [path]


async def test_results_are_reduced_to_six_fields() -> None:
    """What else a result has, `raw` above all, is not kept."""
    full = {
        "id": "m1",
        "session_id": "chat:s0",
        "text": "Ada drinks tea.",
        "score": 0.9,
        "source_scope": "resources",
        "resource_uri": "resource://1",
        "raw": {"secret": "backend"},
        "extra": 1,
    }
    async with gateway_server() as server:
        server.on("search", answers({"results": [full, {"text": "Only text."}], "raw": "no", "took": 3}))
        found = await MemoryGatewayClient(settings_for(server)).search("s1", "tea")
    assert found == [
        RecalledItem("Ada drinks tea.", "m1", "chat:s0", 0.9, "resources", "resource://1"),
        RecalledItem("Only text."),
    ]
    assert "backend" not in repr(found)


async def test_unusable_results_are_left_out() -> None:
    """A result without text, or that is no object, is no reason to lose the others."""
    results: list[object] = [
        None,
        3,
        "text",
        [],
        {},
        {"text": None},
        {"text": 3},
        {"text": " \n"},
        {"text": ["a"]},
        {"text": "ok"},
    ]
    async with gateway_server() as server:
        server.on("search", answers({"results": results}))
        found = await MemoryGatewayClient(settings_for(server)).search("s1", "tea")
    assert found == [RecalledItem("ok")]


@pytest.mark.parametrize(
    "score", ["NaN", "Infinity", "-Infinity", "1e999", "true", '"0.5"', "[]", "1" * 4_000]
)
async def test_score_of_a_wrong_kind_becomes_none(score: str) -> None:
    """Only a finite number is a score."""
    async with gateway_server() as server:
        server.on("search", says(b'{"results": [{"text": "tea", "score": %b}]}' % score.encode()))
        assert await MemoryGatewayClient(settings_for(server)).search("s1", "tea") == [RecalledItem("tea")]


async def test_fields_of_a_wrong_type_become_none() -> None:
    """An id that is a number is no id; the text still counts."""
    odd: dict[str, object] = {
        "text": "tea",
        "id": 7,
        "session_id": {},
        "source_scope": [],
        "resource_uri": False,
        "score": 1,
    }
    async with gateway_server() as server:
        server.on("search", answers({"results": [odd]}))
        assert await MemoryGatewayClient(settings_for(server)).search("s1", "x") == [
            RecalledItem("tea", score=1.0)
        ]


async def test_text_that_cannot_be_stored_is_cleaned() -> None:
    """NUL and lone surrogates, which no message may have, are replaced in all fields."""
    async with gateway_server() as server:
        server.on("search", says(rb'{"results": [{"text": "a\u0000b\ud800c", "id": "\ud83d"}]}'))
        (item,) = await MemoryGatewayClient(settings_for(server)).search("s1", "tea")
    assert "\0" not in item.text
    assert (item.text + (item.id or "")).encode()


async def test_text_outside_of_ascii_travels_unchanged() -> None:
    """Queries and results are UTF-8."""
    async with gateway_server() as server:
        server.on("search", says(json.dumps({"results": [{"text": "お茶 🍵"}]}, ensure_ascii=False).encode()))
        found = await MemoryGatewayClient(settings_for(server)).search("s1", "چای؟ 🍵")
    assert server.requests[0].json["query"] == "چای؟ 🍵"
    assert found == [RecalledItem("お茶 🍵")]


@pytest.mark.parametrize("body", [b"", b"  \n", b"{}", b'{"status": "no_extraction"}'])
@pytest.mark.parametrize("status", [200, 201, 202])
async def test_add_and_flush_succeed_with_any_success_status(body: bytes, status: int) -> None:
    """The document does not say what they answer: an empty body or any object is fine."""
    async with gateway_server() as server:
        server.on("add", says(body, status=status))
        server.on("flush", says(body, status=status))
        client = MemoryGatewayClient(settings_for(server))
        await client.add("chat:s1", TURN)
        await client.flush("chat:s1")
    assert server.operations == ["add", "flush"]


async def test_environment_proxies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key goes to the gateway and to nobody in between."""
    async with gateway_server() as server, gateway_server() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        await MemoryGatewayClient(settings_for(server)).search("s1", "tea")
    assert (len(server.requests), len(proxy.requests)) == (1, 0)


async def test_one_client_serves_several_event_loops() -> None:
    """A client belongs to no loop: it works in two others, and then still in this one."""
    async with gateway_server() as server:
        client = MemoryGatewayClient(settings_for(server))
        for _ in range(2):
            assert await asyncio.to_thread(lambda: asyncio.run(client.search("s1", "tea"))) == []
        assert await client.search("s1", "tea") == []
        await client.close()
        await server.left_alone()
    assert server.connections == 3


async def test_many_calls_at_once_stay_apart_and_leave_nothing_open() -> None:
    """Fifty searches at once come back to those who asked, and no connection is left."""
    async with gateway_server() as server:
        client = MemoryGatewayClient(settings_for(server))
        await asyncio.gather(*(client.search(f"s{number}", "tea") for number in range(50)))
        await server.left_alone()
    assert {body["conversation_id"] for body in server.sent_to("search")} == {f"s{n}" for n in range(50)}
    assert server.connections == 50
