"""`recollect events`, run as a user would run it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from recollect import Scope, open_store
from recollect.cli.app import app

LOCAL = ("--user", "local", "--system")


@pytest.fixture
def url(sqlite_url: str) -> str:
    """A file in which the user `local` has events in two sessions."""
    asyncio.run(_fill(sqlite_url))
    return sqlite_url


async def _fill(url: str) -> None:
    async with open_store(url) as store:
        first, second = (Scope(None, "local", session) for session in ("s1", "s2"))
        await store.add_event("recalled", {"count": 2}, run_id="r1", scope=first)
        await store.add_event("added", {"who": "Até \x1b[31m"}, run_id="r1", scope=first)
        await store.add_event("recalled", {}, run_id="r2", scope=second)
        await store.add_event("started", {}, scope=second)


def _run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ("events", "--store", url, *arguments))


def _names(url: str, *arguments: str) -> Any:  # noqa: ANN401 - whatever the JSON holds
    result = _run(url, *LOCAL, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return [(event["thread_id"], event["name"]) for event in json.loads(result.stdout)]


def test_events_are_shown_oldest_first_without_terminal_codes(url: str) -> None:
    """A line has the time, the session, the name, the payload and the run."""
    shown = _run(url, *LOCAL).stdout.splitlines()
    assert [line.split(" ", 2)[2] for line in shown] == [
        's1 recalled {"count": 2} run r1',
        's1 added {"who": "Até \\u001b[31m"} run r1',
        "s2 recalled {} run r2",
        "s2 started {}",
    ]


def test_events_are_json_when_asked_for(url: str) -> None:
    """The JSON has all of an event and says that it is hidden."""
    result = _run(url, *LOCAL, "--json", "--limit", "1")
    (event,) = json.loads(result.stdout)
    assert event.pop("number") > 0
    assert event.pop("created_at").endswith("+00:00")
    assert event == {
        "thread_id": "s2",
        "name": "started",
        "run_id": None,
        "payload": {},
        "context_visible": False,
    }


def test_events_are_chosen_by_session_run_name_and_limit(url: str) -> None:
    """Each option leaves out what it does not name; the limit takes the newest."""
    assert _names(url, "--session", "s2") == [("s2", "recalled"), ("s2", "started")]
    assert _names(url, "--run", "r1") == [("s1", "recalled"), ("s1", "added")]
    assert _names(url, "--name", "recalled") == [("s1", "recalled"), ("s2", "recalled")]
    assert _names(url, "-n", "2", "--session", "s1", "--name", "added") == [("s1", "added")]
    assert _names(url, "--limit", "1", "--name", "recalled") == [("s2", "recalled")]
    assert _names(url, "--session", "unknown") == []


def test_no_events_are_shown_when_there_are_none(url: str) -> None:
    """Another user, and the same name in a tenant, have none of them; that is no error."""
    for who in (("--user", "eve", "--system"), ("--user", "local", "--tenant", "1")):
        result = _run(url, *who)
        assert (result.exit_code, result.stdout) == (0, "No events.\n")


def test_wrong_options_end_with_a_line_that_says_what_to_do(url: str) -> None:
    """A missing tenant, a wrong limit and a missing file have exit codes of their own."""
    for code, arguments in (
        (2, (url, "--user", "local")),
        (2, (url, *LOCAL, "--limit", "-1")),
        (2, (url, *LOCAL, "--name", "")),
        (3, (f"{url}.missing", *LOCAL)),
    ):
        result = _run(*arguments)
        assert result.exit_code == code
        assert result.stderr.startswith("Error: ")
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "typed", [("--store", "URL"), ("--tenant", "1"), ("--system",), ("--app", "x"), ("--project", "x")]
)
def test_what_is_for_a_user_is_refused_without_one(typed: tuple[str, ...], url: str) -> None:
    """It would be passed over, and the events of the runtime's own store be taken for those."""
    result = CliRunner().invoke(app, ("events", *(url if word == "URL" else word for word in typed)))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: user: give --user with {typed[0]}")


def test_a_runtime_is_refused_together_with_a_user(url: str) -> None:
    """Its store is not looked into for another user."""
    result = _run(url, *LOCAL, "--config", ".")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: config: give it without --user")


def test_a_database_of_the_environment_does_not_stand_for_that_of_the_runtime(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is for the commands of users; the runtime has its store in its configuration."""
    (tmp_path / ".recollect").mkdir()
    (tmp_path / ".recollect" / "config.json").write_text(json.dumps({"store": url}), "utf-8")
    monkeypatch.setenv("RECOLLECT_DATABASE_URL", "sqlite:///elsewhere.db")
    result = CliRunner().invoke(app, ("events", "--config", str(tmp_path), "--name", "started", "--json"))
    assert [event["thread_id"] for event in json.loads(result.stdout)] == ["s2"]
