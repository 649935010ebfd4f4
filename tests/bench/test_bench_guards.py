"""`recollect bench guards`: that it measures labelled files and says what it found in the agreed form."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recollect.cli.app import app

CORPUS = Path(__file__).resolve().parents[1] / "data" / "pii.jsonl"


def test_json_has_the_figures_of_each_kind_and_of_all() -> None:
    """`pii.all.f1` and `pii.<type>.f1` are there, and goals with what was measured."""
    result = CliRunner().invoke(app, ["bench", "guards", "--pii", str(CORPUS), "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    for kind in ("all", "email", "phone", "card", "ssn", "iban", "ip", "mac", "url", "secret", "dob"):
        assert 0.9 <= report["pii"][kind]["f1"] <= 1
    first, second = report["goals"]
    assert first["measured"] == report["pii"]["all"]["f1"]
    assert first["met"] is True
    assert second["measured"] == report["pii"]["ms_per_kb"] > 0


def test_labels_are_compared_by_kind_and_overlap(tmp_path: Path) -> None:
    """Names of other sets are understood; kinds that are not labelled are not judged; nothing is None."""
    rows = [
        {"text": "a@b.example 415-555-0132", "spans": [{"start": 3, "end": 5, "type": "EMAIL_ADDRESS"}]},
        {"text": "nothing", "spans": [{"start": 0, "end": 7, "type": "email"}]},
        {"text": "x@y.example", "spans": [{"start": 0, "end": 11, "type": "person"}]},
    ]
    file = tmp_path / "some.jsonl"
    file.write_text("\n\n".join(map(json.dumps, rows)), "utf-8")
    result = CliRunner().invoke(app, ["bench", "guards", "--pii", str(file), "--json"])
    figures = json.loads(result.stdout)["pii"]
    assert figures["email"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "labelled": 2, "found": 2}
    assert figures["all"] == figures["email"]
    assert set(figures) == {"all", "email", "texts", "ms_per_kb"}


def test_people_are_shown_tables() -> None:
    """Goals, and precision, recall and F1 of each kind."""
    result = CliRunner().invoke(app, ["bench", "guards", "--pii", str(CORPUS)])
    assert result.exit_code == 0, result.output
    assert "precision" in result.output
    assert "national" not in result.output


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "holds no texts"),
        ("{}", "line 1 of bad.jsonl must be a JSON object"),
        ('{"text": 5, "spans": []}', "line 1 of bad.jsonl"),
        ('{"text": "", "spans": [{}]}', "line 1 of bad.jsonl"),
    ],
)
def test_bad_file_is_an_error_that_names_the_line(tmp_path: Path, lines: str, message: str) -> None:
    """Nothing is measured on half a file."""
    file = tmp_path / "bad.jsonl"
    file.write_text(lines, "utf-8")
    result = CliRunner().invoke(app, ["bench", "guards", "--pii", str(file)])
    assert result.exit_code != 0
    assert message in result.output


def test_some_file_must_be_given_and_be_there(tmp_path: Path) -> None:
    """No file, or one that is not there, is an error."""
    for arguments in ([], ["--pii", str(tmp_path / "none")], ["--injection", str(tmp_path / "none")]):
        result = CliRunner().invoke(app, ["bench", "guards", *arguments])
        assert result.exit_code != 0
