"""A secret that was written anywhere into the file is in no error, log, repr or traceback."""

import logging
import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pydantic.alias_generators import to_camel
from tests.support.configurations import GATEWAY, read_off, write_config

from recollect.errors import ConfigError
from recollect.runtime.config.guards_and_tools import GUARDS
from recollect.runtime.config.settings import CuratedConfig, GatewayConfig, RuntimeConfig
from recollect.runtime.loader import EngineLoader

SECRET = "uk_hidden_8675309"
NUMBER = 8675309421
FORMS: list[object] = [
    SECRET,
    f" {SECRET}\n",
    f"postgresql://{SECRET}",
    f"{SECRET}:{SECRET}",
    f"{SECRET}://me:{SECRET}@host",
    NUMBER,
    NUMBER + 0.5,
    [SECRET],
    [[SECRET, NUMBER]],
    {"value": SECRET},
    {SECRET.upper(): {"key": SECRET}},
]
TOP = [to_camel(name) for name in RuntimeConfig.model_fields] + ["userKey", "apiKey", "token", "password"]
OF_CURATED = [to_camel(name) for name in CuratedConfig.model_fields] + ["userKey"]
OF_GATEWAY = [to_camel(name) for name in GatewayConfig.model_fields] + ["user_key", "apiKey", "secret"]


def _places(form: object) -> Iterator[dict[str, Any]]:
    """Yield configurations with the secret in each place that there is, and in some that there are not."""
    yield from ({key: form} for key in TOP)
    yield from ({"memory": {key: form}} for key in ("mode", "curated", "gateway", "userKey"))
    yield from ({"memory": {"curated": {key: form}}} for key in OF_CURATED)
    for key in OF_GATEWAY:
        gateway = {**GATEWAY, "userKey": None if key == "userKeyEnv" else SECRET, key: form}
        yield {"memory": {"mode": "memory_gateway", "gateway": gateway}}
    yield from ({"tools": [form]}, {"guards": [form]}, {"guards": [{"name": form}]})
    for name, (make, _) in GUARDS.items():
        for option in (*signature(make).parameters, "side", "unknown", "key"):
            yield {"guards": [{"name": name, to_camel(option): form}]}


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_secret_is_nowhere(
    tmp_path: Path,
    form: object,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not in errors, their frames, logs or output; some places take it, and it may be meant for them."""
    monkeypatch.setattr("sys.path", [*sys.path])  # tools are looked for beside the configuration
    caplog.set_level(logging.DEBUG)
    errors = [error for data in _places(form) if (error := _load(write_config(tmp_path, data)))]
    assert len(errors) > 50
    # What stands in `tools` is the name of a module, and Python's own error about it is kept as the cause.
    seen = [str(error) if error.key.startswith("tools") else read_off(error) for error in errors]
    printed = capfd.readouterr()
    seen += [caplog.text, printed.out, printed.err]
    assert [text for text in seen if SECRET in text or str(NUMBER) in text] == []


def _load(path: Path) -> ConfigError | None:
    try:
        EngineLoader(path).load()
    except ConfigError as error:
        return error
    return None
