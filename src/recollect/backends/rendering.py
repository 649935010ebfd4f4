"""How items from a remote memory are shown to the model: quoted, labelled, and bounded.

Nothing in an item can end the fence, look like another item, hide words that nobody sees, or fill the prompt.
"""

from collections.abc import Sequence
from typing import NamedTuple

from recollect.backends.base import RecalledItem
from recollect.messages import TextPart, frame_parts
from recollect.text.quoting import fenced_parts
from recollect.text.unicode import without_invisible

LABEL = "recalled from the memory gateway"
"""What the block of recalled items is called in the prompt."""

MOST_CHARACTERS = 2_000
"""How much of one item's text the model is shown."""

MOST_IN_ALL = 24_000
"""How much of all items together the model is shown; what is beyond is left out, the last first."""

MOST_ITEMS = 100
"""How many items the model is shown."""

LONGEST_SOURCE = 200
"""How much the model is shown of where an item comes from."""


class ShownItem(NamedTuple):
    """An item as the model is shown it, and as much of it as explains it without quoting it."""

    line: str
    item: RecalledItem

    def facts(self) -> dict[str, object]:
        """Return where it comes from and how well it fits, for the trace."""
        item = self.item
        names = {
            "source_scope": item.source_scope,
            "session_id": item.session_id,
            "resource_uri": item.resource_uri,
            "id": item.id,
        }
        facts: dict[str, object] = {} if item.score is None else {"score": item.score}
        return facts | {key: _bounded(name, LONGEST_SOURCE) for key, name in names.items() if name}


def shown_items(items: Sequence[RecalledItem]) -> list[ShownItem]:
    """Return the items that have something to show, as far as they fit."""
    shown: list[ShownItem] = []
    left = MOST_IN_ALL
    for item in items[:MOST_ITEMS]:
        line = _line(item)
        if len(line) > left:
            break
        left -= len(line)
        if line:
            shown.append(ShownItem(line, item))
    return shown


def as_parts(shown: Sequence[ShownItem]) -> list[TextPart]:
    """Return the parts of the reference message, one for each item between the marks; none for no items."""
    return frame_parts(fenced_parts(LABEL, [item.line for item in shown])) if shown else []


def _line(item: RecalledItem) -> str:
    # Indented at every kind of line break, so that no line can pass for another item.
    text = _bounded(item.text, MOST_CHARACTERS, between="\n    ")
    source = _bounded(item.resource_uri or item.session_id or item.source_scope or "", LONGEST_SOURCE)
    if not text:
        return ""
    return f"- ({source}) {text}" if source else f"- {text}"


def _bounded(text: str, most: int, *, between: str = " ") -> str:
    """Return the visible text of so many characters, its lines joined and empty ones left out."""
    # Much of the beginning may be invisible; what cannot be shown anyway is not looked at.
    beginning = text[: most * 4]
    lines = (line.rstrip() for line in without_invisible(beginning).strip().splitlines())
    shown = between.join(line for line in lines if line)
    is_whole = len(shown) <= most and len(beginning) == len(text)
    return shown if is_whole or not shown else f"{shown[:most].rstrip()} …"
