"""One POST of JSON to a memory gateway: bounded in time and size, and quiet about what it carried.

The body holds the user's key, and an exception of an HTTP library keeps a reference to the request. So this
module raises nothing: a call returns a `JsonResponse` or a `Failure`, and the library's exception is dropped
with all of its frames. Environment proxies are not used, redirects are not followed, nothing is sent twice.
"""

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from pydantic import SecretStr

from recollect.errors import requires_extra

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkStream
    from httpx2 import Response

MAX_BYTES = 4 * 1024 * 1024
"""The longest response that is read."""

Category: TypeAlias = Literal[
    "timeout", "connection", "http_status", "redirect", "invalid_json", "invalid_response", "too_large"
]
"""How a call can fail."""

_HEADERS = {
    "Accept": "application/json",
    # A compressed response could expand far beyond the bytes that are counted while it is read.
    "Accept-Encoding": "identity",
    "Connection": "close",
    "Content-Type": "application/json",
    "User-Agent": "recollect",
}


@dataclass(frozen=True, slots=True)
class JsonResponse:
    """The JSON value of a response (None if it has no body) and its HTTP status.

    The repr leaves out the value: a careless server may echo the request.
    """

    value: object = field(repr=False)
    status: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call failed, and the HTTP status if there was one; nothing of the request or the response."""

    category: Category
    status: int | None = None


class JsonPoster:
    """Posts JSON; every call opens and closes its own connection.

    So it works in any event loop and after a fork, and no request is lost on a connection that the server
    has already closed. On loopback that costs half a millisecond a call.
    """

    def __init__(self, *, is_secure: bool, timeout_seconds: float) -> None:
        """Set the time limit of a whole call; certificates are loaded here, once."""
        with requires_extra("agent"):
            import httpx2
        # Without https the context is never used; an empty one saves loading all certificates.
        self._tls = httpx2.create_ssl_context() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._timeout_seconds = timeout_seconds

    async def post(self, url: str, payload: Mapping[str, object]) -> JsonResponse | Failure:
        """Post a payload; its secrets are revealed only in the bytes that are sent."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._exchange(url, payload)
        except TimeoutError:
            return Failure("timeout")
        except Exception:  # noqa: BLE001 - whatever it is, it may quote the request
            return Failure("connection")
        except BaseException as left:  # noqa: BLE001 - it goes on its way, without its frames
            # The call is cancelled. The frames below hold the body, and a traceback would hold the frames.
            left.__context__ = None
            raise left.with_traceback(None) from None

    async def _exchange(self, url: str, payload: Mapping[str, object]) -> JsonResponse | Failure:
        import httpx2

        connections = _Connections()
        request = httpx2.Request(
            "POST", url, headers=_HEADERS, content=_encode(payload), extensions={"trace": connections.note}
        )
        try:
            async with httpx2.AsyncHTTPTransport(verify=self._tls, trust_env=False) as transport:
                response = await transport.handle_async_request(request)
                try:
                    return _check_response(response) or await _read_body(response)
                finally:
                    await response.aclose()
        finally:
            await connections.close()


class _Connections:
    """The connections of one call: the HTTP library leaks one if the call is cancelled in a TLS handshake."""

    def __init__(self) -> None:
        self._streams: list[AsyncNetworkStream] = []

    async def note(self, event: str, facts: Mapping[str, object]) -> None:
        """Collect the connections; the HTTP library calls this for each of its steps."""
        if event == "connection.connect_tcp.complete":
            self._streams.append(cast("AsyncNetworkStream", facts["return_value"]))

    async def close(self) -> None:
        """Close all connections; those already closed stay as they are."""
        for stream in self._streams:
            await stream.aclose()


def _encode(payload: Mapping[str, object]) -> bytes:
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), default=SecretStr.get_secret_value)
    return text.encode("utf-8", "replace")


def _check_response(response: "Response") -> Failure | None:
    """Return what is wrong with a response before its body is read."""
    status = response.status_code
    if response.is_redirect:
        return Failure("redirect", status)
    if not response.is_success:
        return Failure("http_status", status)
    if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        return Failure("invalid_response", status)
    return None


async def _read_body(response: "Response") -> JsonResponse | Failure:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BYTES:
            return Failure("too_large", response.status_code)
    if not body.strip():
        return JsonResponse(None, response.status_code)
    try:
        return JsonResponse(json.loads(body), response.status_code)
    except (ValueError, RecursionError):
        return Failure("invalid_json", response.status_code)
