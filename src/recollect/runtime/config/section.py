"""One object of the configuration file, read key by key with errors that say what to do."""

import difflib
from collections.abc import Callable, Collection, Sequence
from typing import cast

from recollect.errors import ConfigError, InvalidArgumentError
from recollect.validation import check_text

_LONGEST_NAME = 100  # of a key that nobody knows, as an error quotes it


class Section:
    """An object in the file: its values by key, typed; what is left over is an error."""

    def __init__(self, values: object, name: str = "") -> None:
        """Take the object under a name; the name of the whole file is empty."""
        if not isinstance(values, dict):
            raise ConfigError(name or "the file", f"must be an object {{ … }}, not {shown(values)}")
        self._values = dict(cast("dict[str, object]", values))
        self._name = name
        self._known: list[str] = []

    def key(self, key: str) -> str:
        """Return a key's whole name, as in memory.gateway.topK."""
        return f"{self._name}.{key}" if self._name else key

    def take(self, key: str, default: object = None) -> object:
        """Return a value as it stands, or the default where it is missing or null."""
        self._known.append(key)
        value = self._values.pop(key, None)
        return default if value is None else value

    def section(self, key: str) -> "Section":
        """Return an object within this one; a missing one is empty."""
        return Section(self.take(key, {}), self.key(key))

    def text(self, key: str, default: str) -> str:
        """Return a text that is not empty."""
        value = self.take(key, default)
        if not isinstance(value, str):
            raise ConfigError(self.key(key), f"must be text, not {shown(value)}")
        try:
            check_text(value, key)
        except InvalidArgumentError as error:
            raise ConfigError(self.key(key), error.problem) from None
        if not value.strip() and value != default:
            raise ConfigError(self.key(key), "must not be empty")
        return value

    def required(self, key: str, why: str) -> str:
        """Return a text that must be there."""
        value = self.text(key, "")
        if not value:
            raise ConfigError(self.key(key), f"is missing or empty; {why}")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise ConfigError(self.key(key), f"must be true or false, not {shown(value)}")
        return value

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        """Return a whole number within bounds."""
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(
                self.key(key), f"must be a whole number from {low} to {high:,}, not {shown(value)}"
            )
        return value

    def positive(self, key: str, default: float, high: float) -> float:
        """Return a number above zero."""
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= high:
            raise ConfigError(
                self.key(key), f"must be a number above 0 and at most {high:,g}, not {shown(value)}"
            )
        return float(value)

    def choice(self, key: str, default: str, allowed: Sequence[str]) -> str:
        """Return one of some words."""
        value = self.take(key, default)
        if value not in allowed:
            raise ConfigError(self.key(key), f"must be {either(allowed)}, not {shown(value)}")
        return cast("str", value)

    def items(self, key: str, read: Callable[[object, str], object]) -> list[object]:
        """Return a list whose items are read one by one, each with its own name for errors."""
        value = self.take(key, [])
        if not isinstance(value, list):
            raise ConfigError(self.key(key), f"must be a list [ … ], not {shown(value)}")
        found = cast("list[object]", value)
        return [read(item, f"{self.key(key)}[{place}]") for place, item in enumerate(found)]

    def rest(self) -> dict[str, object]:
        """Return what nobody has taken yet, and count it as known."""
        rest, self._values = self._values, {}
        return rest

    def end(self) -> None:
        """Refuse keys that nobody has taken, and suggest what they may have been meant to be."""
        for key in self._values:
            raise ConfigError(
                self.key(key[:_LONGEST_NAME]), f"is not a key here; {suggestion(key, self._known)}"
            )


def suggestion(word: str, known: Collection[str]) -> str:
    """Return advice for a word that is not among those known."""
    by_form = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.replace("_", "").casefold(), by_form, 1, 0.6)
    if near:
        return f"did you mean {by_form[near[0]]!r}?"
    return f"known are {', '.join(sorted(known))}"


def camel_case(name: str) -> str:
    """Return a name of Python's as it is written in the file."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def either(words: Sequence[str]) -> str:
    """Return words as alternatives."""
    return " or ".join(f'"{word}"' for word in words)


def shown(value: object) -> str:
    """Return a value as it may be quoted in an error: short, and of objects only what they are."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value!r:.60}"
