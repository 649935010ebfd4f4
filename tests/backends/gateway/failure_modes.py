"""Everything that a gateway is made to do wrong in tests, and what a client has to call it."""

from dataclasses import dataclass

from tests.support.gateway_server import (
    Behaviour,
    answers,
    breaks_off,
    drips,
    echoes,
    floods,
    hangs_up,
    inflates,
    never,
    pours,
    redirects,
    refuses,
    says,
    speaks_no_http,
    waits,
)
from tests.support.waiting import GENEROUS

SHORT = 1.0
"""A time limit for calls that have to run into it; the others succeed within it on a busy machine too."""


@dataclass(frozen=True)
class Mode:
    """A way to fail: what the server does, and what the client's error says."""

    name: str
    behaviour: Behaviour
    category: str
    status: int | None = None
    only: str = ""
    """The one operation that it is a failure of; any, if empty."""

    @property
    def seconds(self) -> float:
        """How long calls may take."""
        return SHORT if self.category == "timeout" else GENEROUS

    @property
    def few_seconds(self) -> float:
        """How long calls may take where none has to succeed."""
        return 0.2 if self.category == "timeout" else self.seconds

    def __str__(self) -> str:
        """Name it in the name of a test."""
        return self.name


_STATUSES = [
    Mode(f"status {status}", refuses(status), "http_status", status)
    for status in (400, 401, 403, 404, 422, 500, 503)
]
_REDIRECTS = [
    Mode(f"redirect {status}", redirects("/memories/elsewhere", status=status), "redirect", status)
    for status in (301, 302, 303, 307, 308)
]
_NO_JSON = [
    Mode(f"no JSON: {name}", says(body), "invalid_json", 200)
    for name, body in {
        "a page": b"<html>Sign in</html>",
        "cut": b'{"results": [',
        "no UTF-8": b'{"results": ["\xff"]}',
        "too deep": b"[" * 200_000,
        "a number of many digits": b"1" * 10_000,
        "two values": b"{}{}",
    }.items()
]
_NO_OBJECTS = ("[]", '"results"', "3", "true", '[{"results": []}]')
_NO_RESULTS = (
    "",
    "null",
    "{}",
    '{"results": null}',
    '{"results": {}}',
    '{"results": "tea"}',
    '{"data": {"results": []}}',
    '{"Results": []}',
)
_WRONG_SHAPES = [
    *(Mode(f"wrong shape: {text}", says(text.encode()), "invalid_response", 200) for text in _NO_OBJECTS),
    *(
        Mode(f"no results: {text}", says(text.encode()), "invalid_response", 200, only="search")
        for text in _NO_RESULTS
    ),
]
_REPEATED = [Mode("repeats the request", echoes(), "invalid_response", 200, only="search")]
_SLOW = [
    Mode("never", never(), "timeout"),
    Mode("late", waits(1.5, answers({"results": []})), "timeout"),
    Mode("dripping body", drips(0.02), "timeout"),
    Mode("dripping head", drips(0.02, in_head=True), "timeout"),
]
_BROKEN = [
    Mode("hangs up", hangs_up(), "connection"),
    Mode("breaks off", breaks_off(), "connection"),
    Mode("no HTTP", speaks_no_http(), "connection"),
]
_HUGE = [
    Mode("100 MB", floods(), "too_large", 200),
    Mode("100 MB in chunks", floods(chunked=True), "too_large", 200),
    Mode("much, compressed", inflates(), "invalid_response", 200),
]

_ENDLESS = [
    Mode("endless 100 Continue", pours(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50), "timeout"),
    Mode("endless head", pours(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 50), "connection"),
    Mode("endless reason", pours(b"HTTP/1.1 200 ", b"OK" * 500), "connection"),
    Mode("endless body", pours(b"HTTP/1.1 200 OK\r\n\r\n", b"[" * 10_000), "too_large", 200),
    Mode(
        "endless chunk",
        pours(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 1_000),
        "connection",
    ),
]

MODES = [*_STATUSES, *_REDIRECTS, *_NO_JSON, *_WRONG_SHAPES, *_REPEATED, *_SLOW, *_BROKEN, *_HUGE, *_ENDLESS]
"""All of them."""
