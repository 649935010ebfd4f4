"""Changes of curated memory that wait for a person's approval, in a JSON file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from recollect.backends.curated.entries import Change, InvalidChange, change_to_json, read_change
from recollect.backends.curated.files import read_file, replace_file
from recollect.errors import StorageCorruptError


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A change that waits for approval, the limit of its file, and the run that asked for it."""

    id: str
    at: str
    run_id: str
    session_id: str
    limit: int
    change: Change


@dataclass(frozen=True, slots=True)
class Queue:
    """The file of pending changes; to write it, the caller must hold the lock of its folder."""

    path: Path

    def read(self) -> tuple[PendingChange, ...]:
        """Return the pending changes, oldest first; raises an error if the file cannot be read."""
        found = read_file(self.path)
        if found is None:
            return ()
        try:
            waiting = tuple(_read_pending(value) for value in _as_list(json.loads(found.data)))
            _encode(waiting)  # JSON can contain a lone surrogate, which cannot be encoded
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise StorageCorruptError(
                f"{self.path} cannot be read as a list of pending changes; repair it or move it away. "
                "Until then no change is accepted"
            ) from None
        return waiting

    def write(self, waiting: Sequence[PendingChange]) -> None:
        """Replace all pending changes."""
        replace_file(self.path, _encode(waiting), read_file(self.path))


def pending_change_to_json(one: PendingChange) -> dict[str, object]:
    """Return a pending change as JSON."""
    return {
        "id": one.id,
        "at": one.at,
        "run_id": one.run_id,
        "session_id": one.session_id,
        "limit": one.limit,
        **change_to_json(one.change),
    }


def _encode(waiting: Sequence[PendingChange]) -> bytes:
    text = json.dumps([pending_change_to_json(one) for one in waiting], ensure_ascii=False, indent=1)
    return text.encode() + b"\n"


def _as_list(value: object) -> list[Mapping[str, object]]:
    if not isinstance(value, list):
        raise TypeError
    return cast("list[Mapping[str, object]]", value)


def _read_pending(value: Mapping[str, object]) -> PendingChange:
    change, limit = read_change(value), value["limit"]
    ids = [value[name] for name in ("id", "at", "run_id", "session_id")]
    if isinstance(change, InvalidChange) or not isinstance(limit, int):
        raise TypeError
    texts = [text for text in ids if isinstance(text, str)]
    return PendingChange(texts[0], texts[1], texts[2], texts[3], limit, change)
