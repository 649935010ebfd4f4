"""`python -m benchmarks turn`: that it runs from end to end and prints its results in the agreed format."""

import json
from typing import Any

from typer.testing import CliRunner

from benchmarks.cli import app

GOALS = (
    ("SQLite: a turn with history, less the store's two operations: what it adds to a bare turn", 0.15),
    ("Streaming 1,000 chunks through five pass-through processors, against none", 1.05),
    ("Streaming 1,000 chunks through an agent, against Pydantic AI's bare stream", 1.5),
    ("Streaming 1,000 chunks of a local model through an agent, against Pydantic AI's bare stream", 0.5),
    ("The longest stall of the event loop in a process's first turn, after `prepare`", 50),
    ("Memory of a stream of 1,000 chunks through five processors and memory, against 100", 15.0),
)


def test_the_json_holds_every_goal_of_the_turn_and_the_raw_figures() -> None:
    """One JSON object is printed; what is said to be met follows from what was measured."""
    result = CliRunner().invoke(app, ["turn", "--quick", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["bench"] == "turn"
    for goal, (name, limit) in zip(report["goals"], GOALS, strict=True):
        assert goal == {
            "name": name,
            "goal": f"≤ {limit:g} ms" if "stall" in name else f"≤ {limit:g} times",
            "measured": goal["measured"],
            "met": goal["measured"] <= limit,
        }
    _check_figures(report["figures"])


def _check_figures(figures: dict[str, Any]) -> None:
    assert {name: side["samples"] for name, side in figures["turn"].items()} == {
        "ours": 15,
        "store": 15,
        "bare": 15,
    }
    assert figures["turn"]["ours"]["p50_us"] > figures["turn"]["store"]["p50_us"] > 0
    assert figures["streaming"]["five"]["samples"] == figures["streaming"]["none"]["samples"] == 2
    assert len(figures["first_turn_stall_ms"]["prepared"]) == 3
    assert figures["stream_peak_bytes"]["1000"] > figures["stream_peak_bytes"]["100"] > 0
