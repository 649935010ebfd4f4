"""The user's key: after every kind of failure it stands in no output, log, event, repr or traceback."""

import asyncio
import io
import logging
import pickle
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from urllib.parse import quote

import pytest
from pydantic import SecretStr
from tests.backends.audit_list import AuditList
from tests.backends.gateway.failure_modes import MODES, SHORT, Mode
from tests.support.gateway_server import (
    KEY,
    GatewayServer,
    answers,
    echoes,
    gateway_server,
    never,
    settings_for,
)

from recollect import MemoryGatewayError
from recollect.backends.base import CompletedRun, StartedRun
from recollect.backends.gateway.backend import MemoryGatewayBackend
from recollect.backends.gateway.client import MemoryGatewayClient

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
OPERATIONS = ("search", "add", "flush")


@pytest.mark.parametrize("echo", [KEY, "nothing"])
async def test_key_is_replaced_when_the_gateway_repeats_it(echo: str) -> None:
    """Whatever field of a result has it, and also as a URL writes it."""
    key = KEY if echo == KEY else "a+key/with=signs"
    found = {"text": f"said {echo}.", "id": echo, "resource_uri": f"https://x.org/?k={quote(key, safe='')}"}
    async with gateway_server() as server:
        server.on("search", answers({"results": [found]}))
        settings = settings_for(server).model_copy(update={"user_key": SecretStr(key)})
        (item,) = await MemoryGatewayClient(settings).search("s", "q")
    assert key not in repr(item)
    assert item.resource_uri == "https://x.org/?k=[user key]"
    assert item.text == ("said [user key]." if echo == KEY else f"said {echo}.")


class Everything(logging.Handler):
    """Keeps every record of every logger, with its arguments and its traceback."""

    def __init__(self) -> None:
        """Listen to all levels."""
        super().__init__(logging.NOTSET)
        self.said = io.StringIO()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record as it is printed, and what it was made of."""
        self.said.write(f"{record.name} {self.format(record)} {record.args!r} {record.exc_info!r}\n")


@pytest.fixture
def logs() -> Iterator[Everything]:
    """All loggers at DEBUG, those of the HTTP library included."""
    import_module("httpx2")  # its loggers exist once it is imported

    handler = Everything()
    root = logging.getLogger()
    loggers = [root, *(logging.getLogger(name) for name in [*root.manager.loggerDict])]
    levels = [logger.level for logger in loggers]
    root.addHandler(handler)
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def shown(error: BaseException | None) -> Iterator[str]:
    """Yield all that can be shown of an error and of its causes, local variables included."""
    while error is not None:
        yield f"{error} {error!r} {vars(error)!r} {error.args!r}"
        for link in (error, error.__cause__, error.__context__):
            if link is not None:
                told = traceback.TracebackException.from_exception(link, capture_locals=True)
                yield "".join(told.format())
                yield from (repr(frame.f_locals) for frame, _ in traceback.walk_tb(link.__traceback__))
        error = error.__cause__ or error.__context__


async def everything_of(server: GatewayServer, seconds: float) -> list[str]:
    """Recall, persist, and call the client directly; return all that can be seen of it."""
    audit = AuditList()
    settings = settings_for(server, timeout_seconds=seconds)
    client = MemoryGatewayClient(settings)
    backend = MemoryGatewayBackend(client, audit)
    found = await backend.recall_before_run(StartedRun("s1", "r1", "tea?"))
    await backend.persist_after_run(
        CompletedRun("s1", "r1", "tea?", "tea!", NOON, NOON + timedelta(seconds=1))
    )
    seen = [repr(value) for value in (settings, client, backend, vars(client), vars(backend), audit, found)]
    seen += [str(settings), f"{settings}", str(backend.status()), str(audit.events), backend.rule]
    for call in (client.search("s1", "tea"), client.add("chat:s1", []), client.flush("chat:s1")):
        try:
            await call
        except MemoryGatewayError as error:
            seen += [*shown(error), repr(pickle.dumps(error))]
    await backend.close()
    return seen


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_key_is_nowhere_after_a_failure(
    mode: Mode, logs: Everything, capfd: pytest.CaptureFixture[str]
) -> None:
    """Output, logs at DEBUG, events, reprs, errors and the local variables of their frames do not have it."""
    async with gateway_server() as server:
        for operation in OPERATIONS:
            server.on(operation, mode.behaviour)
        seen = await everything_of(server, mode.few_seconds)
        assert all(KEY in request.body.decode() for request in server.requests), "it was sent"
    printed = capfd.readouterr()
    assert "connect_tcp" in logs.said.getvalue(), "the HTTP library was listened to"
    for text in (*seen, logs.said.getvalue(), printed.out, printed.err):
        assert KEY not in text


async def test_key_is_nowhere_after_a_success(logs: Everything) -> None:
    """Nor is it there when all goes well, even where the gateway repeats what it was sent."""
    async with gateway_server() as server:
        for operation in OPERATIONS:
            server.on(operation, echoes())
        seen = await everything_of(server, 10)
    for text in (*seen, logs.said.getvalue()):
        assert KEY not in text


async def test_key_is_nowhere_when_nobody_listens(logs: Everything) -> None:
    """A refused connection tells nothing either."""
    async with gateway_server() as server:
        pass
    for text in (*await everything_of(server, 10), logs.said.getvalue()):
        assert KEY not in text


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_key_is_nowhere_in_the_traceback_of_a_cancelled_call(operation: str) -> None:
    """A cancellation passes through frames that hold the request, and leaves them behind."""
    async with gateway_server() as server:
        server.on(operation, never())
        client = MemoryGatewayClient(settings_for(server))
        calls = {
            "search": lambda: client.search("s1", "tea"),
            "add": lambda: client.add("chat:s1", []),
            "flush": lambda: client.flush("chat:s1"),
        }
        task = asyncio.ensure_future(calls[operation]())
        await server.heard(operation)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
    seen = [*shown(caught.value)]
    assert any("_call" in text for text in seen), "the frames of the client are there"
    assert not [text for text in seen if KEY in text]


async def test_key_is_nowhere_in_the_traceback_of_a_cancelled_upload() -> None:
    """Nor where the request was still being sent, and lies in the frames of the network layer."""
    async with gateway_server() as server:
        server.is_deaf = True
        client = MemoryGatewayClient(settings_for(server))
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(SHORT):
                await client.search("s1", "x" * 8_000_000)
    assert not [text for text in shown(caught.value) if KEY in text]


async def test_no_error_is_being_handled_when_the_typed_one_is_raised() -> None:
    """What went wrong below is over: it cannot be reached through the error's context."""
    async with gateway_server() as server:
        pass
    with pytest.raises(MemoryGatewayError) as caught:
        await MemoryGatewayClient(settings_for(server)).search("s1", "tea")
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert sys.exc_info() == (None, None, None)


async def test_settings_show_and_compare_without_the_key() -> None:
    """Settings of equal keys are equal, and neither shows its key."""
    async with gateway_server() as server:
        one, other = settings_for(server), settings_for(server, user_key=SecretStr(KEY + "x"))
    assert one == settings_for(server)
    assert one != other
    assert repr(one) == repr(other)
