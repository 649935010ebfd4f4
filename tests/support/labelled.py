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
    for number, line in enumerate(_text_of(path, argument).split("\n"), 1):
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


def _text_of(path: Path, argument: str) -> str:
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise InvalidArgumentError(
            argument, f"line {number} of {path.name} is not UTF-8: save the file as UTF-8"
        ) from error


def kilobytes_of(texts: list[str]) -> float:
    """Return how long texts are together, in thousands of bytes."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts) / 1000
