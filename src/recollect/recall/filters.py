"""The filters of a search: which messages may be found. Ranking sees the others as neighbours only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, get_args

from recollect.errors import InvalidArgumentError
from recollect.validation import Scalar, check_choice, check_id, check_list, check_scalars, check_time

Speaker: TypeAlias = Literal["user", "assistant"]
"""Whose words are searched."""


@dataclass(frozen=True, slots=True)
class RecallFilter:
    """What every hit of a search must satisfy; None, and no metadata, let every message through.

    `thread_ids` are the threads to search in; an empty list finds nothing. `after` (inclusive) and `before`
    (exclusive) bound the time of a message, `created_at`. `metadata` are values that the message's metadata
    must have, each equal as JSON. With `as_of` the search is made as at that time: messages from then on
    count for nothing, and "last week" is the week before it; what was deleted since stays gone.
    """

    role: Speaker | None = None
    thread_ids: Sequence[str] | None = None
    after: datetime | None = None
    before: datetime | None = None
    metadata: Mapping[str, Scalar] | None = None
    as_of: datetime | None = None

    def __post_init__(self) -> None:
        if self.role is not None:
            check_choice(self.role, "role", get_args(Speaker))
        if self.thread_ids is not None:
            found = [check_id(one, "thread_ids") for one in check_list(self.thread_ids, "thread_ids")]
            object.__setattr__(self, "thread_ids", tuple(found))
        for name in ("after", "before", "as_of"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_time(getattr(self, name), name))
        if self.metadata is not None:
            object.__setattr__(self, "metadata", check_scalars(self.metadata, "metadata"))
        if self.after is not None and self.before is not None and self.after > self.before:
            raise InvalidArgumentError(
                "after",
                f"is {self.after.isoformat()}, later than before={self.before.isoformat()}; swap the two",
            )


NO_FILTER = RecallFilter()
"""Lets every message through."""
