"""`python -m benchmarks runtime` on a few runs: real runtimes, a real gateway process."""

import json

from typer.testing import CliRunner

from benchmarks.cli import app


def test_the_benchmark_of_the_runtime_prints_its_goals_and_figures() -> None:
    """One JSON object; a silent gateway costs no more than its timeouts."""
    done = CliRunner().invoke(app, ["runtime", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    names = [goal["name"] for goal in report["goals"]]
    assert len(names) == 4
    assert names[0].startswith("Curated files")
    assert all(goal["measured"] is not None for goal in report["goals"])
    assert set(report["figures"]["runtime"]) == {"bare", "round_trip", "curated", "gateway", "gateway_after"}
    assert report["goals"][3]["measured"] >= 2  # it did wait for the silent gateway, twice
    share = report["figures"]["share_ms"]
    assert share["gateway_after"] < share["gateway"]
