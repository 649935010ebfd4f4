"""What a benchmark found: goals, and the raw figures beside them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from benchmarks.timing import Ratio, Timings

NOTHING = "-"
"""Stands where there is no figure."""

Tick: TypeAlias = Callable[[float], None]
"""Is told how much of a piece of work is done, from 0 to 1."""

Show: TypeAlias = Callable[[str, float], None]
"""Is told what is going on, and how much of the whole is done, from 0 to 1."""


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
    date: str
    machine: dict[str, object]
    found: Part
    further: dict[str, object] = field(default_factory=dict[str, object])

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


def ratio_goal(name: str, limit: float, measured: Ratio, ours: Timings, other: Timings) -> Goal:
    """Judge a ratio that is to be low."""
    return Goal(
        name,
        at_most(limit),
        round(measured.value, 3),
        measured.value <= limit,
        ours=micros(ours),
        other=micros(other),
        spread=measured.spread,
    )


def unmeasured(name: str, goal: str) -> Goal:
    """Return a goal that could not be measured here, and so is not met."""
    return Goal(name, goal, None, met=False)


def at_most(limit: float) -> str:
    """Write a goal for a ratio that is to be low."""
    return f"≤ {limit:g} times"


def at_least(limit: float) -> str:
    """Write a goal for a ratio that is to be high."""
    return f"≥ {limit:g} times"


def micros(timings: Timings) -> str:
    """Write the median for people to read."""
    return f"{timings.p50 * 1e6:,.0f} µs"
