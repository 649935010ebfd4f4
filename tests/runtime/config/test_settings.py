"""The configuration file: its rules, and errors that say what to do."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.configurations import KEY, gateway, load, read_off

from recollect.errors import ConfigError
from recollect.runtime.config.settings import load_config
from recollect.runtime.loader import EngineLoader
from recollect.storage.opening import open_store


def test_gateway_configuration_has_defaults(tmp_path: Path) -> None:
    """Application, project, number of results and timeout need not be said."""
    settings = load(tmp_path, gateway(appId=None, projectId=None, topK=None, timeoutSeconds=None)).gateway
    assert settings is not None
    assert (settings.app_id, settings.project_id, settings.top_k) == ("default", "default", 8)
    assert settings.timeout_seconds == 10


WRONG: list[tuple[dict[str, Any], str, str]] = [
    (gateway(baseUrl="localhost:8010"), "memory.gateway.baseUrl", "must be a URL such as http"),
    (gateway(baseUrl="ftp://host"), "memory.gateway.baseUrl", "must be a URL such as http"),
    (gateway(baseUrl="http://[1::"), "memory.gateway.baseUrl", "must be a URL such as http"),
    (gateway(baseUrl=f"http://me:{KEY}@host"), "memory.gateway.baseUrl", "without user, password"),
    (gateway(baseUrl=f"http://host/?key={KEY}"), "memory.gateway.baseUrl", "without user, password"),
    (gateway(userId=5), "memory.gateway.userId", "must be text, not a whole number"),
    (gateway(userId="a\x00b"), "memory.gateway.userId", ""),
    (gateway(userKey=[KEY, 5]), "memory.gateway.userKey", "must be text that is not empty"),
    (gateway(userKey=12345), "memory.gateway.userKey", "must be text that is not empty"),
    (gateway(userKeyEnv="RECOLLECT_NOT_SET"), "memory.gateway.userKey", "and so is userKeyEnv"),
    (
        gateway(userKey=None, userKeyEnv="RECOLLECT_NOT_SET"),
        "memory.gateway.userKeyEnv",
        "NOT_SET, which is not",
    ),
    (gateway(userKey=None, userKeyEnv=KEY), "memory.gateway.userKeyEnv", "(not shown, because"),
    (gateway(userKey=None, userKeyEnv="\ud800"), "memory.gateway.userKeyEnv", "must be the name of"),
    (gateway(userKey={"value": KEY}), "memory.gateway.userKey", "must be text that is not empty"),
    (gateway(appId=""), "memory.gateway.appId", "must not be empty"),
    (gateway(scope="resources"), "memory.gateway.scope", "one or more of"),
    (gateway(scope=["resources", "resources"]), "memory.gateway.scope", "each once"),
    (gateway(baseUrl=f"http://127.0.0.1:8010/{KEY}"), "memory.gateway.baseUrl", "contains the user's key"),
    (gateway(userKey=f"{KEY}\n"), "memory.gateway.userKey", "has no line breaks"),
    (gateway(userkey=KEY), "memory.gateway.userkey", "did you mean 'userKey'?"),
    (gateway(user_id="x"), "memory.gateway.user_id", "did you mean 'userId'?"),
    (gateway(zebra=1), "memory.gateway.zebra", "known are appId"),
    ({"memoy": {}}, "memoy", "did you mean 'memory'?"),
    ({"memory": {"curated": {"folders": "x"}}}, "memory.curated.folders", "did you mean 'folder'?"),
    ({"memory": {"curated": {"memoryLimit": 0}}}, "memory.curated.memoryLimit", "must be 1 or more"),
    ({"memory": {"curated": {"approval": "yes"}}}, "memory.curated.approval", "must be true or false"),
    ({"memory": []}, "memory", "must be an object { … }, not a list"),
    ({"memory": {"gateway": 5}}, "memory.gateway", "must be an object"),
    ({"model": 5}, "model", "must be text"),
    ({"model": " "}, "model", "must not be empty"),
    ({"instructions": "a\x00b"}, "instructions", "NUL"),
    ({"instructions": "\ud800"}, "instructions", "lone surrogate"),
    ({"skills": "a\x00b"}, "skills", "NUL"),
    ({"store": "mysql://ada@host/talk"}, "store", "must be a file, or a URL such as postgresql"),
    ({"k" * 5000: 1}, "(not shown: it may be a secret)", "is not a key here"),
    (gateway(**{KEY: 1}), "memory.gateway.(not shown: it may be a secret)", "is not a key here"),
    (
        gateway(userKey="plainwords", plainwords=1),
        "memory.gateway.(not shown: it may be a secret)",
        "not a key",
    ),
    (gateway(userId=f"u-{KEY}"), "memory.gateway.userId", "contains the user's key"),
    (gateway(appId=KEY), "memory.gateway.appId", "contains the user's key"),
    (gateway(projectId=KEY), "memory.gateway.projectId", "contains the user's key"),
    ({"persist": "never"}, "persist", 'must be "before" or "after"'),
    ({"tools": "notes:add"}, "tools", "must be a list"),
    ({"tools": ["notes"]}, "tools[0]", 'must be "module:function"'),
    ({"maxToolRounds": 1001}, "maxToolRounds", "must be 1,000 or less"),
    ({"guards": [5]}, "guards[0]", "must be an object"),
    (
        {"guards": [{"name": "PIIDetector", "side": KEY}]},
        "guards[0].side",
        'must be "input", "output" or "both"',
    ),
    ({"guards": [{"strategy": "block"}]}, "guards[0].name", "is missing or empty"),
    ({"tenantId": 0}, "tenantId", "must be 1 or more"),
    ({"tenantId": -1}, "tenantId", "must be 1 or more"),
    ({"tenantId": 2**63}, "tenantId", "must be 9,223,372,036,854,775,807 or less"),
    ({"tenantId": True}, "tenantId", "must be a whole number, text or null, not true or false"),
    ({"tenantId": 1.0}, "tenantId", "must be a whole number, text or null, not a decimal number"),
    ({"tenantId": ["acme"]}, "tenantId", "must be a whole number, text or null, not a list"),
    ({"tenantId": ""}, "tenantId", "must not be empty"),
    ({"tenantId": "x" * 513}, "tenantId", "at most 512"),
    ({"tenantId": "(system)"}, "tenantId", "is reserved for the tenant None"),
    ({"lastMessages": -1}, "lastMessages", "must be 0 or more"),
    ({"maxToolRounds": 0}, "maxToolRounds", "must be 1 or more"),
    ({"agentId": ""}, "agentId", "must not be empty"),
    ({"agentId": "x" * 600}, "agentId", "at most 512"),
    ({"model": {"name": "test"}}, "model", "must be text, not an object"),
]


@pytest.mark.parametrize(
    ("data", "key", "problem"), WRONG, ids=lambda value: value if isinstance(value, str) else ""
)
def test_invalid_configuration_fails_with_an_error_that_names_the_key(
    tmp_path: Path, data: dict[str, Any], key: str, problem: str
) -> None:
    """Modes, credentials, scopes, numbers, and keys that nobody knows."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, data)
    assert caught.value.key == key
    assert problem in caught.value.problem


@pytest.mark.parametrize("data", [data for data, _, _ in WRONG if KEY in json.dumps(data)])
def test_key_is_in_neither_the_error_nor_its_traceback(tmp_path: Path, data: dict[str, Any]) -> None:
    """Wherever in the file it was written."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, data)
    assert KEY not in read_off(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON: Expecting value in line 1, column 1"),
        (f'{{"memory": {{"gateway": {{"userKey": "{KEY}",}}}}}}', "is not JSON"),
        (f'{{"memory": 1, "memory": "{KEY}"}}', "has the key 'memory' twice"),
        ("[]", "must hold a JSON object"),
        ("[" * 100_000, "too deep"),
        ('{"userKey":' * 990 + f'"{KEY}"' + "}" * 990, "too deep"),
        ('{"topK": ' + "9" * 5000 + "}", "a number too long"),
        ('"' + "x" * 1_100_000 + '"', "is larger than"),
    ],
)
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """The error says where, and quotes nothing."""
    with pytest.raises(ConfigError, match=problem) as caught:
        load(tmp_path, text)
    assert KEY not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """It is said, instead of guessing."""
    (tmp_path / "config.json").write_bytes(b'{"model": "\xff"}')
    with pytest.raises(ConfigError, match="is not text in UTF-8"):
        load_config(tmp_path)


def test_the_path_may_be_the_file_its_folder_or_the_folder_around_it(tmp_path: Path) -> None:
    """Relative paths in the file begin in the same place each time."""
    load(tmp_path, {"model": "test", "store": "data/talk.db"})
    folder = tmp_path / ".recollect"
    for path in (tmp_path, folder, folder / "config.json", str(folder)):
        config = load_config(path)
        assert config.model == "test"
        assert config.base == tmp_path
        assert config.store == f"sqlite:///{tmp_path}/data/talk.db"


def test_a_missing_file_says_what_to_write(tmp_path: Path) -> None:
    """The error names the file that was looked for."""
    with pytest.raises(ConfigError, match=r"config\.json: there is no such file; `recollect init`"):
        load_config(tmp_path)


def test_the_user_key_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file names the variable, and has no secret in it."""
    monkeypatch.setenv("GARDEN_KEY", KEY)
    settings = load(tmp_path, gateway(userKey=None, userKeyEnv="GARDEN_KEY")).gateway
    assert settings is not None
    assert settings.user_key.get_secret_value() == KEY


def test_the_url_of_a_store_is_taken_as_it_is(tmp_path: Path) -> None:
    """Only plain paths are files."""
    assert load(tmp_path, {"store": "postgresql://me@db/talk"}).store == "postgresql://me@db/talk"
    assert load(tmp_path, {"store": "sqlite://"}).store == "sqlite://"


@pytest.mark.parametrize("given", ["data/talk.db", "sqlite:///data/talk.db", "SQLite:///data/talk.db"])
def test_a_file_is_the_same_wherever_the_program_is_started(tmp_path: Path, given: str) -> None:
    """A URL names the same file as the same path."""
    assert load(tmp_path, {"store": given}).store == f"sqlite:///{tmp_path}/data/talk.db"
    assert load(tmp_path, {"store": "sqlite:////srv/talk.db"}).store == "sqlite:////srv/talk.db"


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b", "%zz", "it's", "a:b@c", "ünï 東京", "a\nb\tc"])
@pytest.mark.anyio
async def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Also one that means something else in a URL."""
    (tmp_path / name).mkdir()
    config = load(tmp_path / name, {})
    async with open_store(config.store):
        pass
    assert (tmp_path / name / ".recollect" / "recollect.db").is_file()


def test_paths_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell would take them."""
    monkeypatch.setenv("HOME", "/home/ada")
    data = {"store": "~/talk.db", "skills": "~/skills", "memory": {"curated": {"folder": "~/notes"}}}
    config = load(tmp_path, data)
    assert config.store == "sqlite:////home/ada/talk.db"
    assert (config.skills, config.curated.folder) == (Path("/home/ada/skills"), Path("/home/ada/notes"))
    assert load(tmp_path, {"skills": "~nobody-at-all/x"}).skills == tmp_path / "~nobody-at-all" / "x"


def test_a_gateway_section_may_stay_in_the_file_in_curated_mode(tmp_path: Path) -> None:
    """It is not looked into, so that modes can be changed by one word."""
    data = gateway(userKeyEnv="RECOLLECT_NOT_SET", userKey=None)
    data["memory"]["mode"] = "curated"
    assert load(tmp_path, data).gateway is None


def test_the_file_may_have_any_name(tmp_path: Path) -> None:
    """A path that is a file is the file; one that cannot be looked at is as one that is not there."""
    (tmp_path / "agent.conf").write_text('{"model": "test"}', "utf-8")
    assert load_config(tmp_path / "agent.conf").model == "test"
    with pytest.raises(ConfigError, match="there is no such file"):
        load_config("x" * 5000)


@pytest.mark.parametrize("value", ["uk\nline", "  ", ""])
def test_a_variable_that_holds_no_key_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """The same rules as for a key in the file."""
    monkeypatch.setenv("RECOLLECT_TEST_KEY", value)
    with pytest.raises(ConfigError, match="RECOLLECT_TEST_KEY, which is not set, or no text") as caught:
        load(tmp_path, gateway(userKey=None, userKeyEnv="RECOLLECT_TEST_KEY"))
    assert caught.value.key == "memory.gateway.userKeyEnv"


def test_a_variable_that_is_no_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are not UTF-8 cannot be sent as JSON."""
    monkeypatch.setenv("RECOLLECT_TEST_KEY", "uk\udcff")
    with pytest.raises(ConfigError, match="which is not set, or no text"):
        load(tmp_path, gateway(userKey=None, userKeyEnv="RECOLLECT_TEST_KEY"))


@pytest.mark.parametrize("url", [f"postgresql://u:{KEY}@h/d", f"postgresql://h/d?user=u&password={KEY}"])
def test_the_password_of_a_store_is_not_shown(tmp_path: Path, url: str) -> None:
    """Neither by the repr of the configuration nor by the status of the runtime."""
    load(tmp_path, {"store": url})
    runtime = EngineLoader(tmp_path).load()
    assert KEY not in repr(runtime.config) + json.dumps(runtime.status())
    assert "/d" in str(runtime.status()["store"])
