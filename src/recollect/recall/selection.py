"""From a ranking to the hits: which rows, which segment of a long message, within which token budget."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from recollect.text.segments import get_segment

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from recollect.messages import Message
    from recollect.recall.index.user_index import UserIndex
    from recollect.recall.ranking import Ranking
    from recollect.recall.results import Hit
    from recollect.recall.settings import RecallSettings

_MAX_SHOWN_WHOLE = 1_200  # characters; a message up to this is shown whole
_MAX_MISSES = 5  # for each reason
_BYTES_PER_TOKEN = 4  # of UTF-8: a rough estimate that needs no tokenizer
_TOKENS_PER_MESSAGE = 12  # for the speaker and the time


@dataclass(slots=True)
class Selection:
    """The rows to show, best first, and the near misses, each with its reason."""

    rows: list[int] = field(default_factory=list[int])
    misses: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


def select(
    index: UserIndex,
    ranking: Ranking,
    settings: RecallSettings,
    exclude: Collection[int],
    *,
    with_misses: bool = False,
) -> Selection:
    """Select the best rows that are relevant enough and not already in the prompt."""
    chosen = Selection()
    reasons: Counter[str] = Counter()
    for row in ranking.order.tolist():
        relevance = float(ranking.relevance[row])
        reason = _find_reason_against(index, row, relevance, settings.threshold or 0, exclude)
        if reason is None and len(chosen.rows) < settings.top_k and index.is_similar(row, chosen.rows):
            reason = "says the same as a message that is shown"
        if reason is None and len(chosen.rows) < settings.top_k:
            chosen.rows.append(row)
        elif not with_misses and reason is None:
            break
        elif with_misses:
            why = reason or f"ranked below the first {settings.top_k}"
            reasons[why] += 1
            if reasons[why] <= _MAX_MISSES:
                chosen.misses.append((row, why))
            elif reason is None:
                break  # the rows after it would only rank below too
    return chosen


def _find_reason_against(
    index: UserIndex, row: int, relevance: float, threshold: float, exclude: Collection[int]
) -> str | None:
    if int(index.numbers[row]) in exclude:
        return "shown already"
    if relevance <= 0:
        return "not relevant"
    return f"less relevant than {threshold:g}" if relevance < threshold else None


def find_excerpt(text: str, segment: int) -> tuple[int, int] | None:
    """Return the place of a segment of a long text, or None for a text that is shown whole."""
    return None if len(text) <= _MAX_SHOWN_WHOLE else get_segment(text, segment)


def cut_to_budget(hits: Iterable[Hit], max_tokens: int) -> tuple[list[Hit], list[Hit]]:
    """Split hits into those that fit the token budget and those that do not.

    The hits take from the budget first, in order; their neighbours share the rest.
    """
    kept: list[Hit] = []
    cut: list[Hit] = []
    left = max_tokens
    for hit in hits:
        cost = _count_tokens(hit.text)
        if cost > left:
            cut.append(hit)
            continue
        left -= cost
        kept.append(hit)
    shown = {hit.message.id for hit in kept}
    for place, hit in enumerate(kept):
        before, left = _take_fitting(hit.before[::-1], left, shown)
        after, left = _take_fitting(hit.after, left, shown)
        kept[place] = replace(hit, before=before[::-1], after=after)
    return kept, cut


def _take_fitting(
    messages: tuple[Message, ...], left: int, shown: set[str]
) -> tuple[tuple[Message, ...], int]:
    """Return the neighbours that fit, nearest first; one that is already shown costs nothing."""
    found: list[Message] = []
    for message in messages:
        cost = 0 if message.id in shown else _count_tokens(message.text)
        if cost > left:
            break
        left -= cost
        shown.add(message.id)
        found.append(message)
    return tuple(found), left


def _count_tokens(text: str) -> int:
    return _TOKENS_PER_MESSAGE + -(-len(text.encode()) // _BYTES_PER_TOKEN)
