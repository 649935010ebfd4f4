"""Document B, "Configuration tests": what a file says, and errors that say what is wrong with it."""

from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.support.configurations import KEY, gateway, read_off, write_config

from recollect.errors import ConfigError
from recollect.runtime.loader import EngineLoader

Cases: TypeAlias = list[tuple[dict[str, Any], str]]

MODES: Cases = [
    ({"memory": {"mode": "both"}}, 'must be "curated" or "memory_gateway"'),
    ({"memory": {"mode": ["curated"]}}, "not a list"),
]
CREDENTIALS: Cases = [
    ({"baseUrl": None}, "is missing or empty"),
    ({"baseUrl": ""}, "is missing or empty"),
    ({"userId": None}, "is missing or empty"),
    ({"userId": "  "}, "must not be empty"),
    ({"userKey": None}, "is missing or empty"),
    ({"userKey": ""}, "must be text that is not empty"),
    ({"userKey": "   "}, "must be text that is not empty"),
]
SCOPES: Cases = [
    ({"scope": []}, "one or more of current_chat"),
    ({"scope": ["resources", "everything"]}, "one or more of current_chat"),
    ({"scope": ["resources", {"all": 1}]}, "one or more of current_chat"),
]
TOP_KS: Cases = [
    ({"topK": 0}, "must be 1 or more"),
    ({"topK": 101}, "must be 100 or less"),
    ({"topK": True}, "must be a whole number, not true or false"),
    ({"topK": "8"}, "must be a whole number, not text"),
    ({"topK": 8.0}, "must be a whole number, not a decimal number"),
]
TIMEOUTS: Cases = [
    ({"timeoutSeconds": 0}, "must be more than 0"),
    ({"timeoutSeconds": 3601}, "must be 3,600 or less"),
    ({"timeoutSeconds": -1}, "must be more than 0"),
    ({"timeoutSeconds": False}, "must be a number, not true or false"),
]


def fail_loading(folder: Path, data: dict[str, Any]) -> ConfigError:
    """Load a runtime whose configuration is invalid, and return the error."""
    with pytest.raises(ConfigError) as caught:
        EngineLoader(write_config(folder, data)).load()
    return caught.value


@pytest.mark.parametrize("data", [{}, {"memory": {}}, {"memory": {"curated": {}}}])
def test_missing_memory_configuration_defaults_to_curated_mode(tmp_path: Path, data: object) -> None:
    """A file that says nothing about the mode has curated files, with the documented limits."""
    runtime = EngineLoader(write_config(tmp_path, data)).load()
    config = runtime.config
    assert (config.mode, runtime.backend.name) == ("curated", "curated")
    assert config.gateway is None
    assert config.user_id == "local"
    assert config.curated.folder == tmp_path / ".recollect" / "memories"
    assert (config.curated.memory_limit, config.curated.user_limit) == (2200, 1375)
    assert not config.curated.approval
    assert config.store == f"sqlite:///{tmp_path}/.recollect/recollect.db"
    assert (config.model, config.agent_id, config.persist) == ("offline", "recollect", "before")


def test_complete_gateway_configuration_parses_camel_case_and_exposes_normalized_typed_values(
    tmp_path: Path,
) -> None:
    """What is camelCase in the file is snake_case and typed in code."""
    data = gateway() | {"agentId": "beaver", "persist": "after"}
    runtime = EngineLoader(write_config(tmp_path, data)).load()
    config, settings = runtime.config, runtime.config.gateway
    assert (config.mode, runtime.backend.name) == ("memory_gateway", "memory_gateway")
    assert settings is not None
    assert settings.base_url == "http://127.0.0.1:8010"
    assert config.user_id == settings.user_id == "gateway_test_user"
    assert settings.user_key.get_secret_value() == KEY
    assert (settings.app_id, settings.project_id) == ("notes", "garden")
    assert settings.scope == ("current_chat", "resources")
    assert (settings.top_k, settings.timeout_seconds) == (12, 2.5)
    assert (settings.agent_id, config.persist) == ("beaver", "after")
    assert KEY not in repr(config)


@pytest.mark.parametrize(("data", "problem"), MODES)
def test_invalid_mode_fails_with_an_explicit_configuration_error(
    tmp_path: Path, data: dict[str, Any], problem: str
) -> None:
    """The error names the two modes."""
    error = fail_loading(tmp_path, data)
    assert error.key == "memory.mode"
    assert problem in error.problem


@pytest.mark.parametrize(("changes", "problem"), CREDENTIALS)
def test_empty_credentials_fail_with_an_explicit_configuration_error(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    """URL, user and key must all be there."""
    error = fail_loading(tmp_path, gateway(**changes))
    assert error.key == f"memory.gateway.{next(iter(changes))}"
    assert problem in error.problem


@pytest.mark.parametrize(("changes", "problem"), SCOPES)
def test_empty_or_unknown_scopes_fail_with_an_explicit_configuration_error(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    """The error lists the scopes that there are."""
    error = fail_loading(tmp_path, gateway(**changes))
    assert error.key == "memory.gateway.scope"
    assert problem in error.problem


@pytest.mark.parametrize(("changes", "problem"), TOP_KS)
def test_invalid_top_k_fails_with_an_explicit_configuration_error(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    """Only a whole number from 1 to 100 is one."""
    error = fail_loading(tmp_path, gateway(**changes))
    assert error.key == "memory.gateway.topK"
    assert problem in error.problem


@pytest.mark.parametrize(("changes", "problem"), TIMEOUTS)
def test_non_positive_timeout_fails_with_an_explicit_configuration_error(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    """Zero, less than zero, and what is no number at all."""
    error = fail_loading(tmp_path, gateway(**changes))
    assert error.key == "memory.gateway.timeoutSeconds"
    assert problem in error.problem


@pytest.mark.parametrize(
    "changes",
    [changes for changes, _ in [*CREDENTIALS, *SCOPES, *TOP_KS, *TIMEOUTS] if "userKey" not in changes],
)
def test_error_text_does_not_include_user_key(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Nor does a traceback that prints the variables of every frame of ours."""
    assert KEY not in read_off(fail_loading(tmp_path, gateway(**changes)))
