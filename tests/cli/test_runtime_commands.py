"""Commands that find their runtime by its configuration: `events` and `memory` need no other option."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.commands import invoke
from tests.runtime.runtimes import loaded

from recollect import ToolCall
from recollect.testing import ScriptedModel


def run_once(folder: Path, mode: str, model: object, **config: object) -> None:
    """Have a runtime answer once."""

    async def run() -> None:
        async with loaded(folder, mode, model, **config) as setup:
            await setup.say("run", "hello")

    asyncio.run(run())


def test_events_of_the_runtime_are_found_by_its_configuration(tmp_path: Path) -> None:
    """The store and the user are those of the file."""
    run_once(tmp_path, "memory_gateway", ScriptedModel("fine"))
    done = invoke("events", "--config", str(tmp_path), "--json")
    assert done.exit_code == 0, done.output
    assert [event["name"] for event in json.loads(done.stdout)] == [
        "memory_gateway_recall_succeeded",
        "memory_gateway_add_succeeded",
        "memory_gateway_flush_succeeded",
    ]
    assert (
        "memory_gateway_recall_succeeded" in invoke("events", "-c", str(tmp_path), "--session", "s1").stdout
    )


def test_memory_commands_use_the_configured_folder_and_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from within the folder, without any option."""
    call = ToolCall("c1", "memory", {"target": "user", "action": "add", "content": "likes tea"})
    memory = {"mode": "curated", "curated": {"folder": "notes", "userLimit": 500}}
    run_once(tmp_path, "curated", ScriptedModel([call, "noted"]), memory=memory)
    assert (tmp_path / "notes" / "USER.md").read_text("utf-8") == "likes tea"
    monkeypatch.chdir(tmp_path)
    shown = invoke("memory", "show")
    assert shown.exit_code == 0, shown.output
    assert "likes tea" in shown.stdout
    assert "9/500 chars" in shown.stdout
    assert (
        "likes tea"
        in invoke("memory", "log", "--config", str(tmp_path / ".recollect" / "config.json")).stdout
    )
    assert invoke("memory", "undo").exit_code == 0
    assert (tmp_path / "notes" / "USER.md").read_text("utf-8") == ""


def test_memory_commands_say_that_a_gateway_has_no_files(tmp_path: Path) -> None:
    """Unless there are some, from a time in the other mode."""
    run_once(tmp_path, "memory_gateway", ScriptedModel(["noted"]))
    for command in ("show", "log", "undo", "approve"):
        done = invoke("memory", command, "-c", str(tmp_path))
        assert done.exit_code == 4
        assert "is on a gateway, which has no files" in done.stderr
    (tmp_path / ".recollect" / "memories").mkdir()
    assert invoke("memory", "show", "-c", str(tmp_path)).exit_code == 0


def test_changes_that_wait_are_approved_within_the_configured_runtime(tmp_path: Path) -> None:
    """Nothing is written until a person has accepted it."""
    call = ToolCall("c1", "memory", {"target": "user", "action": "add", "content": "likes tea"})
    memory = {"mode": "curated", "curated": {"approval": True}}
    run_once(tmp_path, "curated", ScriptedModel([call, "noted"]), memory=memory)
    file = tmp_path / ".recollect" / "memories" / "USER.md"
    assert not file.exists()
    (waiting,) = json.loads(invoke("memory", "approve", "-c", str(tmp_path), "--json").stdout)
    done = invoke("memory", "approve", waiting["id"], "-c", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert file.read_text("utf-8") == "likes tea"


def test_a_missing_configuration_is_said(tmp_path: Path) -> None:
    """With the exit code of a wrong argument."""
    for command in (("events",), ("memory", "show")):
        done = invoke(*command, "--config", str(tmp_path))
        assert done.exit_code == 2
        assert "there is no such file" in done.stderr


def test_events_of_a_tenant_need_a_user() -> None:
    """The runtime's own user has no tenant, so that one of the two was forgotten."""
    done = invoke("events", "--system")
    assert done.exit_code == 2
    assert "give --user" in done.stderr
