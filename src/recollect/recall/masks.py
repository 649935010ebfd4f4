"""Which rows of a user's index a search sees, and which of them it may find, as arrays of booleans.

Ranking takes both masks before it scores, so that messages which are left out do not use up `top_k`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recollect.recall.index.user_index import ThreadKey
from recollect.storage.rows import to_micros

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from recollect.recall.filters import RecallFilter
    from recollect.recall.index.user_index import UserIndex
    from recollect.scope import Scope

    Mask = NDArray[np.bool_]


def select_visible(index: UserIndex, now: datetime, as_of: datetime | None = None) -> Mask | None:
    """Return the rows that have not expired and, if a time is given, were there before it; None means all."""
    visible = index.expires > to_micros(now)
    if as_of is not None:
        visible &= index.times < to_micros(as_of)
    return None if visible.all() else visible


def select_wanted(
    index: UserIndex,
    scope: Scope,
    filters: RecallFilter,
    *,
    without_thread: str | None = None,
    numbers: Sequence[int] | None = None,
) -> Mask | None:
    """Return the rows of the scope's app and project, and of its thread if it has one, that pass the filters.

    `numbers` are the messages with the wanted metadata. None means all rows.
    """
    masks: list[Mask] = []
    in_threads = _select_threads(index, scope, filters, without_thread)
    if in_threads is not None:
        masks.append(in_threads)
    if filters.role is not None:
        masks.append(index.by_assistant == (filters.role == "assistant"))
    if filters.after is not None:
        masks.append(index.times >= to_micros(filters.after))
    if filters.before is not None:
        masks.append(index.times < to_micros(filters.before))
    if numbers is not None:
        masks.append(np.isin(index.numbers, np.array(numbers, dtype=np.int64)))
    return np.logical_and.reduce(masks) if masks else None


def _select_threads(
    index: UserIndex, scope: Scope, filters: RecallFilter, without_thread: str | None
) -> Mask | None:
    place = (scope.app_id, scope.project_id)
    left_out = ThreadKey(*place, without_thread or "")
    named = _name_threads(scope, filters)
    if named is None and left_out not in index.threads and index.projects == {place}:
        return None  # the usual case, decided without a look at every thread
    wanted = [
        code
        for key, code in index.threads.items()
        if key[:2] == place and key != left_out and (named is None or key.thread_id in named)
    ]
    if len(wanted) == len(index.threads):
        return None
    return np.isin(index.thread_of, np.array(wanted, dtype=np.int32))


def _name_threads(scope: Scope, filters: RecallFilter) -> set[str] | None:
    """Return the only threads to search in, or None if they are not named."""
    listed = None if filters.thread_ids is None else set(filters.thread_ids)
    if scope.thread_id is None:
        return listed
    return {scope.thread_id} if listed is None else listed & {scope.thread_id}
