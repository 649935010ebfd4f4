"""Reading the configuration file: found, parsed, and its key locked away before anything can fail.

The text of the file and the raw key live only in functions here that raise nothing, so that no traceback,
not even one that prints variables, can show them.
"""

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

from recollect.errors import ConfigError

FOLDER = ".recollect"
"""The folder of the configuration file."""

FILE = "config.json"
"""The name of the configuration file."""

HIDDEN_NAME = "(not shown: it may be a secret)"
"""Takes the place of a name that looks like a secret."""

_PLAIN_NAME = re.compile(r"[A-Za-z]{1,30}(?:[_.-][A-Za-z]{1,30}){0,3}\d?")  # secrets have digits within
_MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A parsed configuration file; relative paths in it start at `base`."""

    path: Path
    base: Path
    data: dict[str, object] = field(repr=False)


class _Unreadable(NamedTuple):
    problem: str


class _DuplicateKeyError(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def read_config(path: str | os.PathLike[str]) -> ConfigFile:
    """Read the file at a path, or in the folder there; relative paths in it begin beside `.recollect`."""
    found = _find(Path(path))
    outcome = _read(found)
    if isinstance(outcome, _Unreadable):
        raise ConfigError(str(found), outcome.problem)
    folder = found.absolute().parent
    return ConfigFile(found, folder.parent if folder.name == FOLDER else folder, outcome)


def _find(path: Path) -> Path:
    if _is_file(path) or (path.suffix == ".json" and not path.is_dir()):
        candidates = [path]
    elif path.name == FOLDER:
        candidates = [path / FILE]
    else:
        candidates = [path / FOLDER / FILE, path / FILE]
    for candidate in candidates:
        if _is_file(candidate):
            return candidate
    raise ConfigError(
        str(candidates[0]),
        "there is no such file; `recollect init` writes a first one, docs/runtime.md has all its keys",
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long, or a folder that may not be looked into
        return False


def _read(path: Path) -> dict[str, object] | _Unreadable:
    """Return what the file says, or what is wrong with it; the text goes no further."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        return _Unreadable(f"cannot be read: {error.strerror}")
    if len(raw) > _MAX_BYTES:
        return _Unreadable(f"is larger than {_MAX_BYTES:,} bytes, which no configuration is")
    return _parse(raw)


def _parse(raw: bytes) -> dict[str, object] | _Unreadable:
    try:
        data = _lock_secrets(json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_reject_duplicates))
    except (ValueError, RecursionError) as error:
        return _Unreadable(_describe_error(error))
    if not isinstance(data, dict):
        return _Unreadable("must hold a JSON object: { … }")
    return cast("dict[str, object]", data)


def _describe_error(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "is not text in UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
    if isinstance(error, _DuplicateKeyError):
        return f"has the key {show_name(error.key)!r} twice in one place"
    return "is not JSON that can be read: too deep, or with a number too long"


def _reject_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKeyError(key)
        found[key] = value
    return found


def _lock_secrets(value: object, key: str = "") -> object:
    """Put every text whose key looks like that of a secret into a `SecretStr`, also where it is misspelt.

    A key that cannot be one, as a number or one with line breaks, becomes an empty one.
    """
    from pydantic import SecretStr

    if isinstance(value, dict):
        items = cast("dict[str, object]", value)
        return {
            name: _lock_secrets(item, key if _is_secret_name(key) else name) for name, item in items.items()
        }
    if isinstance(value, list):
        return [_lock_secrets(item, key) for item in cast("list[object]", value)]
    if _is_secret_name(key) and value is not None:
        return SecretStr(value if isinstance(value, str) and can_be_secret(value) else "")
    return value


def _is_secret_name(name: str) -> bool:
    letters = "".join(character for character in name.casefold() if character.isalnum())
    # The name of a variable counts too: people write the key itself in its place.
    return letters.endswith(("key", "keyenv")) or "secret" in letters or "password" in letters


def show_name(name: str) -> str:
    """Return the name of an unknown key as errors may quote it: it may be a secret in a wrong place."""
    return name if _PLAIN_NAME.fullmatch(name) else HIDDEN_NAME


def can_be_secret(text: str) -> bool:
    """Whether a text can be a key: it says something, and nothing that no request could carry."""
    return bool(text.strip()) and text.isprintable()
