"""How items from a remote memory are shown to the model: quoted, labelled, and bounded."""

from collections.abc import Sequence

from recollect.backends.base import RecalledItem
from recollect.messages import TextPart
from recollect.processors.fence import fenced_parts

LABEL = "recalled from the memory gateway"
"""What the block of recalled items is called in the prompt."""

MOST_CHARACTERS = 2_000
"""How much of one item the model is shown."""

MOST_IN_ALL = 24_000
"""How much of all items together the model is shown; what is beyond is left out, the last first."""


def reference_parts(items: Sequence[RecalledItem]) -> list[TextPart]:
    """Return the parts of the reference message, one for each item; nothing for no items."""
    lines: list[str] = []
    left = MOST_IN_ALL
    for item in items:
        line = _line(item)
        if len(line) > left:
            break
        left -= len(line)
        lines.append(line)
    return fenced_parts(LABEL, lines) if lines else []


def _line(item: RecalledItem) -> str:
    text = item.text if len(item.text) <= MOST_CHARACTERS else item.text[:MOST_CHARACTERS] + " …"
    # Indented at every kind of line break, so that no line can pass for another item.
    shown = "\n    ".join(text.splitlines())
    source = item.resource_uri or item.session_id or item.source_scope
    return f"- ({' '.join(source.split())}) {shown}" if source else f"- {shown}"
