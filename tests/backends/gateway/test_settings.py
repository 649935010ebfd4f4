"""The gateway's settings: unusable values are rejected and not quoted."""

import math
import pickle
import sys
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError
from tests.support.gateway_server import KEY

from recollect import InvalidArgumentError, MissingExtraError
from recollect.backends.gateway.client import GatewaySettings, MemoryGatewayClient


def settings(**changes: Any) -> GatewaySettings:  # noqa: ANN401 - those of the settings
    """Return settings that are fine but for the changes."""
    values: dict[str, Any] = {
        "base_url": "https://memory.example",
        "user_id": "ada",
        "user_key": SecretStr(KEY),
        "scope": ("current_chat",),
    }
    return GatewaySettings(**(values | changes))


def test_defaults_are_those_of_the_specification() -> None:
    """App and project are `default`, eight results, ten seconds."""
    found = settings()
    assert (found.app_id, found.project_id, found.top_k, found.timeout_seconds) == (
        "default",
        "default",
        8,
        10.0,
    )
    assert found.agent_id == "recollect"


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8010", "HTTPS://memory.example/", "http://[::1]:8010/api", "http://localhost"],
)
def test_url_may_be_any_of_http(url: str) -> None:
    """Names, numbers, ports and paths are fine."""
    assert settings(base_url=url).base_url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8010",
        "//memory.example",
        "ftp://memory.example",
        "file:///etc/passwd",
        "http://",
        "http:///path",
        "http://memory.example:0",
        "http://memory.example:99999",
        "http://memory.example:port",
        "http://[::1",
        "http://a b",
        "http://memory.example\r\nX-Evil: 1",
        "http://memory.example/\u2028",
        "http://memory.example/\r\nX-Evil: 1",
        f"http://ada:{KEY}@memory.example",
        f"http://{KEY}@memory.example",
        f"http://memory.example/?key={KEY}",
        f"http://memory.example/#{KEY}",
        f"http://memory.example/{KEY}/v1",
        None,
        8010,
        b"http://memory.example",
    ],
)
def test_invalid_url_is_rejected_and_not_quoted(url: object) -> None:
    """A status shows the URL, so a password in it is an error."""
    with pytest.raises(InvalidArgumentError) as caught:
        settings(base_url=url)
    assert caught.value.argument == "base_url"
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user_id", ""),
        ("user_id", None),
        ("app_id", ""),
        ("project_id", 3),
        ("agent_id", ""),
        ("user_key", KEY),
        ("user_key", None),
        ("scope", ()),
        ("scope", ("everything",)),
        ("scope", ("current_chat", None)),
        ("scope", ("current_chat", "current_chat")),
        ("scope", "current_chat"),
        ("scope", ["current_chat"]),
        ("top_k", 0),
        ("top_k", 101),
        ("top_k", True),
        ("top_k", 8.0),
        ("timeout_seconds", 0),
        ("timeout_seconds", -1),
        ("timeout_seconds", math.nan),
        ("timeout_seconds", math.inf),
        ("timeout_seconds", True),
        ("timeout_seconds", "10"),
    ],
)
def test_wrong_values_are_refused_by_name(name: str, value: object) -> None:
    """The error names the setting and never shows the key."""
    with pytest.raises(InvalidArgumentError) as caught:
        settings(**{name: value})
    assert caught.value.argument == name
    assert KEY not in str(caught.value)


def test_settings_cannot_be_changed() -> None:
    """What a run reads is what was checked."""
    with pytest.raises(ValidationError, match="frozen"):
        settings().top_k = 3  # type: ignore[misc]


@pytest.mark.parametrize("text", ["", "  ", f"{KEY}\x00", f"{KEY}\ud800"])
def test_text_that_no_key_can_be_is_refused_without_quoting_it(text: str) -> None:
    """Nor is it in what the error came from."""
    with pytest.raises(InvalidArgumentError) as caught:
        settings(user_key=SecretStr(text))
    assert caught.value.argument == "user_key"
    assert KEY not in f"{caught.value!r} {caught.value.__context__!r} {caught.value.__cause__!r}"


def test_settings_show_their_key_nowhere() -> None:
    """Neither printed nor as JSON; a pickle, which would have to hold it, is refused."""
    found = settings()
    printed = [repr(found), str(found), f"{found}", repr(vars(found)), repr(found.model_dump())]
    assert not [text for text in (*printed, found.model_dump_json()) if KEY in text]
    with pytest.raises(TypeError, match="may hold secrets") as caught:
        pickle.dumps(found)
    assert KEY not in str(caught.value)


def test_unknown_setting_is_refused_by_name() -> None:
    """A misspelt one is not passed over."""
    with pytest.raises(InvalidArgumentError, match="topk: is not known here"):
        settings(topk=5)


def test_missing_extra_is_said_when_the_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that cannot speak to its gateway fails when it is loaded, and says what to install."""
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtraError, match=r"recollect\[agent\]"):
        MemoryGatewayClient(settings())
