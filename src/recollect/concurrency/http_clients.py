"""HTTP clients of models and embedders, one for each event loop.

A connection belongs to the event loop that opened it. A provider of Pydantic AI has one client, and replaces
it only when its loop has ended. Here several loops run at once: each agent has a thread for its sync calls.
So the provider's client gets a transport that sends each request through a client of the running loop.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import httpx2

from recollect.concurrency.fork import PerProcess

_sharing = PerProcess(threading.Lock)


def share_between_loops(model: object) -> None:
    """Let a model or an embedder's model be asked from any event loop; the caller's own client stays."""
    for provider in _find_providers(model):
        with _sharing.value:
            _share_provider(provider)


def _share_provider(provider: Any) -> None:  # noqa: ANN401 - any of Pydantic AI's
    make = getattr(provider, "_http_client_factory", None)
    own = getattr(provider, "_own_http_client", None)
    if make is None or not isinstance(own, httpx2.AsyncClient) or isinstance(make, _SharedClients):
        return
    # The client that the provider made serves the first loop, unless it was used already.
    is_unused = getattr(provider, "_own_client_loop", None) is None and not own.is_closed
    shared = _SharedClients(_LoopTransport(make, own if is_unused else None), own.timeout)
    provider._http_client_factory = shared  # noqa: SLF001 - `test_pydantic_ai_contract` holds these names
    provider._own_http_client = shared()  # noqa: SLF001
    provider._set_http_client(provider._own_http_client)  # noqa: SLF001


def refresh_client(model: object) -> None:
    """Replace a client that somebody has closed, as an agent of Pydantic AI does before each run."""
    cast("Any", model)._refresh_http_client()  # noqa: SLF001 - see the contract test


def refresh_embedder(model: object) -> None:
    """Do the same for the model of an embedder."""
    for provider in _find_providers(model):
        if hasattr(provider, "_refresh_http_client"):
            provider._refresh_http_client()  # noqa: SLF001 - see the contract test


def _find_providers(model: object) -> Iterator[Any]:
    """Yield the providers of a model and of those that it wraps."""
    inner = (getattr(model, "wrapped", None), *cast("list[object]", getattr(model, "models", ())))
    wrapped = [one for one in inner if hasattr(one, "request_stream") or hasattr(one, "embed")]
    for one in wrapped:
        yield from _find_providers(one)
    if not wrapped:
        found = (getattr(model, name, None) for name in ("provider", "_provider"))
        yield from [provider for provider in found if provider is not None][:1]


class _SharedClients:
    """Makes the clients of a provider: all send through one transport, which knows the event loops."""

    def __init__(self, transport: "_LoopTransport", timeout: httpx2.Timeout) -> None:
        self._transport = transport
        self._timeout = timeout

    def __call__(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=self._transport, timeout=self._timeout)


@dataclass(slots=True)
class _LoopClient:
    """The client of one event loop, and the generator that closes it with the loop."""

    client: httpx2.AsyncClient
    closing: AsyncGenerator[None] | None


class _LoopTransport(httpx2.AsyncBaseTransport):
    """Sends a request through a client of the running event loop."""

    def __init__(self, make: Callable[[], httpx2.AsyncClient], spare: httpx2.AsyncClient | None) -> None:
        self._make = make
        self._spares = [spare] if spare is not None else []
        self._clients: dict[asyncio.AbstractEventLoop, _LoopClient] = {}
        self._lock = PerProcess(threading.Lock)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; its headers and time limits are those of the client around this."""
        client = await self._get()
        if self._clients[asyncio.get_running_loop()].closing is None:
            request.headers["Connection"] = "close"  # nothing will close it at the end of the loop
        return await client.send(request, stream=True)

    async def aclose(self) -> None:
        """Close the client of the running loop; those of others end with their loops."""
        found = self._clients.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.client.aclose()

    async def _get(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        found = self._clients.get(loop)
        if found is not None and not found.client.is_closed:
            return found.client
        with self._lock.value:
            spare = self._spares.pop() if self._spares else None
        client = spare or await asyncio.to_thread(self._make)  # it loads certificates
        with self._lock.value:
            for ended in [one for one in self._clients if one.is_closed()]:
                del self._clients[ended]
            if (other := self._clients.get(loop)) is not None and not other.client.is_closed:
                return other.client  # of another task; nobody has used ours
            made = self._clients[loop] = _LoopClient(client, None)
        # A loop closes its generators last; after that it takes no further ones.
        if not getattr(loop, "_asyncgens_shutdown_called", False):
            made.closing = _close_with_loop(made.client)
            await anext(made.closing)
        return made.client


async def _close_with_loop(client: httpx2.AsyncClient) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await client.aclose()
