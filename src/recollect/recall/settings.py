"""What a search may be told: how much to find, where, and how much of it to show."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, cast

from recollect.errors import InvalidArgumentError
from recollect.validation import check_int

SearchScope: TypeAlias = Literal["resource", "thread"]
"""Whether all threads of the user are searched, or the run's thread alone."""

DEFAULT_TOP_K = 4
"""How many messages are found where nothing else is said."""

DEFAULT_MAX_TOKENS = 2000
"""About how many tokens all that is shown may have where nothing else is said."""

MOST_HITS = 200
"""How many messages one search can find."""

_MOST_NEIGHBOURS = 20
_LEAST_TOKENS = 50


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """How to search.

    `threshold` is the minimum `relevance` of a hit, from 0 to 1. `message_range` is how many messages before
    and after a hit are shown with it, as one number or as a dict with `before` and `after`. `max_tokens` is
    about how long all that is shown may be.
    """

    top_k: int = DEFAULT_TOP_K
    threshold: float | None = None
    scope: SearchScope = "resource"
    message_range: int | Mapping[str, int] = 1
    max_tokens: int = DEFAULT_MAX_TOKENS

    def __post_init__(self) -> None:
        """Reject settings that make no sense, naming what is allowed."""
        check_int(self.top_k, "top_k", minimum=1, maximum=MOST_HITS)
        check_int(self.max_tokens, "max_tokens", minimum=_LEAST_TOKENS)
        threshold = cast("object", self.threshold)
        is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
        if threshold is not None and not (is_number and 0 <= cast("float", threshold) <= 1):
            raise InvalidArgumentError("threshold", f"must be from 0 to 1, not {threshold!r:.60}")
        if self.scope not in ("resource", "thread"):
            raise InvalidArgumentError("scope", f"must be 'resource' or 'thread', not {self.scope!r:.60}")
        _ = self.before, self.after

    @property
    def before(self) -> int:
        """How many messages before a hit are shown with it."""
        return self._side("before")

    @property
    def after(self) -> int:
        """How many messages after a hit are shown with it."""
        return self._side("after")

    def _side(self, side: str) -> int:
        given = cast("object", self.message_range)
        if isinstance(given, Mapping):
            sides = cast("Mapping[object, object]", given)
            if unknown := sides.keys() - {"before", "after"}:
                raise InvalidArgumentError(
                    "message_range", f"has {min(map(repr, unknown))}; use 'before' and 'after'"
                )
            given = sides.get(side, 0)
        return check_int(cast("int", given), "message_range", maximum=_MOST_NEIGHBOURS)


def recall_settings(given: object) -> RecallSettings | None:
    """Return the settings that a memory was given: True, False, a dict of options, or settings."""
    if given is None or given is False:
        return None
    if given is True:
        return RecallSettings()
    if isinstance(given, RecallSettings):
        return given
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(
            "semantic_recall", f"must be True, False or a dict of options, not {given!r:.60}"
        )
    options = cast("Mapping[str, Any]", given)
    known = {option.name for option in fields(RecallSettings)}
    if unknown := options.keys() - known:
        raise InvalidArgumentError(
            "semantic_recall", f"has no option {min(map(repr, unknown))}; use {', '.join(sorted(known))}"
        )
    return RecallSettings(**options)
