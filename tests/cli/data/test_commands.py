"""The commands that read and change a database, run as a user would run them."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.commands import answer, invoke
from tests.support.tenants import HOSTILE_TENANTS
from typer.testing import Result

from recollect import Message, Scope, ToolCall, ToolResult, open_store
from recollect.storage.opening import sqlite_path
from recollect.storage.sqlite.connection import connect
from recollect.users import Users

ADA = ("--user", "ada", "--tenant", "1")

TURN = [
    Message("user", "Will it rain tomorrow?", id="m1"),
    Message("assistant", [ToolCall("c1", "weather", {"city": "Lisbon"})], id="m2"),
    Message("tool", [ToolResult("c1", "weather", {"rain": False})], id="m3"),
    Message("assistant", "No, it stays dry. Até amanhã!", id="m4"),
]


@pytest.fixture
def url(sqlite_url: str) -> str:
    """A file in which user `ada` of tenant 1 has a thread, a memory value and a state."""
    asyncio.run(_fill(sqlite_url))
    return sqlite_url


async def _fill(url: str) -> None:
    async with open_store(url) as store:
        scope = Scope(1, "ada", "trip")
        await store.create_thread(title="Lisbon", metadata={"colour": "blue"}, scope=scope)
        await store.append_turn(TURN, scope=scope, run_id="run-1")
        await Users(store).set_memory("ada", "home", {"city": "Lisbon"}, tenant_id=1)
        await Users(store).set_user_state("ada", "travelling", tenant_id=1)


def test_threads_are_listed_when_the_user_has_some(url: str) -> None:
    """The list shows a thread's title and how many messages it has."""
    result = invoke("threads", "--store", url, *ADA)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split()[:3] == ["trip", "Lisbon", "4"]


def test_threads_are_json_when_asked_for(url: str) -> None:
    """The JSON holds the thread as it is stored."""
    (thread,) = answer("threads", "--store", url, *ADA)
    assert (thread["id"], thread["title"], thread["message_count"]) == ("trip", "Lisbon", 4)
    assert thread["metadata"] == {"colour": "blue"}
    assert thread["last_message_at"] == TURN[-1].created_at.isoformat()


def test_no_threads_are_listed_when_the_tenant_is_another(url: str) -> None:
    """Another tenant, and the system's own data, have none of them."""
    assert answer("threads", "--store", url, "--user", "ada", "--tenant", "2") == []
    assert answer("threads", "--store", url, "--user", "ada", "--system") == []
    assert invoke("threads", "--store", url, "--user", "ada", "--system").stdout == "No threads.\n"


def test_history_shows_the_newest_messages_when_no_thread_is_named(url: str) -> None:
    """Only what user and assistant said is shown, oldest first."""
    shown = invoke("history", "--store", url, *ADA).stdout.splitlines()
    assert [line.split(" ", 2)[2] for line in shown] == [
        "user: Will it rain tomorrow?",
        "assistant: No, it stays dry. Até amanhã!",
    ]
    newest = invoke("history", "--store", url, *ADA, "--limit", "1").stdout.splitlines()
    assert newest == shown[-1:]


def test_history_shows_tool_calls_when_a_thread_is_named(url: str) -> None:
    """A limit that would part a call from its result shows both."""
    shown = invoke("history", "--store", url, *ADA, "--thread", "trip", "--limit", "2").stdout
    assert "assistant: [calls weather {'city': 'Lisbon'}]\n" in shown
    assert "tool: [weather gave {'rain': False}]\n" in shown


def test_history_is_json_when_asked_for(url: str) -> None:
    """The JSON holds parts, order numbers and the run."""
    messages = answer("history", "--store", url, *ADA, "--thread", "trip")
    assert [message["id"] for message in messages] == ["m1", "m2", "m3", "m4"]
    assert messages[1]["content"] == [
        {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Lisbon"}}
    ]
    assert {message["run_id"] for message in messages} == {"run-1"}
    assert [message["position"] for message in messages] == [1, 2, 3, 4]


def test_history_says_so_when_there_is_none(url: str) -> None:
    """A user of whom nothing is kept has no messages, and that is no error."""
    result = invoke("history", "--store", url, "--user", "bob", "--tenant", "1")
    assert (result.exit_code, result.stdout) == (0, "No messages.\n")


def test_terminal_codes_are_not_passed_on_when_a_message_holds_some(sqlite_url: str) -> None:
    """A message cannot clear the screen or colour the terminal of whoever reads it."""

    async def write() -> None:
        async with open_store(sqlite_url) as store:
            text = "\x1b[2J\x1b]0;owned\x07 [red]hello[/red]"
            await store.append_turn([Message("user", text)], scope=Scope(1, "ada", "t"))

    asyncio.run(write())
    shown = invoke("history", "--store", sqlite_url, *ADA).stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[red]hello[/red]" in shown


def test_an_export_is_imported_whole_when_the_other_user_is_new(url: str, tmp_path: Path) -> None:
    """What goes out to a file comes back into another user of another tenant."""
    file = tmp_path / "ada.jsonl"
    exported = invoke("export", "--store", url, *ADA, "--output", str(file))
    assert (exported.exit_code, exported.stdout) == (0, "")
    counts = {
        "threads": 1,
        "messages": 4,
        "user_memory": 1,
        "user_state": 1,
        "working_memory": 0,
        "events": 0,
    }
    into = ("--store", url, "--user", "eve", "--tenant", "2")
    assert answer("import", str(file), *into) == {"counts": counts}
    assert _lines(invoke("export", "--store", url, *into[2:])) == _lines(
        invoke("export", "--store", url, *ADA)
    )


def _lines(result: Result) -> list[str]:
    """Return an export without its first line, which names the user."""
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[1:]


def test_an_export_is_read_from_the_standard_input_when_the_file_is_a_dash(url: str) -> None:
    """Export and import can be joined by a pipe."""
    text = invoke("export", "--store", url, *ADA).stdout
    result = invoke("import", "-", "--store", url, "--user", "eve", "--system", text=text)
    assert result.exit_code == 0, result.output
    assert "  messages: 4\n" in result.stdout


def test_an_import_is_refused_when_something_is_kept_already(url: str, tmp_path: Path) -> None:
    """Only with --merge is an export added to what is there, and nothing is there twice."""
    file = tmp_path / "ada.jsonl"
    assert invoke("export", "--store", url, *ADA, "-o", str(file)).exit_code == 0
    refused = invoke("import", str(file), "--store", url, *ADA)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Error: this user has data already")
    merged = invoke("import", str(file), "--store", url, *ADA, "--merge")
    assert merged.exit_code == 0
    assert "  messages: 0\n" in merged.stdout


def test_an_import_creates_the_file_when_it_is_missing(url: str, tmp_path: Path) -> None:
    """An import into a new file makes it; every other command would refuse."""
    file = tmp_path / "ada.jsonl"
    assert invoke("export", "--store", url, *ADA, "-o", str(file)).exit_code == 0
    new = f"sqlite:///{tmp_path}/new.db"
    assert invoke("import", str(file), "--store", new, *ADA).exit_code == 0
    assert invoke("history", "--store", new, *ADA).stdout == invoke("history", "--store", url, *ADA).stdout


def test_erase_removes_everything_when_told_yes(url: str) -> None:
    """The counts name each kind, and nothing is exported afterwards."""
    report = answer("erase", "--store", url, *ADA, "--yes")
    counts = report["counts"]
    assert {kind: counts[kind] for kind in ("threads", "messages", "user_memory", "user_state")} == {
        "threads": 1,
        "messages": 4,
        "user_memory": 1,
        "user_state": 1,
    }
    assert report["total"] == sum(counts.values())
    assert (report["log"], report["file"]) == ("done", "done")
    left = invoke("export", "--store", url, *ADA)
    assert [json.loads(line)["kind"] for line in left.stdout.splitlines()] == ["export", "end"]


def test_erase_asks_when_it_is_not_told_yes(url: str) -> None:
    """A no leaves everything, a yes does it."""
    refused = invoke("erase", "--store", url, *ADA, text="n\n")
    assert refused.exit_code == 1
    assert "Erase everything about user 'ada' of tenant '1'?" in refused.stderr
    assert len(invoke("history", "--store", url, *ADA).stdout.splitlines()) == 2
    done = invoke("erase", "--store", url, *ADA, text="y\n")
    assert done.exit_code == 0
    assert "  messages: 4\n" in done.stdout
    assert "Traces in the log: removed\nTraces in unused parts of the file: removed\n" in done.stdout
    assert invoke("history", "--store", url, *ADA).stdout == "No messages.\n"


def test_db_vacuum_removes_traces_and_fails_when_the_file_is_busy(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how far each step is, for people and for programs; a step that is left is an error."""
    assert answer("db", "vacuum", "--store", url) == {"log": "done", "file": "done"}
    assert "Traces in the log: removed\n" in invoke("db", "vacuum", "--store", url).stdout
    monkeypatch.setattr("recollect.storage.opening.BUSY_SECONDS", 0.2)
    reading = connect(sqlite_path(url))
    reading.execute("BEGIN; SELECT count(*) FROM users").fetchall()
    assert invoke("erase", "--store", url, *ADA, "--yes").exit_code == 0  # what it reads is in the log now
    busy = invoke("db", "vacuum", "--store", url)
    assert (busy.exit_code, "pending" in busy.stdout, "try again" in busy.stderr) == (3, True, True)
    reading.execute("COMMIT")
    reading.close()
    assert answer("db", "vacuum", "--store", url) == {"log": "done", "file": "done"}


def test_erase_reaches_the_files_when_it_is_given_a_configuration(tmp_path: Path) -> None:
    """The report names the files that went and what was not reached; a user is not named beside it."""
    folder = tmp_path / ".recollect"
    (folder / "memories").mkdir(parents=True)
    for name in ("USER.md", "MEMORY.md"):
        (folder / "memories" / name).write_text("Her name is Ada.")
    (folder / "config.json").write_text("{}")
    refused = invoke("erase", "--config", str(folder), text="n\n")
    assert (refused.exit_code, "Erase everything about the user of" in refused.stderr) == (1, True)
    done = invoke("erase", "--config", str(folder), "--yes")
    assert f"  removed {folder}/memories/USER.md\n" in done.stdout
    assert f"  not reached: {folder}/memories/MEMORY.md: the model's own notes" in done.stdout
    assert answer("erase", "--config", str(folder), "--yes")["files"] == []
    for wrong, words in ((("--config", str(folder), *ADA), "names the user"), ((), "give either --user")):
        failed = invoke("erase", *wrong)
        assert (failed.exit_code, words in failed.stderr) == (2, True)


def test_the_store_url_comes_from_the_environment_when_none_is_given(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RECOLLECT_DATABASE_URL stands in for --store."""
    monkeypatch.setenv("RECOLLECT_DATABASE_URL", url)
    assert len(invoke("history", *ADA).stdout.splitlines()) == 2


@pytest.mark.postgres
def test_the_commands_work_on_postgresql_when_the_address_says_so(url: str, postgres_url: str) -> None:
    """A user moves from a file to a server, and is erased there."""
    text = invoke("export", "--store", url, *ADA).stdout
    moved = invoke("import", "-", "--store", postgres_url, *ADA, text=text)
    assert moved.exit_code == 0, moved.output
    assert invoke("export", "--store", postgres_url, *ADA).stdout == text
    assert invoke("erase", "--store", postgres_url, *ADA, "--yes").exit_code == 0
    assert invoke("history", "--store", postgres_url, *ADA).stdout == "No messages.\n"


def test_a_tenant_may_be_a_name(url: str) -> None:
    """Each name is a tenant of its own, whatever it looks like to SQL or to a terminal."""
    text = invoke("export", "--store", url, *ADA).stdout
    for tenant in HOSTILE_TENANTS:  # all into one file, and an import into data that are there is refused
        moved = invoke("import", "-", *_hers(url, tenant), text=text)
        assert moved.exit_code == 0, (tenant, moved.output)
    for tenant in HOSTILE_TENANTS:
        (thread,) = answer("threads", *_hers(url, tenant))
        assert (thread["tenant_id"], thread["message_count"]) == (tenant, 4)
        assert len(answer("history", *_hers(url, tenant), "--thread", "trip")) == 4
        exported = invoke("export", *_hers(url, tenant)).stdout.splitlines()
        assert json.loads(exported[0])["tenant_id"] == tenant
        assert exported[1:] == text.splitlines()[1:]
        asked = invoke("erase", *_hers(url, tenant), text="y\n")
        assert (asked.exit_code, f"of tenant {tenant!r}?" in asked.stderr) == (0, True)
        assert answer("threads", *_hers(url, tenant)) == []
    assert invoke("export", "--store", url, *ADA).stdout == text


def _hers(url: str, tenant: str) -> tuple[str, ...]:
    return "--store", url, "--user", "ada", f"--tenant={tenant}"


def test_a_number_is_the_tenant_that_python_names_by_an_int(url: str) -> None:
    """What Python stored for 1 is listed for --tenant 1, and not for --tenant 01."""
    assert len(answer("threads", "--store", url, "--user", "ada", "--tenant", "1")) == 1
    assert answer("threads", "--store", url, "--user", "ada", "--tenant", "01") == []
