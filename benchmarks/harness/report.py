"""What a benchmark found: goals, and the raw figures beside them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias, TypedDict, Unpack

from benchmarks.harness.timing import Ratio, Timings

NOTHING = "-"
"""Stands where there is no figure."""

Tick: TypeAlias = Callable[[float], None]
"""Is told how much of a part is done, from 0 to 1."""

Show: TypeAlias = Callable[[str, float], None]
"""Is told what is going on, and how much of the whole is done, from 0 to 1."""

Ticker: TypeAlias = Callable[[str], Tick]
"""Begins a part by name, and returns what is to be told how much of it is done."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal, and what was measured.

    `measured` is None where it could not be measured, `met` where it was but is not to be judged here.
    `ours`, `other` and `spread` are for people to read.
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
    """One part of a benchmark: its goals, its figures, and what a reader has to know about them."""

    goals: list[Goal] = field(default_factory=list[Goal])
    figures: dict[str, object] = field(default_factory=dict[str, object])
    notes: list[str] = field(default_factory=list[str])

    def add(self, other: "Part") -> None:
        """Take over what another part found."""
        self.goals += other.goals
        self.figures |= other.figures
        self.notes += other.notes


@dataclass(slots=True)
class Report:
    """All that one run of a benchmark found, and on what machine.

    `further` are figures that stand beside the goals in the JSON, not among the others.
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


class Shown(TypedDict, total=False):
    """What a row of the table shows to people beside the goal."""

    ours: str
    other: str
    spread: str


def at_most(
    name: str, limit: float, measured: float | None, *, unit: str = " times", **shown: Unpack[Shown]
) -> Goal:
    """Judge a figure that is to be low; one that could not be measured is not met."""
    met = measured is not None and measured <= limit
    return Goal(name, f"≤ {limit:g}{unit}", _rounded(measured), met, **shown)


def at_least(
    name: str, limit: float, measured: float | None, *, unit: str = " times", **shown: Unpack[Shown]
) -> Goal:
    """Judge a figure that is to be high; one that could not be measured is not met."""
    met = measured is not None and measured >= limit
    return Goal(name, f"≥ {limit:g}{unit}", _rounded(measured), met, **shown)


def _rounded(measured: float | None) -> float | None:
    return None if measured is None else round(measured, 4)


def ratio_goal(name: str, limit: float, measured: Ratio, ours: Timings, other: Timings) -> Goal:
    """Judge a ratio of times that is to be low."""
    return at_most(
        name, limit, measured.value, ours=micros(ours.p50), other=micros(other.p50), spread=measured.spread
    )


def micros(seconds: float) -> str:
    """Write a time for people to read."""
    return f"{seconds * 1e6:,.0f} µs"


def ticker(show: Show, starts: Mapping[str, float]) -> Ticker:
    """Turn the progress of parts into that of the whole; each part begins at a share of the time."""

    def begin(part: str) -> Tick:
        start = starts[part]
        end = min([other for other in starts.values() if other > start], default=1.0)
        show(part, start)
        return lambda done: show(part, start + done * (end - start))

    return begin


def ignore_progress(_: float) -> None:
    """Show no progress."""
