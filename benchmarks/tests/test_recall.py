"""`python -m benchmarks recall`: that it runs from end to end and prints its results in the agreed format."""

import gzip
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
SYSTEMS = ["hybrid", "words", "vectors", "bm25", "bm25_user"]


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


def _write(path: Path, conversations: list[dict[str, Any]]) -> str:
    data = json.dumps(conversations).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def _report(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["recall", "--quick", "--json", *arguments])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.postgres
def test_the_json_holds_the_quality_of_each_system_and_every_goal(server_url: str, tmp_path: Path) -> None:
    """One JSON object is printed; what is said to be met follows from what was measured."""
    data = _write(tmp_path / "people.json", sample_conversations())
    report = _report("--data", data, "--postgres", server_url)
    assert report["bench"] == "recall"
    _check_set(report["sets"].pop("people"))
    assert report["sets"] == {}
    assert "sets" not in report["figures"]
    assert report["machine"]["postgresql"]
    assert any("random" in note for note in report["notes"])
    _check_goals(report["goals"])


def test_each_file_is_a_set_of_its_own(tmp_path: Path) -> None:
    """Several files, gzipped too, are measured one by one, with goals of their own."""
    first = _write(tmp_path / "people.json", sample_conversations())
    second = _write(tmp_path / "others.json.gz", sample_conversations())
    report = _report("--data", first, "--data", second, "--quality-only")
    assert list(report["sets"]) == ["people", "others"]
    for found in report["sets"].values():
        _check_set(found)
    names = [goal["name"] for goal in report["goals"]]
    assert [name.partition(":")[0].rpartition(" ")[2] for name in names] == ["people"] * 2 + ["others"] * 2
    assert all(name.startswith("Evidence in the first 10") for name in names)


def test_question_is_asked_when_only_what_was_before_it_is_stored(tmp_path: Path) -> None:
    """A question that says `before` cannot find what was said later, and its evidence there is left out."""
    (sample,) = sample_conversations()
    sample["qa"] = [
        {"question": "What did Mara plant?", "evidence": ["D1:1"], "category": 4, "before": "D2:1"},
        {"question": "When does the ferry leave?", "evidence": ["D2:1"], "category": 2, "before": "D2:1"},
    ]
    report = _report("--data", _write(tmp_path / "people.json", [sample]), "--quality-only")
    systems = report["sets"]["people"]["systems"]
    assert {(found["questions"], found["recall_at_5"]) for found in systems.values()} == {(1, 1)}


def test_check_fails_where_a_plainer_search_finds_more(tmp_path: Path) -> None:
    """The exit code is 1 where recall shows once what was said twice, and both are evidence."""
    (sample,) = sample_conversations()
    command = ["recall", "--quick", "--json", "--quality-only", "--check", "--data"]
    good = _write(tmp_path / "good.json", [sample])
    assert CliRunner().invoke(app, [*command, good]).exit_code == 0
    turns = sample["conversation"]["session_1"]
    turns[1]["text"] = turns[0]["text"]
    sample["qa"][0]["evidence"] = ["D1:1", "D1:2"]
    bad = _write(tmp_path / "bad.json", [sample])
    assert CliRunner().invoke(app, [*command, bad]).exit_code == 1


def test_check_needs_data() -> None:
    """Without chats there is nothing to check, which is an error and no success."""
    result = CliRunner().invoke(app, ["recall", "--quick", "--check"])
    assert result.exit_code == 2
    assert "--data" in result.stderr


def test_two_files_of_one_name_are_rejected(tmp_path: Path) -> None:
    """The name of a file is the name of its set."""
    paths = [_write(tmp_path / name, sample_conversations()) for name in ("a.json", "a.json.gz")]
    result = CliRunner().invoke(app, ["recall", "--quick", "--data", paths[0], "--data", paths[1]])
    assert result.exit_code == 2
    assert "two files have the same name" in result.stderr


def _check_set(found: dict[str, Any]) -> None:
    assert list(found["systems"]) == SYSTEMS
    assert found["messages"] == 5
    for name, figures in found["systems"].items():
        assert all(0 <= figures[f"{measure}_at_{cut}"] <= 1 for cut in CUTS for measure in ("recall", "hit"))
        assert (figures["questions"], figures["with_category_5"]["questions"]) == (2, 3)
        assert figures["recall_at_5"] == 1 or name == "bm25_user", name  # Theo's words are not the user's


def _check_goals(goals: list[dict[str, Any]]) -> None:
    expected = [goal["goal"] for goal in goals[:2]]  # what the best plainer search found
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
    """No goal of quality is reported, with a note that says what to do."""
    report = _report("--postgres", server_url)
    assert report["sets"] == {}
    assert not [goal["name"] for goal in report["goals"] if goal["name"].startswith("Evidence")]
    assert all(goal["measured"] is not None for goal in report["goals"])
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
