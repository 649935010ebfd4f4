"""Working memory without I/O: its value at one version, and how a patch is merged into it.

Merging is deep. None deletes a field, a list replaces a list, and a field that the patch does not name stays.
Blank text and empty objects change nothing: models send them for what they do not know. For example

    {"name": "Ann", "home": {"city": "Rome", "zip": "00100"}, "age": 30}
    merged with {"name": "", "home": {"zip": None, "street": "Via Appia"}, "age": 31}
    gives {"name": "Ann", "home": {"city": "Rome", "street": "Via Appia"}, "age": 31}
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal, TypeAlias, cast

from recollect.errors import InvalidArgumentError
from recollect.validation import check_json_object, encode_json

MAX_BYTES = 64 * 1024
"""The maximum size of a working memory as JSON, in bytes of UTF-8: every prompt contains it."""

MAX_VERSIONS = 100
"""How many versions of a working memory the store keeps."""


class WorkingMemory(Mapping[str, object]):
    """The fields stored about a user or a thread; `memory["name"]` and `memory.name` are the same.

    An empty field of the template or schema reads as None. A field that shares its name with an attribute or
    method of this class (`version`, `items`, …) can only be read as a key. Version 0 was never written.
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
        self._values = dict(values or {})
        self._fields = frozenset(fields)
        self.version = version
        self.updated_at = updated_at
        self.run_id = run_id

    def with_fields(self, fields: Iterable[str]) -> "WorkingMemory":
        """Return a copy that reads these fields as None where they are empty."""
        return WorkingMemory(
            self._values,
            version=self.version,
            updated_at=self.updated_at,
            run_id=self.run_id,
            fields=fields,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the fields that have a value."""
        return dict(self._values)

    def __getitem__(self, name: str) -> object:
        if name in self._values:
            return self._values[name]
        if name in self._fields:
            return None
        raise KeyError(name)

    def __getattr__(self, name: str) -> object:
        if not name.startswith("__") and name not in WorkingMemory.__slots__:
            try:
                return self[name]
            except KeyError:
                pass
        raise AttributeError(f"working memory has no field {name!r}")

    def get(self, name: str, default: object = None) -> object:
        """Return a field that has a value, or the default, also for a field that `[]` reads as None."""
        return self._values.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"WorkingMemory({self._values!r}, version={self.version})"


def encode_fields(values: object, argument: str) -> str:
    """Encode fields as JSON; raise where they are not a JSON object or exceed `MAX_BYTES`."""
    text = encode_json(check_json_object(values, argument), argument)
    size = len(text.encode())
    if size > MAX_BYTES:
        raise InvalidArgumentError(
            argument,
            f"working memory would be {size:,} bytes long; at most {MAX_BYTES:,} are allowed, because every "
            "prompt contains it",
        )
    return text


Strategy: TypeAlias = Literal["merge", "replace"]
"""How a patch is applied: merged into the present fields, or in their place."""

STRATEGIES: tuple[Strategy, ...] = ("merge", "replace")
"""All values of `Strategy`."""

Check: TypeAlias = Callable[[dict[str, object]], dict[str, object]]
"""Takes the fields that a patch would alter, and returns them as they may be stored, or raises."""


def apply_patch(
    old: Mapping[str, object], patch: Mapping[str, object], strategy: Strategy, check: Check | None = None
) -> dict[str, object]:
    """Return the fields after a patch; an empty patch leaves them as they were."""
    new = _merge(old if strategy == "merge" else {}, patch)
    if _is_empty_patch(patch) or (strategy == "replace" and is_blank(new)):
        return dict(old)
    if check is not None:
        # Only altered fields: values older than the template or schema may no longer fit it.
        altered = {name: new[name] for name in patch if name in new and not _is_same(name, old, new)}
        checked = check(altered)
        new = {name: checked.get(name) if name in altered else value for name, value in new.items()}
        new = {name: value for name, value in (new | checked).items() if value is not None}
    return new


def _is_empty_patch(patch: Mapping[str, object]) -> bool:
    # A single empty list has a meaning: it replaces the old list by none.
    is_one_list = len(patch) == 1 and isinstance(next(iter(patch.values())), list)
    return is_blank(patch) and not is_one_list


def is_blank(value: object) -> bool:
    """Whether a value is blank text or contains only blank values; None is not blank, it deletes."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Mapping):
        return all(is_blank(item) for item in cast("Mapping[str, object]", value).values())
    return isinstance(value, list) and all(is_blank(item) for item in cast("list[object]", value))


def is_padding(patch: Mapping[str, object]) -> bool:
    """Whether a model sent back an empty form: several fields, none of them with content."""
    return len(patch) > 1 and all(value is None or is_blank(value) for value in patch.values())


def _merge(old: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
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
    inner = _merge(cast("Mapping[str, object]", present) if isinstance(present, Mapping) else {}, value)
    if inner:
        result[name] = inner
    elif isinstance(present, Mapping):
        del result[name]


def _is_same(name: str, old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    # As JSON, because in Python 1, 1.0 and True are equal.
    return name in old and json.dumps(old[name]) == json.dumps(new[name])
