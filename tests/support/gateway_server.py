"""A memory gateway on loopback that can be told to misbehave, path by path, and writes down what it was sent.

async with gateway_server() as server:
server.on("search", answers({"results": [{"text": "tea"}]}))
server.on("add", refuses(401))
...
assert [request.path for request in server.requests] == ["/memories/search", "/memories/add"]
"""

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import SecretStr

from recollect.backends.gateway.client import GatewaySettings

KEY = "uk_dont-tell-anybody-4711"
"""The key of the user, which must turn up nowhere but in requests."""


@dataclass(frozen=True)
class Received:
    """One request, exactly as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever was sent
        """The body's JSON value."""
        return json.loads(self.body)


Behaviour: TypeAlias = Callable[[Received, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""How a path answers; the connection is closed after it."""


@dataclass
class GatewayServer:
    """What the server was sent, how it answers, and whether anybody is still connected."""

    url: str = ""
    requests: list[Received] = field(default_factory=list[Received], repr=False)
    is_deaf: bool = False
    """Whether it accepts connections and reads nothing of them."""
    connections: int = 0
    """How many connections there have been."""
    connected: int = 0
    """How many connections are open."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request has come in whole."""
    _alone: asyncio.Event = field(default_factory=asyncio.Event)
    _behaviours: dict[str, Behaviour] = field(default_factory=dict[str, Behaviour])

    def on(self, operation: str, behaviour: Behaviour) -> None:
        """Have an operation (search, add or flush) answer in another way from now on."""
        self._behaviours[operation] = behaviour

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    @property
    def operations(self) -> list[str]:
        """The operations that were asked for, in order."""
        return [request.path.rpartition("/")[2] for request in self.requests]

    def sent_to(self, operation: str) -> list[Any]:
        """Return the JSON bodies of the requests for an operation."""
        return [request.json for request in self.requests if request.path.endswith(f"/{operation}")]

    async def heard(self, operation: str) -> None:
        """Wait until an operation has been asked for."""
        while operation not in self.operations:
            self.arrived.clear()
            await self.arrived.wait()

    async def left_alone(self) -> None:
        """Wait until no connection is open; one that stays open fails the test by its time limit."""
        if self.connected:
            await self._alone.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: one request, one answer."""
        self.connections += 1
        self.connected += 1
        self._alone.clear()
        try:
            if self.is_deaf:
                await asyncio.Event().wait()  # until the server ends
            request = await _read_request(reader)
            self.requests.append(request)
            self.arrived.set()
            operation = request.path.rpartition("/")[2]
            await self._behaviours.get(operation, answers({}, status=404))(request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone, which is its right
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            self.connected -= 1
            if not self.connected:
                self._alone.set()


@asynccontextmanager
async def gateway_server(*, tls: ssl.SSLContext | None = None) -> AsyncGenerator[GatewayServer]:
    """Start a gateway that recalls nothing and takes everything, until it is told otherwise."""
    gateway = GatewayServer()
    gateway.on("search", answers({"results": []}))
    gateway.on("add", answers({"message_count": 2, "status": "accumulated"}))
    gateway.on("flush", answers({"status": "extracted"}))
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of our own: asyncio's would complain about being cancelled at the end.
        task = asyncio.create_task(gateway.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    gateway.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield gateway
    finally:
        server.close()
        for task in [*tasks]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def settings_for(server: GatewayServer, **changes: Any) -> GatewaySettings:  # noqa: ANN401 - those of the settings
    """Return settings that lead to a server."""
    values: dict[str, Any] = {
        "base_url": server.url,
        "user_id": "gateway_test_user",
        "user_key": SecretStr(KEY),
        "scope": ("current_chat", "resources"),
    }
    return GatewaySettings(**(values | changes))


def answers(value: object, *, status: int = 200) -> Behaviour:
    """Answer with a JSON value."""
    return says(json.dumps(value).encode(), status=status)


def says(body: bytes, *, status: int = 200, headers: str = "", length: int | None = None) -> Behaviour:
    """Answer with these bytes; `length` lies about how many they are."""

    async def behave(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del request, reader
        writer.write(_head(status, f"Content-Length: {len(body) if length is None else length}\r\n{headers}"))
        writer.write(body)
        await writer.drain()

    return behave


def refuses(status: int) -> Behaviour:
    """Answer with an error that quotes the whole request, as careless servers do."""

    async def behave(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await says(b'{"detail": ' + request.body + b"}", status=status)(request, reader, writer)

    return behave


def echoes() -> Behaviour:
    """Answer with the request's own body and status 200."""

    async def behave(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await says(request.body)(request, reader, writer)

    return behave


def waits(seconds: float, then: Behaviour) -> Behaviour:
    """Answer late."""

    async def behave(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)
        await then(request, reader, writer)

    return behave


def never() -> Behaviour:
    """Take the request and say nothing until the client has gone."""

    async def behave(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del request, writer
        await reader.read()

    return behave


def drips(pause: float = 0.05, *, in_head: bool = False) -> Behaviour:
    """Begin to answer, a byte at a time and without an end; `in_head` never gets to the body."""

    async def behave(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del request, reader
        writer.write(b"HTTP/1.1 200 OK\r\nX-Slow: " if in_head else _head(200, "Content-Length: 1000000\r\n"))
        while True:
            writer.write(b"1")
            await writer.drain()
            await asyncio.sleep(pause)

    return behave


def floods(size: int = 100_000_000, *, chunked: bool = False) -> Behaviour:
    """Answer with a JSON text of this many bytes, as fast as the client takes it."""

    async def behave(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del request, reader
        writer.write(
            _head(200, "Transfer-Encoding: chunked\r\n" if chunked else f"Content-Length: {size}\r\n")
        )
        chunk = b'"' + b"x" * 65_534 + b'"'
        for _ in range(size // len(chunk)):
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunked else chunk)
            await writer.drain()

    return behave


def pours(first: bytes, chunk: bytes) -> Behaviour:
    """Answer with these bytes, the second ones again and again and without an end."""

    async def behave(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del request, reader
        writer.write(first)
        while True:
            writer.write(chunk)
            await writer.drain()

    return behave


def inflates(size: int = 20_000_000) -> Behaviour:
    """Answer with a text of this size, packed into few bytes, though nobody asked for that."""
    packed = gzip.compress(b'{"results": [{"text": "' + b"x" * size + b'"}]}', compresslevel=1)
    return says(packed, headers="Content-Encoding: gzip\r\n")


def redirects(to: str, *, status: int = 307) -> Behaviour:
    """Send the client elsewhere."""
    return says(b"", status=status, headers=f"Location: {to}\r\n")


def hangs_up() -> Behaviour:
    """Close the connection without an answer."""

    async def behave(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del request, reader, writer

    return behave


def breaks_off() -> Behaviour:
    """Close the connection in the middle of an answer that is fine so far."""
    return says(b'{"results": [', length=1_000)


def speaks_no_http() -> Behaviour:
    """Answer in no language that a client knows."""

    async def behave(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del request, reader
        writer.write(b"220 mail.example ready\r\n\r\n")
        await writer.drain()

    return behave


def _head(status: int, headers: str) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{headers}\r\n".encode()


async def _read_request(reader: asyncio.StreamReader) -> Received:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Received(method, path, headers, await reader.readexactly(int(headers["content-length"])))
