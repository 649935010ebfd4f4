"""How much each benchmark measures: enough to trust, or with `--quick` just enough to see that it works."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class StoreSizes:
    """Rounds and tries of each part, and the sizes of the stores.

    Appending to SQLite warms up until every log has stopped growing, at most `max_warm_up` rounds.
    `quiet_seconds` is how long durable work waits at most for the machine to become quiet.
    """

    rounds: int = 60
    max_warm_up: int = 60
    postgres_warm_up: int = 20
    tries: int = 40
    quiet_seconds: int = 60
    writer_rounds: int = 12
    max_writer_warm_up: int = 6
    turns_per_writer: int = 40
    import_rounds: int = 15
    measured_threads: int = 200
    messages_per_thread: int = 100
    recalled_turns: int = 1_000
    large_store: int = 1_000_000

    @property
    def sqlite_turns(self) -> int:
        """How many turns a contestant on SQLite may write, including the longest warm-up."""
        return (self.rounds + self.max_warm_up) * self.tries

    @property
    def postgres_turns(self) -> int:
        """How many turns a contestant on PostgreSQL writes, including the warm-up."""
        return (self.rounds + self.postgres_warm_up) * self.tries

    def with_large_store(self, messages: int | None) -> "StoreSizes":
        """Return the same sizes with another size of the large store, if given."""
        return self if messages is None else replace(self, large_store=messages)


@dataclass(frozen=True, slots=True)
class TurnSizes:
    """Rounds and tries of each part, and the lengths of the streams whose memory use is compared."""

    rounds: int = 60
    warm_up: int = 10
    tries: int = 20
    stream_rounds: int = 60
    stream_tries: int = 3
    short_stream: int = 1_000
    long_stream: int = 100_000


@dataclass(frozen=True, slots=True)
class RecallSizes:
    """How many messages the searched user has in each store, and how often each part is tried.

    `large` is 0 where no very large user is measured.
    """

    few: int = 1_000
    usual: int = 10_000
    many: int = 100_000
    others: int = 1_000_000
    rounds: int = 40
    tries: int = 5
    cold_rounds: int = 20
    indexed: int = 128
    index_rounds: int = 10
    large: int = 0


@dataclass(frozen=True, slots=True)
class RuntimeSizes:
    """Rounds and tries of the race."""

    rounds: int = 40
    warm_up: int = 5
    tries: int = 10


QUICK_STORE = StoreSizes(
    rounds=3,
    max_warm_up=2,
    postgres_warm_up=1,
    tries=5,
    quiet_seconds=0,
    writer_rounds=2,
    max_writer_warm_up=1,
    turns_per_writer=2,
    import_rounds=2,
    measured_threads=20,
    messages_per_thread=20,
    recalled_turns=20,
    large_store=4_000,
)
QUICK_TURN = TurnSizes(
    rounds=3, warm_up=1, tries=5, stream_rounds=2, stream_tries=1, short_stream=100, long_stream=1_000
)
QUICK_RECALL = RecallSizes(
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
QUICK_RUNTIME = RuntimeSizes(rounds=2, warm_up=1, tries=2)
