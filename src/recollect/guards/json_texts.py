"""The texts in a JSON value, such as a tool's result: found and replaced wherever they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import cast

_NO_NAME = "value"  # of a number that stands under no key: alone, a sum could look like a phone number


def iter_texts(value: object) -> Iterator[str]:
    """Yield every text in a value, keys of objects included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, object]", value).items():
            yield key
            yield from iter_texts(item)
    elif isinstance(value, list | tuple):
        for item in cast("list[object]", value):
            yield from iter_texts(item)


def map_texts(value: object, change: Callable[[str], str]) -> object:
    """Return a value with every text changed; a key that becomes one that is there gets a number."""
    return _map_value(value, lambda item, _: change(item) if isinstance(item, str) else item, "")


def map_named_texts(value: object, change: Callable[[str, str], str]) -> object:
    """Do the same, but call `change` with the key of each text too, and with whole numbers as texts.

    A number that changes becomes a text. Keys stand under nothing.
    """
    return _map_value(value, lambda item, name: _change_item(item, name, change), "")


def _change_item(item: object, name: str, change: Callable[[str, str], str]) -> object:
    if isinstance(item, str):
        return change(item, name)
    text = _format_whole_number(item)
    changed = change(text, name or _NO_NAME) if text else text
    return item if changed == text else changed


def _format_whole_number(item: object) -> str:
    """Return a whole number as its digits; anything else says nothing."""
    if isinstance(item, float) and item.is_integer():
        item = int(item)
    return str(item) if isinstance(item, int) and not isinstance(item, bool) else ""


def _map_value(value: object, change: Callable[[object, str], object], name: str) -> object:
    if isinstance(value, Mapping):
        return _map_object(cast("Mapping[str, object]", value), change)
    if isinstance(value, list | tuple):
        return [_map_value(item, change, name) for item in cast("list[object]", value)]
    return change(value, name)


def _map_object(value: Mapping[str, object], change: Callable[[object, str], object]) -> dict[str, object]:
    result: dict[str, object] = {}
    numbers: dict[str, int] = {}  # the last one given: thousands of keys may become the same
    for key, item in value.items():
        name = changed = cast("str", change(key, ""))
        while name in result or (name != key and name in value):
            numbers[changed] = number = numbers.get(changed, 1) + 1
            name = f"{changed} ({number})"
        result[name] = _map_value(item, change, key)
    return result
