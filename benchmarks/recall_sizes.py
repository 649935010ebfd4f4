"""How much the benchmark of recall measures: enough to trust, or just enough to see that it works."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecallSizes:
    """How many messages the searched user has in each store, and how often each part is tried."""

    few: int = 1_000
    usual: int = 10_000
    many: int = 100_000
    others: int = 1_000_000
    rounds: int = 40
    tries: int = 5
    cold_rounds: int = 20
    indexed: int = 128
    index_rounds: int = 10


QUICK = RecallSizes(
    few=100,
    usual=300,
    many=1_000,
    others=1_000,
    rounds=2,
    tries=2,
    cold_rounds=2,
    indexed=4,
    index_rounds=2,
)
"""For tests: the figures mean little."""
