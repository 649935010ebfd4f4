"""The report of a benchmark: goals, and the raw figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias, TypedDict, Unpack

from benchmarks.harness.timing import Ratio, Timings

NOTHING = "-"
"""The text of a missing figure."""

NO_GOAL = "none"
"""The goal of a figure that is only reported."""

Tick: TypeAlias = Callable[[float], None]
"""A callback for the progress of a part, from 0 to 1."""

Show: TypeAlias = Callable[[str, float], None]
"""A callback for the name of the current part and the progress of the whole, from 0 to 1."""

Ticker: TypeAlias = Callable[[str], Tick]
"""Begins a part by name, and returns the callback for its progress."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal, and what was measured.

    `measured` is None if it could not be measured, `met` is None if the result is not judged. `ours`, `other`
    and `spread` are for people to read.
    """

    name: str
    goal: str
    measured: float | None
    met: bool | None
    ours: str = NOTHING
    other: str = NOTHING
    spread: str = NOTHING

    def as_json(self) -> dict[str, object]:
        """Return the four fields that every benchmark prints."""
        return {"name": self.name, "goal": self.goal, "measured": self.measured, "met": self.met}


@dataclass(slots=True)
class Part:
    """One part of a benchmark: its goals, its figures, and notes for the reader."""

    goals: list[Goal] = field(default_factory=list[Goal])
    figures: dict[str, object] = field(default_factory=dict[str, object])
    notes: list[str] = field(default_factory=list[str])

    def add(self, other: "Part") -> None:
        """Add the goals, figures and notes of another part."""
        self.goals += other.goals
        self.figures |= other.figures
        self.notes += other.notes


@dataclass(slots=True)
class Report:
    """The results of one run of a benchmark, with facts of the machine.

    `further` are figures at the top level of the JSON, next to the goals.
    """

    bench: str
    machine: dict[str, object]
    found: Part
    further: dict[str, object] = field(default_factory=dict[str, object])
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())

    def as_json(self) -> dict[str, object]:
        """Return the object that `--json` prints."""
        return {
            "bench": self.bench,
            "date": self.date,
            "goals": [goal.as_json() for goal in self.found.goals],
            "machine": self.machine,
            "figures": self.found.figures,
            "notes": self.found.notes,
            **self.further,
        }


class GoalDetails(TypedDict, total=False):
    """The optional texts of a goal in the table."""

    ours: str
    other: str
    spread: str


def at_most(
    name: str, limit: float, measured: float | None, *, unit: str = " times", **shown: Unpack[GoalDetails]
) -> Goal:
    """Judge a figure that should be low; if it could not be measured, the goal is not met."""
    met = measured is not None and measured <= limit
    return Goal(name, f"≤ {limit:g}{unit}", _round(measured), met, **shown)


def at_least(
    name: str, limit: float, measured: float | None, *, unit: str = " times", **shown: Unpack[GoalDetails]
) -> Goal:
    """Judge a figure that should be high; if it could not be measured, the goal is not met."""
    met = measured is not None and measured >= limit
    return Goal(name, f"≥ {limit:g}{unit}", _round(measured), met, **shown)


def report_only(name: str, measured: float | None, **shown: Unpack[GoalDetails]) -> Goal:
    """Return a row for a figure without a goal."""
    return Goal(name, NO_GOAL, _round(measured), None, **shown)


def _round(measured: float | None) -> float | None:
    return None if measured is None else round(measured, 4)


def ratio_goal(name: str, limit: float | None, measured: Ratio, ours: Timings, other: Timings) -> Goal:
    """Judge a ratio of times that should be low; without a limit, only report it."""
    shown: GoalDetails = {
        "ours": format_micros(ours.p50),
        "other": format_micros(other.p50),
        "spread": measured.spread,
    }
    if limit is None:
        return report_only(name, measured.value, **shown)
    return at_most(name, limit, measured.value, **shown)


def format_micros(seconds: float) -> str:
    """Format a time in microseconds."""
    return f"{seconds * 1e6:,.0f} µs"


def make_ticker(show: Show, starts: Mapping[str, float]) -> Ticker:
    """Convert the progress of parts into progress of the whole; `starts` are shares of the time."""

    def begin(part: str) -> Tick:
        start = starts[part]
        end = min([other for other in starts.values() if other > start], default=1.0)
        show(part, start)
        return lambda done: show(part, start + done * (end - start))

    return begin


def ignore_progress(_: float) -> None:
    """Show no progress."""
