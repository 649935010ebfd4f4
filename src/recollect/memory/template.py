"""Templates: text with `{{fields}}`, or Markdown whose labels are the fields."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from recollect.errors import InvalidArgumentError
from recollect.memory.shape import check_names
from recollect.validation import check_text
from recollect.working_memory.merge import is_blank

_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")
_BULLET = re.compile(r"\s*[-*+]\s+")
_BOLD = re.compile(r"(\*\*|__)(?P<label>(?:(?!\1)[^*:])+)(?::\1|\1\s*:)")
_PLAIN = re.compile(r"(?P<label>[^*:]+):")
_LONGEST = 32 * 1024


class _Slot(NamedTuple):
    field: str


_Piece: TypeAlias = str | _Slot


class Template:
    """A template that was read: text, and the places of its fields."""

    def __init__(self, text: str) -> None:
        """Find the fields; a template without any is an error that says what to write."""
        self._text = check_text(text, "template", max_bytes=_LONGEST)
        self._pieces = _placeholders(text) if _PLACEHOLDER.search(text) else _labels(text)
        names = [piece.field for piece in self._pieces if isinstance(piece, _Slot)]
        if not names:
            raise InvalidArgumentError(
                "template",
                "has no fields; write {{name}} where a value belongs, or labels such as '- **Name**:'",
            )
        self._fields = tuple(dict.fromkeys(names))

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields, in the order of the template."""
        return self._fields

    def render(self, values: Mapping[str, object]) -> str:
        """Return the template with its fields filled in, or nothing where all are empty."""
        shown = {name: values[name] for name in self._fields if name in values}
        if is_blank(shown):
            return ""
        return "".join(
            _shown(shown.get(piece.field, "")) if isinstance(piece, _Slot) else piece
            for piece in self._pieces
        ).strip("\n")

    def describe(self) -> str:
        """Return the template itself and the names of its fields."""
        names = json.dumps(self._fields, ensure_ascii=False)
        return f"The fields are {names}. This is how they are shown:\n{self._text}"

    def checked(self, values: dict[str, object]) -> dict[str, object]:
        """Refuse fields that the template does not have; what is in them is free."""
        check_names(values, self._fields)
        return values


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("\n", "\n  ")  # so that no value looks like a label of its own


def _placeholders(text: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    for place, piece in enumerate(_PLACEHOLDER.split(text)):
        if place % 2 == 0:
            pieces.append(piece)
        elif name := piece.strip():
            pieces.append(_Slot(name))
        else:
            raise InvalidArgumentError("template", "holds {{}} without a name; write {{name}}")
    return pieces


def _labels(text: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    seen: set[str] = set()
    for line in text.splitlines():
        found = _label(line)
        if found is None:
            pieces.append(f"{line}\n")
            continue
        start, name = found
        if name in seen:
            raise InvalidArgumentError("template", f"two labels give the field {name!r}; rename one")
        seen.add(name)
        pieces += [f"{start} ", _Slot(name), "\n"]
    return pieces


def _label(line: str) -> tuple[str, str] | None:
    """Return a line up to the colon of its label, and the label as a name; None if it has no label.

    What stands behind the colon is a hint for whoever fills the field in, and is not shown.
    """
    bullet = _BULLET.match(line)
    start = bullet.end() if bullet else len(line) - len(line.lstrip())
    found = _BOLD.match(line, start) or (_PLAIN.match(line, start) if bullet else None)
    if found is None:
        return None
    name = re.sub(r"\W+", "_", found["label"].casefold()).strip("_")
    return (line[: found.end()], name) if name else None
