"""Warming up until SQLite's logs are in their usual state: full once, and written again from the start.

While the file of a log grows, each commit also waits for the file system's journal and costs about twice as
much. A contestant that writes fewer pages needs more turns to fill its log, so a fixed number of turns would
measure the leanest one while its log still grows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.timing import Lap

FULL_PAGES = 1000
"""After so many pages SQLite copies the log into the file, and so does the store."""

# A transaction that begins shortly before the log is full ends further on, the longer the further. So the log
# may still grow by a few pages in a round; one that is not yet reused grows by all that a round writes.
_SLACK_PAGES = 50
_PAGE_BYTES = 4096 + 24  # a page of the default size, and its header in the log


@dataclass(slots=True)
class WarmUp:
    """How many rounds it took, the pages of each log at the end, and whose log never stopped growing."""

    rounds: int
    pages: dict[str, int]
    growing: list[str]

    def to_figures(self) -> dict[str, object]:
        """Return the published figures."""
        return {"rounds": self.rounds, "log_pages": self.pages, "growing": self.growing}

    def list_notes(self, work: str) -> list[str]:
        """Return a note if the warm-up ended too early for some contestant."""
        if not self.growing:
            return []
        names = ", ".join(self.growing)
        return [f"{work}: the warm-up of {self.rounds} rounds ended while these logs still grew: {names}."]


def count_log_pages(file: Path) -> int:
    """Return how many pages fit into the log of a database file; 0 if it has none."""
    log = file.with_name(f"{file.name}-wal")
    return log.stat().st_size // _PAGE_BYTES if log.exists() else 0


async def fill_logs(
    contestants: Mapping[str, Lap], files: Mapping[str, Path], *, tries: int, max_rounds: int
) -> WarmUp:
    """Let all contestants write until each log has been full and a round has no longer made it grow.

    `files` are the database files of the contestants.
    """
    growing, pages = list(contestants), dict.fromkeys(contestants, 0)
    rounds = 0
    while growing and rounds < max_rounds:
        for lap in contestants.values():
            await lap(tries)
        rounds += 1
        before, pages = pages, {name: count_log_pages(files[name]) for name in contestants}
        growing = [name for name in growing if not _is_reused(before[name], pages[name])]
    return WarmUp(rounds, pages, growing)


def _is_reused(before: int, after: int) -> bool:
    """Whether a log of so many pages before and after a round is written again from the start."""
    return after >= FULL_PAGES and after - before <= _SLACK_PAGES
