"""How recalled messages are shown to a model: dated, grouped, and each once.

What was said earlier in the same conversation stands apart from what was said in others. The fence around it
is made elsewhere; here every line of a message is indented, so that none can pass for a heading or for
somebody else's words.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from recollect.messages import Message
    from recollect.recall.results import Hit

HERE = "Earlier in this conversation:"
ELSEWHERE = "From other conversations with this user:"

_LONGEST_NAME = 60  # names are outside the budget of tokens


class _Line(NamedTuple):
    message: Message
    text: str


def recalled_lines(hits: Iterable[Hit], thread_id: str | None, shown: Collection[str] = ()) -> list[str]:
    """Return the texts to show, one for each heading and message; those with the ids named are left out."""
    found: dict[str, _Line] = {}
    for hit in hits:
        for message in (*hit.before, *hit.after):
            found.setdefault(message.id, _Line(message, message.text))
        found[hit.message.id] = _Line(hit.message, _excerpt(hit))
    lines = sorted(
        (line for line in found.values() if line.message.id not in shown),
        key=lambda line: line.message.number or 0,
    )
    here = [line for line in lines if line.message.thread_id == thread_id]
    elsewhere = [line for line in lines if line.message.thread_id != thread_id]
    return [*_group(HERE, here), *_group(ELSEWHERE, elsewhere)]


def _group(heading: str, lines: list[_Line]) -> list[str]:
    if not lines:
        return []
    shown = [heading]
    by_thread = sorted(lines, key=lambda line: line.message.thread_id or "")  # stable: by number within
    groups = [list(group) for _, group in groupby(by_thread, key=lambda line: line.message.thread_id)]
    for group in sorted(groups, key=lambda group: group[0].message.number or 0):
        for day, said in groupby(group, key=lambda line: f"{line.message.created_at:%A, %d %B %Y}"):
            shown.append(f"On {day}:")
            shown += [_spoken(line) for line in said]
    return shown


def _spoken(line: _Line) -> str:
    name = line.message.metadata.get("name")
    known = " ".join(name[:_LONGEST_NAME].split()) if isinstance(name, str) else ""
    who = f"{known} ({line.message.role})" if known else line.message.role
    text = "\n    ".join(line.text.splitlines())  # at every kind of line break, not at \n alone
    return f"  {line.message.created_at:%H:%M} {who}: {text}"


def _excerpt(hit: Hit) -> str:
    if hit.piece is None:
        return hit.text
    start, end = hit.piece
    return ("… " if start else "") + hit.text + (" …" if end < len(hit.message.text) else "")
