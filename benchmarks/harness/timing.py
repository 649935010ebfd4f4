"""Timing contestants fairly: in alternating rounds of one run, by the median.

Noise on a shared machine is larger than most differences that matter. Contestants that take turns every
few milliseconds meet the same noise. So the ratio of their medians is reliable when single figures are not.
"""

import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

Lap: TypeAlias = Callable[[int], Awaitable[list[float]]]
"""Runs an action so many times and returns the seconds of each run."""


@dataclass(slots=True)
class Timings:
    """The seconds of each try of one contestant, by round."""

    rounds: list[list[float]] = field(default_factory=list[list[float]])

    @property
    def all(self) -> list[float]:
        """All tries, sorted."""
        return sorted(second for lap in self.rounds for second in lap)

    @property
    def p50(self) -> float:
        """The median of all tries."""
        return statistics.median(self.all)

    def to_micros(self) -> dict[str, float]:
        """Return the published figures, in microseconds."""
        seconds = self.all
        shares = {"p10_us": 0.1, "p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99}
        figures = {name: round(compute_percentile(seconds, share) * 1e6, 1) for name, share in shares.items()}
        return figures | {"samples": len(seconds)}


class Ratio(NamedTuple):
    """The ratio of two times, and the 10th and 90th percentile of the ratios of single rounds."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, rounds: Iterable[float]) -> "Ratio":
        """Create a ratio from the overall value and the values of the rounds."""
        ordered = sorted(rounds)
        return cls(value, compute_percentile(ordered, 0.1), compute_percentile(ordered, 0.9))

    @property
    def spread(self) -> str:
        """The middle 80 % of the rounds."""
        return f"{self.low:.2f} to {self.high:.2f}"


def compute_percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of sorted values lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def compute_ratio(ours: Timings, other: Timings) -> Ratio:
    """Return the ratio of the medians, with the spread of the ratio over the rounds."""
    rounds = compute_medians(ours, other)
    return Ratio.of(ours.p50 / other.p50, (mine / theirs for mine, theirs in rounds))


def compute_medians(*contestants: Timings) -> list[tuple[float, ...]]:
    """Return the medians of each round, one for each contestant."""
    rounds = zip(*(timings.rounds for timings in contestants), strict=True)
    return [tuple(map(statistics.median, laps)) for laps in rounds]


def figures_of(found: Mapping[str, Timings]) -> dict[str, dict[str, float]]:
    """Return the published figures of each contestant."""
    return {name: timings.to_micros() for name, timings in found.items()}


def make_lap(action: Callable[[], Awaitable[object]]) -> Lap:
    """Return a lap that awaits an action."""

    async def lap(count: int) -> list[float]:
        seconds: list[float] = []
        for _ in range(count):
            started = time.perf_counter()
            await action()
            seconds.append(time.perf_counter() - started)
        return seconds

    return lap


def make_sync_lap(action: Callable[[], object]) -> Lap:
    """Return a lap that calls a sync action, without the cost of awaiting it."""

    async def lap(count: int) -> list[float]:
        seconds: list[float] = []
        for _ in range(count):
            started = time.perf_counter()
            action()
            seconds.append(time.perf_counter() - started)
        return seconds

    return lap


def make_processor_lap(lap: Lap) -> Lap:
    """Return a lap that measures the processor time of another, in all threads: one mean for each batch."""

    async def timed_lap(count: int) -> list[float]:
        started = time.process_time()
        await lap(count)
        return [(time.process_time() - started) / count]

    return timed_lap


async def race(
    contestants: Mapping[str, Lap],
    *,
    rounds: int,
    tries: int,
    tick: Callable[[float], None],
    warm_up: int = 2,
) -> dict[str, Timings]:
    """Let contestants take turns, each first equally often; the warm-up rounds do not count."""
    timings = {name: Timings() for name in contestants}
    order = list(contestants)
    for number in range(-warm_up, rounds):
        for name in order:
            lap = await contestants[name](tries)
            if number >= 0:
                timings[name].rounds.append(lap)
        order.append(order.pop(0))
        tick(max(0, number + 1) / rounds)
    return timings
