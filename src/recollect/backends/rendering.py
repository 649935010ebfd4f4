"""How items from a remote memory are shown to the model: quoted, labelled, and bounded.

Nothing in an item can end the fence, look like another item, hide words that nobody sees, or fill the prompt.
"""

from collections.abc import Sequence

from recollect.backends.base import RecalledItem
from recollect.guards.text.invisible import without_invisible
from recollect.messages import TextPart
from recollect.processors.fence import fenced_parts

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


def reference_parts(items: Sequence[RecalledItem]) -> list[TextPart]:
    """Return the parts of the reference message, one for each item that has something to show.

    Nothing is returned for no items.
    """
    lines: list[str] = []
    left = MOST_IN_ALL
    for item in items[:MOST_ITEMS]:
        line = _line(item)
        if len(line) > left:
            break
        left -= len(line)
        if line:
            lines.append(line)
    return fenced_parts(LABEL, lines) if lines else []


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
