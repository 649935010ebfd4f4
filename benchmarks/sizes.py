"""How much a run measures: enough to trust, or just enough to see that it works."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rounds and tries of each part, and the size of the large store.

    Appending warms up for long enough that SQLite's log has reached its final size on both sides: as long
    as the file grows, each commit also waits for the file system's own log.
    """

    rounds: int = 60
    warm_up: int = 20
    tries: int = 40
    writer_rounds: int = 12
    turns_per_writer: int = 40
    import_rounds: int = 15
    large_store: int = 1_000_000

    @property
    def turns(self) -> int:
        """How many turns a contestant may write, the laps before the first round included."""
        return (self.rounds + self.warm_up) * self.tries

    def with_large_store(self, messages: int | None) -> "Sizes":
        """Return the same sizes with another large store, if one is given."""
        return self if messages is None else replace(self, large_store=messages)


QUICK = Sizes(
    rounds=3, warm_up=1, tries=5, writer_rounds=2, turns_per_writer=2, import_rounds=2, large_store=4_000
)
"""For tests: the figures mean little."""
