"""Dropping the oldest changes from the log of curated memory, so that it does not grow without end."""

from collections.abc import Sequence

from recollect.backends.curated.journal import History, Journal, LoggedChange

LOG_LIMIT = 1_000
"""How many of the newest changes the log keeps at least; older ones go when there are twice as many."""

_MOST_BYTES = 32 * 1024 * 1024  # half of what can still be read


def is_too_long(journal: Journal, history: History, limit: int) -> bool:
    """Whether changes should be dropped; that there may be twice as many makes it rare."""
    return len(history.changes) > 2 * limit or journal.size() > _MOST_BYTES


def shorten(journal: Journal, history: History, limit: int) -> None:
    """Drop the oldest changes; hold the lock of the folder."""
    changes = history.changes
    kept = min(limit, len(changes) // 2)  # few that are long are too much as well
    first = _start_of_commit(changes, len(changes) - max(1, kept))
    if first > 0:
        journal.replace(changes[first:], history.known_before(first))


def _start_of_commit(changes: Sequence[LoggedChange], place: int) -> int:
    """Return the last place up to this one at which a write begins: what was made together stays so."""
    while place > 0 and changes[place].commit == changes[place - 1].commit:
        place -= 1
    return place
