"""The load of the machine while durable work is timed.

Where other processes write too, a commit takes up to ten times as long, and every ratio drifts towards 1. So
figures that contain commits are judged only on a quiet machine.
"""

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace

from benchmarks.harness.machine import read_load
from benchmarks.harness.report import Goal

MAX_LOAD = 1.0
"""Durable figures are judged up to this load: the benchmark itself is one process."""

_QUIET_LOAD = 0.5  # leaves room for the load of the benchmark itself
_PAUSE_SECONDS = 1.0


@dataclass(slots=True)
class LoadWatch:
    """The load averages of one minute before and after some work; None where the system has none."""

    before: float | None = None
    after: float | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether durable figures can be judged."""
        return all(load is None or load <= MAX_LOAD for load in (self.before, self.after))

    def to_figures(self) -> dict[str, object]:
        """Return the published figures."""
        return {"before": self.before, "after": self.after, "judged": self.is_quiet}

    def judge(self, goals: Iterable[Goal]) -> list[Goal]:
        """Return the goals as they are if the machine was quiet, else without a judgement.

        A goal that could not be measured stays missed.
        """
        if self.is_quiet:
            return [*goals]
        return [goal if goal.measured is None else replace(goal, met=None) for goal in goals]

    def list_notes(self, work: str) -> list[str]:
        """Return a note if the work is not judged."""
        if self.is_quiet:
            return []
        loads = f"{self.before} before and {self.after} after"
        return [f"{work}: not judged, because the load average was {loads}; the limit is {MAX_LOAD:g}."]


@contextmanager
def watch_load() -> Generator[LoadWatch]:
    """Note the load before and after the block."""
    watch = LoadWatch(read_load())
    yield watch
    watch.after = read_load()


async def wait_until_quiet(seconds: float) -> None:
    """Wait until the load has fallen, at most so long: earlier parts of the benchmark raise it too."""
    for _ in range(int(seconds / _PAUSE_SECONDS)):
        if (read_load() or 0) <= _QUIET_LOAD:
            return
        await asyncio.sleep(_PAUSE_SECONDS)
