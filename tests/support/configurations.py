"""Configuration files for tests of the runtime, and what can be read off an error about one."""

import json
import traceback
from pathlib import Path
from typing import Any

from recollect.runtime.config.settings import RuntimeConfig, load_config

KEY = "uk_do_not_show_this"

GATEWAY: dict[str, Any] = {
    "baseUrl": "http://127.0.0.1:8010",
    "userId": "gateway_test_user",
    "userKey": KEY,
    "appId": "notes",
    "projectId": "garden",
    "scope": ["current_chat", "resources"],
    "topK": 12,
    "timeoutSeconds": 2.5,
}


def write_config(folder: Path, data: object) -> Path:
    """Write a configuration into a folder, and return the folder."""
    file = folder / ".recollect" / "config.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(data if isinstance(data, str) else json.dumps(data), "utf-8")
    return folder


def load(folder: Path, data: object) -> RuntimeConfig:
    """Write a configuration into a folder and load it."""
    return load_config(write_config(folder, data))


def gateway(**changes: object) -> dict[str, Any]:
    """Return a configuration in gateway mode with some keys changed; None takes a key out."""
    section = {key: value for key, value in (GATEWAY | changes).items() if value is not None}
    return {"memory": {"mode": "memory_gateway", "gateway": section}}


def read_off(error: BaseException) -> str:
    """Return an error's text, its repr, and the variables of the frames of ours that it passed through."""
    report = traceback.TracebackException.from_exception(error, capture_locals=True)
    ours = [str(frame.locals) for frame in report.stack if "src/recollect" in frame.filename]
    assert ours
    assert report.__cause__ is None
    return "\n".join([str(error), repr(error), repr(error.__context__), *ours])
