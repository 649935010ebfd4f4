"""The form of a curated file: entries with a line of one sign between them.

A file is only changed if it is exactly what we would have written, so that nothing a person wrote is lost.
Three things are tolerated and kept: a byte order mark, line breaks at the end, and nothing but whitespace,
which is an empty file.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

Target: TypeAlias = Literal["memory", "user"]
"""Which of the two files: the agent's own notes, or what it knows about the user."""

TARGETS: tuple[Target, ...] = get_args(Target)
"""Both targets."""

FILE_NAMES: Mapping[Target, str] = {"memory": "MEMORY.md", "user": "USER.md"}
"""The file of each target."""

LIMITS: Mapping[Target, int] = {"memory": 2200, "user": 1375}
"""How many characters each file may have if nothing else is said, delimiters included."""

SIGN = "§"
"""The sign that stands alone on the line between two entries."""

DELIMITER = f"\n{SIGN}\n"
"""What stands between two entries."""

_MARK = "\ufeff"


class Parsed(NamedTuple):
    """What a file holds; `problem` says why it must not be written, if so."""

    entries: tuple[str, ...] = ()
    start: str = ""
    ending: str = ""
    problem: str | None = None


def parse(text: str) -> Parsed:
    """Read a file's text; the entries are there even if the file may not be written."""
    start = _MARK if text.startswith(_MARK) else ""
    body = text.removeprefix(start)
    kept = body.rstrip("\n")
    ending = body[len(kept) :]
    if not body.strip():
        return Parsed((), start, ending)
    entries = tuple(filter(None, (piece.strip() for piece in kept.split(DELIMITER))))
    return Parsed(entries, start, ending, _problem(entries, kept))


def serialise(entries: Sequence[str], start: str = "", ending: str = "") -> str:
    """Return the text of a file."""
    return f"{start}{DELIMITER.join(entries)}{ending}"


def length(entries: Sequence[str]) -> int:
    """Return how many characters count against the limit."""
    return len(serialise(entries))


def usage(entries: Sequence[str], limit: int) -> str:
    """Say how full a file is."""
    size = length(entries)
    return f"{100 * size // limit}% — {size}/{limit} chars"


def fingerprint(entries: Sequence[str]) -> str:
    """Return what tells two states of a file apart."""
    return hashlib.sha256(serialise(entries).encode()).hexdigest()[:24]


def entry_problem(text: str) -> str | None:
    """Say why a text cannot be an entry of a file, or None."""
    if not text.strip():
        return "is empty"
    if text != text.strip() or text.startswith(_MARK):
        return "begins or ends with whitespace"
    if any(line.strip() == SIGN for line in text.splitlines()):
        return f"has a line with nothing but {SIGN}, which separates entries"
    return None


def _problem(entries: Sequence[str], kept: str) -> str | None:
    problem = _first_problem(entries, kept)
    # They are behind whatever else seems to be wrong, and nobody sees them.
    return "it has Windows line ends" if problem and "\r" in kept else problem


def _first_problem(entries: Sequence[str], kept: str) -> str | None:
    for place, entry in enumerate(entries, 1):
        if problem := entry_problem(entry):
            return f"entry {place} {problem}"
    if serialise(entries) != kept:
        return f"it has empty entries, or blank lines or spaces around a line with {SIGN} or at the start"
    return None
