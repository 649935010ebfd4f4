"""Files of labelled texts: JSON lines, in which a line that cannot be used is an error that names it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from recollect.errors import InvalidArgumentError

T = TypeVar("T")


def read_rows(path: Path, argument: str, read: Callable[[dict[str, Any]], T], form: str) -> list[T]:
    """Return the rows of a file that an argument names; `read` raises for one that is not of the form."""
    rows: list[T] = []
    # Not at every kind of line break: a text may hold the others as they are.
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(read(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidArgumentError(
                argument, f"line {number} of {path.name} must be a JSON object with {form}"
            ) from error
    if not rows:
        raise InvalidArgumentError(argument, f"{path.name} holds no texts")
    return rows


def kilobytes_of(texts: list[str]) -> float:
    """Return how long texts are together, in thousands of bytes."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts) / 1000
