"""Calls that fail by their time limit, by the network, by TLS or by a cancellation."""

import asyncio
import ssl
import subprocess
import time
from pathlib import Path

import pytest
from tests.backends.gateway.failure_modes import SHORT
from tests.support.gateway_calls import call_gateway, fail_call
from tests.support.gateway_server import drips, gateway_server, never, settings_for
from tests.support.waiting import GENEROUS

from recollect.backends.gateway.client import MemoryGatewayClient

pytestmark = pytest.mark.anyio


async def test_timeout_is_for_the_whole_call_and_not_for_each_byte() -> None:
    """Bytes that keep coming do not lengthen a call."""
    async with gateway_server() as server:
        server.on("search", drips(SHORT / 5))
        started = time.monotonic()
        error = await fail_call(MemoryGatewayClient(settings_for(server, timeout_seconds=SHORT)), "search")
        assert error.category == "timeout"
        assert SHORT * 0.9 <= time.monotonic() - started < GENEROUS


async def test_timeout_holds_when_the_server_does_not_read() -> None:
    """A request that is larger than all buffers on the way does not wait longer."""
    async with gateway_server() as server:
        server.is_deaf = True
        client = MemoryGatewayClient(settings_for(server, timeout_seconds=SHORT))
        assert (await fail_call(client, "add", "x" * 30_000_000)).category == "timeout"


async def test_a_gateway_that_is_not_there_is_a_connection_failure() -> None:
    """Nobody listens on the port any more."""
    async with gateway_server() as server:
        client = MemoryGatewayClient(settings_for(server))
    error = await fail_call(client, "search")
    assert (error.category, error.status) == ("connection", None)


async def test_a_name_that_cannot_be_a_host_is_a_connection_failure() -> None:
    """Also where the HTTP library rejects the URL with an error of another kind."""
    async with gateway_server() as server:
        for url in (
            f"http://{'a' * 70}.example",
            "http://a..b",
            "http://x%00y",
            "http://[fe80::1%25x]:9",
        ):
            client = MemoryGatewayClient(settings_for(server, base_url=url, timeout_seconds=SHORT))
            assert (await fail_call(client, "search")).category in ("connection", "timeout")


async def test_cancelled_call_leaves_no_connection_and_no_task() -> None:
    """A run that is left closes what it had open at once."""
    async with gateway_server() as server:
        server.on("search", never())
        before = asyncio.all_tasks()
        task = asyncio.create_task(call_gateway(MemoryGatewayClient(settings_for(server)), "search"))
        await server.heard("search")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.left_alone()
        assert asyncio.all_tasks() <= before


async def test_cancellation_by_an_outer_time_limit_is_not_taken_for_the_own_one() -> None:
    """The caller's limit reaches the caller, and is no failure of the gateway."""
    async with gateway_server() as server:
        server.on("search", never())
        client = MemoryGatewayClient(settings_for(server))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SHORT):
                await client.search("s1", "tea")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1 with its key, signed by nobody but itself."""
    path = tmp_path_factory.mktemp("tls") / "own.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(path), "-out", str(path.with_suffix(".crt"))),
        ],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


def tls_of(certificate: Path) -> ssl.SSLContext:
    """Return what a server needs to speak TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_https_is_spoken_with_servers_that_can_be_verified(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`SSL_CERT_FILE` names an authority of one's own; without it, the key is not sent."""
    async with gateway_server(tls=tls_of(certificate)) as server:
        unknown = MemoryGatewayClient(settings_for(server))
        assert (await fail_call(unknown, "search")).category == "connection"
        assert not server.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert await MemoryGatewayClient(settings_for(server)).search("s1", "tea") == []


async def test_timeout_holds_over_https_too(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a silent server nor the end of its TLS is waited for."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with gateway_server(tls=tls_of(certificate)) as server:
        server.on("search", never())
        client = MemoryGatewayClient(settings_for(server, timeout_seconds=1.0))
        started = time.monotonic()
        assert (await fail_call(client, "search")).category == "timeout"
        assert time.monotonic() - started < GENEROUS


async def test_timeout_holds_when_tls_is_never_answered() -> None:
    """A server that accepts and does not shake hands is given up, and its connection closed."""
    async with gateway_server() as server:
        server.is_deaf = True
        url = server.url.replace("http:", "https:")
        client = MemoryGatewayClient(settings_for(server, base_url=url, timeout_seconds=SHORT))
        assert (await fail_call(client, "search")).category == "timeout"
