"""Working memory without I/O: its value at one version, and how a change is merged into it.

Merging is deep and never loses content by accident: None deletes a field, a list replaces a list, a field
that is not mentioned stays. A blank text or an empty object says nothing: models send them for what they do
not know.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal, TypeAlias, cast

from recollect.errors import InvalidArgumentError
from recollect.validation import check_json_object, json_text

MAX_BYTES = 64 * 1024
"""The largest working memory as JSON, in bytes of UTF-8: it is shown with every prompt."""

KEPT_VERSIONS = 100
"""How many versions of a working memory are kept to go back to."""


class WorkingMemory(Mapping[str, object]):
    """The fields that are kept about a user or a thread; `memory["name"]` and `memory.name` are the same.

    A field of the template or schema that holds nothing reads as None. A field whose name is also that of an
    attribute or method here (`version`, `items`, …) is read as a key. Version 0 is one that nobody wrote.
    """

    __slots__ = ("_fields", "_values", "run_id", "updated_at", "version")

    def __init__(
        self,
        values: Mapping[str, object] | None = None,
        *,
        version: int = 0,
        updated_at: datetime | None = None,
        run_id: str | None = None,
        fields: Iterable[str] = (),
    ) -> None:
        """Take the values, their version, when and in which run they were written, and all known fields."""
        self._values = dict(values or {})
        self._fields = frozenset(fields)
        self.version = version
        self.updated_at = updated_at
        self.run_id = run_id

    def with_fields(self, fields: Iterable[str]) -> "WorkingMemory":
        """Return the same value that knows which fields there could be."""
        return WorkingMemory(
            self._values,
            version=self.version,
            updated_at=self.updated_at,
            run_id=self.run_id,
            fields=fields,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the fields that hold something."""
        return dict(self._values)

    def __getitem__(self, name: str) -> object:
        """Return a field; one that is known but holds nothing is None."""
        if name in self._values:
            return self._values[name]
        if name in self._fields:
            return None
        raise KeyError(name)

    def __getattr__(self, name: str) -> object:
        """Return a field; one that is known but holds nothing is None."""
        if not name.startswith("__") and name not in WorkingMemory.__slots__:
            try:
                return self[name]
            except KeyError:
                pass
        raise AttributeError(f"working memory has no field {name!r}")

    def get(self, name: str, default: object = None) -> object:
        """Return a field that holds something, or the default."""
        return self._values.get(name, default)

    def __contains__(self, name: object) -> bool:
        """Whether a field holds something."""
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the fields that hold something."""
        return iter(self._values)

    def __len__(self) -> int:
        """Count the fields that hold something."""
        return len(self._values)

    def __repr__(self) -> str:
        """Show the fields and the version."""
        return f"WorkingMemory({self._values!r}, version={self.version})"


def encode(values: object, argument: str) -> str:
    """Write fields as JSON; an error where they are no JSON object or too large to be shown to a model."""
    text = json_text(check_json_object(values, argument), argument)
    size = len(text.encode())
    if size > MAX_BYTES:
        raise InvalidArgumentError(
            argument,
            f"working memory would be {size:,} bytes long; at most {MAX_BYTES:,} are allowed, because it is "
            "shown with every prompt",
        )
    return text


Strategy: TypeAlias = Literal["merge", "replace"]
"""How a change is applied: into what is there, or in its place."""

STRATEGIES: tuple[Strategy, ...] = ("merge", "replace")
"""All strategies."""

Check: TypeAlias = Callable[[dict[str, object]], dict[str, object]]
"""Looks at the fields that a change would alter, and returns them as they may be kept, or raises."""


def applied(
    old: Mapping[str, object], patch: Mapping[str, object], strategy: Strategy, check: Check | None = None
) -> dict[str, object]:
    """Return the fields after a change; a change that says nothing leaves them as they were."""
    new = _merged(old if strategy == "merge" else {}, patch)
    if _says_nothing(patch) or (strategy == "replace" and is_blank(new)):
        return dict(old)
    if check is not None:
        # What is older than the template or schema is not looked at again, or nothing could be changed.
        altered = {name: new[name] for name in patch if name in new and not _is_same(name, old, new)}
        checked = check(altered)
        new = {name: checked.get(name) if name in altered else value for name, value in new.items()}
        new = {name: value for name, value in (new | checked).items() if value is not None}
    return new


def _says_nothing(patch: Mapping[str, object]) -> bool:
    """Whether a change is a form that nobody filled in; an empty list alone says that there is none."""
    is_one_list = len(patch) == 1 and isinstance(next(iter(patch.values())), list)
    return is_blank(patch) and not is_one_list


def is_blank(value: object) -> bool:
    """Whether a value says nothing: blank text, or only blank things in it; None says "delete"."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Mapping):
        return all(is_blank(item) for item in cast("Mapping[str, object]", value).values())
    return isinstance(value, list) and all(is_blank(item) for item in cast("list[object]", value))


def is_padding(patch: Mapping[str, object]) -> bool:
    """Whether a model only filled in a form with nothing: several fields, and none of them has content."""
    return len(patch) > 1 and all(value is None or is_blank(value) for value in patch.values())


def _merged(old: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    result = dict(old)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            _merge_object(result, name, cast("Mapping[str, object]", value))
        elif not isinstance(value, str) or value.strip():
            result[name] = value
    return result


def _merge_object(result: dict[str, object], name: str, value: Mapping[str, object]) -> None:
    present = result.get(name)
    inner = _merged(cast("Mapping[str, object]", present) if isinstance(present, Mapping) else {}, value)
    if inner:
        result[name] = inner
    elif isinstance(present, Mapping):
        del result[name]


def _is_same(name: str, old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    # As JSON, because Python takes 1, 1.0 and True for the same.
    return name in old and json.dumps(old[name]) == json.dumps(new[name])
