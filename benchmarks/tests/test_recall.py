"""`python -m benchmarks recall`: that it runs from end to end and prints its results in the agreed format."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.cli import app
from benchmarks.harness.report import ignore_progress
from benchmarks.recall.speed import measure_large
from benchmarks.recall.stores import make_owners, sqlite_store
from benchmarks.sizes import QUICK_RECALL

CUTS = (5, 10, 20, 50)
ENGINES = ("SQLite", "PostgreSQL")
QUALITY = (("text and vectors", "≥ 0.77"), ("text alone", "≥ 0.69"))


def sample_conversations() -> list[dict[str, Any]]:
    """Return one conversation of our own in the format of LoCoMo."""
    said = (
        ("Mara", "I planted tomatoes on the balcony this morning."),
        ("Theo", "Mine were eaten by snails last year."),
        ("Mara", "Then I shall buy a copper ring for the pots."),
    )
    later = (
        ("Theo", "The ferry to the island leaves at seven."),
        ("Mara", "I booked two seats on it for Saturday."),
    )
    return [
        {
            "sample_id": "balcony",
            "conversation": {
                "speaker_a": "Mara",
                "speaker_b": "Theo",
                "session_1_date_time": "9:05 am on 3 May, 2024",
                "session_1": _turns(1, said),
                "session_2_date_time": "8:30 pm on 21 June, 2024",
                "session_2": _turns(2, later),
            },
            "qa": [
                {"question": "What did Mara plant?", "evidence": ["D1:1"], "category": 4},
                {"question": "When does the ferry leave?", "evidence": ["D2:1"], "category": 2},
                {"question": "Who sings in the choir?", "evidence": ["D1:2"], "category": 5},
            ],
        }
    ]


def _turns(session: int, said: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    return [
        {"speaker": speaker, "dia_id": f"D{session}:{place}", "text": text}
        for place, (speaker, text) in enumerate(said, 1)
    ]


def _report(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["recall", "--quick", "--json", *arguments])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.postgres
def test_the_json_holds_the_quality_of_each_system_and_every_goal(server_url: str, tmp_path: Path) -> None:
    """One JSON object is printed; what is said to be met follows from what was measured."""
    data = tmp_path / "conversations.json"
    data.write_text(json.dumps(sample_conversations()), "utf-8")
    report = _report("--data", str(data), "--postgres", server_url)
    assert report["bench"] == "recall"
    assert list(report["systems"]) == ["text", "vectors", "hybrid"]
    for figures in report["systems"].values():
        assert all(0 <= figures[f"recall_at_{cut}"] <= 1 for cut in CUTS)
        assert figures["recall_at_5"] == 1  # five messages are all there are
        assert (figures["questions"], figures["with_category_5"]["questions"]) == (2, 3)
    assert "systems" not in report["figures"]
    assert report["machine"]["postgresql"]
    assert any("random" in note for note in report["notes"])
    _check_goals(report["goals"])


def _check_goals(goals: list[dict[str, Any]]) -> None:
    expected = [limit for _, limit in QUALITY]
    expected += ["≥ 0.95 times", "≤ 1.5 times", "≤ 1.5 times", "≤ 25 times", "≤ 1.2 times"]
    assert [goal["goal"] for goal in goals] == [*expected, "≤ 1.5 times", "≤ 1.5 times", "≤ 25 times"]
    assert [goal["name"].partition(":")[0] for goal in goals[2:]] == ["SQLite"] * 5 + ["PostgreSQL"] * 3
    for goal in goals:
        assert set(goal) == {"name", "goal", "measured", "met"}
        relation, limit = goal["goal"].split()[:2]
        reached = goal["measured"] <= float(limit) if relation == "≤" else goal["measured"] >= float(limit)
        assert goal["met"] is reached


@pytest.mark.anyio
async def test_large_user_is_measured_when_asked_for(tmp_path: Path) -> None:
    """The time of a question and the size of the index are judged, the first reading is reported."""
    sizes = replace(QUICK_RECALL, large=600)
    async with sqlite_store(tmp_path, "many", make_owners(sizes.many), "m") as many:
        part = await measure_large(tmp_path, many, "m", sizes, ignore_progress)
    assert [goal.goal for goal in part.goals] == ["≤ 15 times", "≤ 1200 bytes", "none"]
    assert all(goal.measured is not None and goal.measured > 0 for goal in part.goals)


@pytest.mark.postgres
def test_without_data_the_speed_alone_is_measured(server_url: str) -> None:
    """The goals of quality are reported as not measured, with a note that says what to do."""
    report = _report("--postgres", server_url)
    assert "systems" not in report
    for goal, (system, limit) in zip(report["goals"], QUALITY, strict=False):
        assert system in goal["name"]
        assert (goal["goal"], goal["measured"], goal["met"]) == (limit, None, False)
    assert all(goal["measured"] is not None for goal in report["goals"][len(QUALITY) :])
    assert any("--data" in note for note in report["notes"])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"not JSON", "is not in the format of LoCoMo"),
        (b'{"a": 1}', "is not in the format of LoCoMo"),
        (b"[1]", "is not in the format of LoCoMo"),
        (b"[" * 100_000, "is not in the format of LoCoMo"),
        (b"[]", "has no question with evidence in its conversations"),
    ],
)
def test_unusable_data_is_an_error_of_one_line(tmp_path: Path, content: bytes | None, problem: str) -> None:
    """It is found before the minutes of measuring, not after."""
    path = tmp_path / "data.json"
    if content is not None:
        path.write_bytes(content)
    result = CliRunner().invoke(app, ["recall", "--quick", "--data", str(path)])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: data: ")
    assert problem in result.stderr
    assert result.stderr.count("\n") == 1
