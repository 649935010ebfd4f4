"""A clock that stands still until it is told to go on."""

from datetime import UTC, datetime, timedelta


class ScriptedClock:
    """Tells a store the time that a test wants it to be."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        """Stand at a time."""
        self.time = start

    def __call__(self) -> datetime:
        """Return the time."""
        return self.time

    def tick(self, seconds: float = 1) -> datetime:
        """Go on and return the new time; a negative number goes back."""
        self.time += timedelta(seconds=seconds)
        return self.time
