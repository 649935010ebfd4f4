"""How a change meets what is there: deep, and never so that content is lost by accident.

None deletes a field, a list takes the place of a list, a field that is not mentioned stays. A blank text or
an empty object says nothing: models send them for what they do not know.
"""

import json
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, cast

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
