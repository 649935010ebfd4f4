"""The texts in a JSON value, such as a tool's result: found and replaced wherever they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import cast


def texts_of(value: object) -> Iterator[str]:
    """Yield every text in a value, keys of objects included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, object]", value).items():
            yield key
            yield from texts_of(item)
    elif isinstance(value, list | tuple):
        for item in cast("list[object]", value):
            yield from texts_of(item)


def map_texts(value: object, change: Callable[[str], str]) -> object:
    """Return a value with every text changed; a key that becomes one that is there gets a number."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return _mapped_object(cast("Mapping[str, object]", value), change)
    if isinstance(value, list | tuple):
        return [map_texts(item, change) for item in cast("list[object]", value)]
    return value


def _mapped_object(value: Mapping[str, object], change: Callable[[str], str]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, item in value.items():
        name = changed = change(key)
        number = 1
        while name in result or (name != key and name in value):
            number += 1
            name = f"{changed} ({number})"
        result[name] = map_texts(item, change)
    return result
