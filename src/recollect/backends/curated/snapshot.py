"""What a model is shown of curated memory: both files, frozen, with nothing in them that could steer it."""

from collections.abc import Sequence

from recollect.backends.curated.scan import find_threat
from recollect.backends.curated.text import DELIMITER, Target, usage
from recollect.text.quoting import neutralised

_TITLES: dict[Target, str] = {"memory": "MEMORY (your own notes)", "user": "USER (who the user is)"}


def render(target: Target, entries: Sequence[str], limit: int) -> str:
    """Return one file as a block with a header, for which no line of an entry can pass."""
    if not entries:
        return ""
    lines = ["- " + "\n  ".join(neutralised(text).splitlines()) for text in shown(entries, limit)]
    return "\n".join([f"{_TITLES[target]} [{usage(entries, limit)}]", *lines])


def render_problem(target: Target) -> str:
    """Return what stands in the place of a file that cannot be read."""
    return f"{_TITLES[target]} [cannot be read now; changes are refused until a person has repaired it]"


def shown(entries: Sequence[str], limit: int) -> list[str]:
    """Return entries as a model may see them: what could steer it is named and not quoted.

    What a person wrote beyond the limit is only counted, and not even looked at.
    """
    texts: list[str] = []
    left = limit
    for place, entry in enumerate(entries):
        left -= len(entry)
        if left < 0:
            return [*texts, f"[{len(entries) - place} more do not fit and are not shown]"]
        left -= len(DELIMITER)
        threat = find_threat(entry)
        texts.append(entry if threat is None else f"[blocked: {threat}; a person can remove it]")
    return texts
