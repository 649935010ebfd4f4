"""The settings of a search: how many hits, from where, and how much text to show."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, cast, get_args

from recollect.errors import InvalidArgumentError
from recollect.validation import check_choice, check_int, check_share

SearchScope: TypeAlias = Literal["resource", "thread"]
"""Search all threads of the user, or only the current thread."""

DEFAULT_TOP_K = 4
"""The default number of hits."""

DEFAULT_THRESHOLD = 0.12
"""The default minimum relevance of a hit: of a hundred messages that answer a question, one is below it."""

DEFAULT_MAX_TOKENS = 2000
"""The default token budget of the recalled text, approximately."""

MAX_HITS = 200
"""The maximum number of hits of one search."""

_MAX_NEIGHBOURS = 20
_MIN_TOKENS = 50


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """The options of a search.

    `threshold` is the minimum `relevance` of a hit, from 0 to 1 (None: 0). `message_range` is how many
    messages before and after a hit are shown with it, as one number or as a dict with `before` and `after`.
    `max_tokens` is the approximate budget for hits and neighbours together.
    """

    top_k: int = DEFAULT_TOP_K
    threshold: float | None = DEFAULT_THRESHOLD
    scope: SearchScope = "resource"
    message_range: int | Mapping[str, int] = 1
    max_tokens: int = DEFAULT_MAX_TOKENS

    def __post_init__(self) -> None:
        check_int(self.top_k, "top_k", minimum=1, maximum=MAX_HITS)
        check_int(self.max_tokens, "max_tokens", minimum=_MIN_TOKENS)
        if self.threshold is not None:
            check_share(self.threshold, "threshold")
        check_choice(self.scope, "scope", get_args(SearchScope))
        _ = self.before, self.after  # they check `message_range`

    @property
    def before(self) -> int:
        """How many messages before a hit are shown with it."""
        return self._read_side("before")

    @property
    def after(self) -> int:
        """How many messages after a hit are shown with it."""
        return self._read_side("after")

    def _read_side(self, side: str) -> int:
        given = cast("object", self.message_range)
        if isinstance(given, Mapping):
            sides = cast("Mapping[object, object]", given)
            if unknown := sides.keys() - {"before", "after"}:
                raise InvalidArgumentError(
                    "message_range", f"has no option {min(map(repr, unknown))}; use 'before' and 'after'"
                )
            given = sides.get(side, 0)
        return check_int(cast("int", given), "message_range", maximum=_MAX_NEIGHBOURS)


def parse_recall_settings(given: object) -> RecallSettings | None:
    """Read `Memory(semantic_recall=…)`: True, False, a dict of options, or `RecallSettings`."""
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
