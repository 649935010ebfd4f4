"""The user's key turns up nowhere but in requests to the gateway, whatever fails."""

import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends.gateway.failure_modes import MODES, Mode
from tests.runtime.runtimes import Setup, Way, loaded
from tests.support.gateway_server import KEY, answers

from recollect.cli.chat.pipe import result_to_json
from recollect.cli.chat.why import explain
from recollect.errors import RecollectError
from recollect.runtime.loop import AgentRunResult
from recollect.testing import ScriptedModel

pytestmark = [pytest.mark.anyio]

_ECHO = {"text": f"the key is {KEY}!", "id": KEY, "session_id": KEY, "source_scope": KEY, "resource_uri": KEY}
WAYS: tuple[Way, ...] = ("run", "stream", "run")
EVERYTHING = [
    Mode("nothing fails", answers({"results": []}), ""),
    Mode("the key is repeated", answers({"results": [_ECHO]}), ""),
    *MODES,
]


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """All loggers there are, at their most talkative."""
    with caplog.at_level(logging.DEBUG):
        names = ["httpx", "httpx2", "httpcore", "httpcore2", "asyncio", "recollect", "pydantic_ai", "anyio"]
        before = {name: logging.getLogger(name).level for name in names}
        for name in names:
            logging.getLogger(name).setLevel(logging.DEBUG)
        yield caplog
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


@pytest.mark.parametrize("failure", EVERYTHING, ids=str)
async def test_the_key_is_in_nothing_that_can_be_seen(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    everything_logged: pytest.LogCaptureFixture,
    failure: Mode,
) -> None:
    """Output, logs, events, results, reprs, status and every file that the run left but the configuration."""
    gateway = {"timeoutSeconds": failure.few_seconds}
    seen: list[str] = []
    async with loaded(tmp_path, "memory_gateway", ScriptedModel("fine"), gateway=gateway) as setup:
        failing = [failure.only] * 2 if failure.only else ["flush", "add", "search"]
        for operation, way in zip(failing, WAYS, strict=False):
            setup.gateway.on(operation, failure.behaviour)
            seen += _shown(setup, await setup.say(way, "hello"))
        seen += [repr(await setup.events()), repr(await setup.transcript())]
        assert any(KEY.encode() in request.body for request in setup.gateway.requests)
    captured = capsys.readouterr()
    seen += [captured.out, captured.err, everything_logged.text]
    seen += [repr(record.__dict__) for record in everything_logged.records]
    assert [text for text in seen if KEY in text] == []
    assert _files_with_the_key(tmp_path) == ["config.json"]


@pytest.mark.parametrize(
    "changes",
    [
        *({"topK": 0}, {"userId": ""}, {"scope": []}, {"timeoutSeconds": -1}, {"x": 1}, {KEY: 1}),
        *(
            {name: KEY}
            for name in ("topK", "mode", "userId", "appId", "projectId", "timeoutSeconds", "baseUrl")
        ),
    ],
)
async def test_the_key_is_not_in_what_a_refused_configuration_says(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    """Not in the error, nor in a traceback that shows the variables of our own frames."""
    with pytest.raises(RecollectError) as caught:
        async with loaded(tmp_path, "memory_gateway", ScriptedModel("fine"), gateway=changes):
            pass
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [str(frame.locals) for frame in shown.stack if "/src/recollect/" in frame.filename]
    assert ours
    assert KEY not in str(caught.value) + repr(caught.value) + "".join(ours)


def _shown(setup: Setup, result: AgentRunResult) -> list[str]:
    """Return all that a program may print of a runtime and a result."""
    runtime = setup.runtime
    return [
        repr(runtime),
        repr(vars(runtime)),
        repr(runtime.config),
        repr(runtime.backend),
        repr(vars(runtime.backend)),
        json.dumps(runtime.status()),
        repr(result),
        repr(list(result.trace)),
        json.dumps(result_to_json(result)),
        explain(result),
    ]


def _files_with_the_key(folder: Path) -> list[str]:
    return sorted(
        file.name for file in folder.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()
    )
