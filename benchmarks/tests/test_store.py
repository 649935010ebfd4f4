"""`python -m benchmarks`: that it runs from end to end and prints its results in the agreed format."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.cli import app

pytestmark = pytest.mark.postgres

APPEND = "append a turn of 2 messages"
READ = "read the last 10"
LARGE = "last 10 of a thread among 2,000 messages of 20 users, against 1,000 messages"
WRITERS = "SQLite: 32 writers"
REPLAY = "against a replay of its own statements"
PROCESSOR = "SQLite: processor time of an append with synchronous=OFF"
SIZE = "SQLite: bytes a message, 400 messages of 20 threads"
GOALS = (
    (f"SQLite: {APPEND}, against fixed bare APSW", "≤ 1.5 times"),
    (f"SQLite: {APPEND}, {REPLAY}", "≤ 1.35 times"),
    (f"SQLite: {APPEND}, against SQLiteSession", "≤ 0.8 times"),
    (f"SQLite: {READ}, against fixed bare APSW", "≤ 2 times"),
    (f"SQLite: {READ}, {REPLAY}", "none"),
    (f"SQLite: {READ}, against SQLiteSession", "≤ 0.4 times"),
    (f"{WRITERS}, turns per second against one fixed bare writer", "≥ 1.8 times"),
    (f"{WRITERS}, event-loop lag p50", "≤ 1 ms"),
    (f"{WRITERS}, turns per second against one fixed bare writer, with recall on", "none"),
    (f"{WRITERS}, event-loop lag p50 in ms, with recall on", "none"),
    (f"{PROCESSOR}, against fixed bare APSW", "none"),
    (f"{PROCESSOR}, {REPLAY}", "none"),
    (f"{SIZE}, as written", "none"),
    (f"{SIZE}, with search terms, without vectors", "none"),
    ("A turn with recall on, 20 in a row, until all are searchable by meaning: ms a turn", "none"),
    ("`import recollect`, against `import pydantic`", "≤ 3 times"),
    (f"SQLite: {LARGE}", "≤ 1.6 times"),
    (f"PostgreSQL: {APPEND}, against bare psycopg", "≤ 1.5 times"),
    (f"PostgreSQL: {READ}, against bare psycopg", "≤ 1.5 times"),
    (f"PostgreSQL: {LARGE}", "≤ 1.3 times"),
)


def test_the_json_holds_every_goal_and_the_raw_figures(server_url: str) -> None:
    """One JSON object is printed, with each goal of the table; only the peer may be missing."""
    arguments = ["store", "--quick", "--json", "--messages", "2000", "--postgres", server_url]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [(goal["name"], goal["goal"]) for goal in report["goals"]] == list(GOALS)
    for goal in report["goals"]:
        _check_goal(goal, report)
    assert report["figures"]["sqlite_append"]["ours"]["samples"] == 15
    assert report["figures"]["sqlite_append_processor"]["fixed"]["samples"] == 3
    assert report["figures"]["sqlite_append_warm_up"]["log_pages"]["fixed"] > 0
    assert report["figures"]["postgres_append"]["bare"]["p50_us"] > 0
    assert report["figures"]["sqlite_bytes"]["messages"] == 400
    assert report["figures"]["turn_with_recall"]["turns"] == 20
    recalled = report["figures"]["writers_with_recall"]
    assert 0 <= recalled["waiting"] <= recalled["messages"] == 256
    assert report["machine"]["fdatasync_ms"] > 0
    assert report["machine"]["postgresql"]


def _check_goal(goal: dict[str, Any], report: dict[str, Any]) -> None:
    assert set(goal) == {"name", "goal", "measured", "met"}
    if "SQLiteSession" in goal["name"] and "openai-agents" not in report["machine"]["versions"]:
        assert (goal["measured"], goal["met"]) == (None, False)
        assert any("pip install 'recollect[bench]'" in note for note in report["notes"])
    elif goal["goal"] == "none" or not _is_judged(goal["name"], report["figures"]):
        assert goal["measured"] is not None
        assert goal["met"] is None
    else:
        relation, limit, _ = goal["goal"].split()
        reached = goal["measured"] <= float(limit) if relation == "≤" else goal["measured"] >= float(limit)
        assert goal["met"] is reached


def _is_judged(name: str, figures: dict[str, Any]) -> bool:
    if name.startswith(WRITERS):
        return figures["writers"]["judged"]
    if APPEND in name:
        return figures[f"{'sqlite' if name.startswith('SQLite') else 'postgres'}_append_load"]["judged"]
    return True


@pytest.mark.timeout(240)  # it runs every benchmark there is, on two engines
def test_the_page_is_written_when_every_benchmark_runs(server_url: str, tmp_path: Path) -> None:
    """`all` shows the table and writes it, with the command, into the page."""
    page = tmp_path / "benchmarks.md"
    page.write_text(
        "".join(
            f"<!-- {name}: begin -->\n<!-- {name}: end -->\n"
            for name in ("store", "turn", "guards", "runtime", "recall")
        ),
        "utf-8",
    )
    arguments = [
        "all",
        "--quick",
        "--messages",
        "1000",
        "--postgres",
        server_url,
        "--page",
        str(page),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    text = page.read_text("utf-8")
    assert "with `python -m benchmarks store`" in text
    assert "with `python -m benchmarks turn`" in text
    assert "with `python -m benchmarks recall`" in text
    assert text.count("| PostgreSQL: ") == 6
    assert str(tmp_path) not in text


def test_nothing_is_measured_when_there_is_no_page(tmp_path: Path) -> None:
    """The missing page is found before the minutes of measuring, not after."""
    result = CliRunner().invoke(app, ["all", "--page", str(tmp_path / "missing.md")])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: page: there is no ")


def test_the_exit_code_is_3_when_the_server_cannot_be_reached(tmp_path: Path) -> None:
    """The benchmark fails in one line too, and names no password."""
    url = f"postgresql://ada:s3cret@/db?host={tmp_path}"
    result = CliRunner().invoke(app, ["store", "--quick", "--messages", "1000", "--postgres", url])
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: postgresql ")
    assert "s3cret" not in result.output
