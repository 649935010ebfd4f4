"""The configuration of a runtime: typed, complete, and checked before anything is opened.

Objects of the file are read key by key, with errors that say what to do.
"""

import difflib
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from recollect.backends.gateway.client import MOST_RESULTS, GatewaySettings
from recollect.backends.secret import Secret
from recollect.errors import ConfigError, InvalidArgumentError
from recollect.runtime.config.file import FOLDER, UNUSABLE_KEY, ConfigFile, can_be_secret, read_config
from recollect.scope import Scope
from recollect.storage.opening import sqlite_path, sqlite_url
from recollect.validation import check_id, check_tenant, check_text

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


Mode: TypeAlias = Literal["curated", "memory_gateway"]
"""Which long-term memory a runtime has."""

Persist: TypeAlias = Literal["before", "after"]
"""Whether the gateway is told of a turn before the answer is returned, or after."""

LOCAL_USER = "local"
"""The user whose sessions they are in curated mode."""

_STORES = ("sqlite", "postgresql", "postgres")
_USUAL_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,60}")  # of environment variables; keys look otherwise
_LONGEST_TIMEOUT = 3600.0
_MOST_CHARACTERS = 1_000_000
_MOST_CHANGES = 10_000  # each change of memory reads the whole log


@dataclass(frozen=True, slots=True)
class CuratedConfig:
    """Where the curated files lie, how long they and their log may be, and whether a person approves."""

    folder: Path
    memory_limit: int = 2200
    user_limit: int = 1375
    log_limit: int = 1000
    approval: bool = False


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """A guard by its name, its options, and where it stood in the file."""

    name: str
    options: Mapping[str, object]
    key: str


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """All of the file in typed form, with every default filled in."""

    path: Path
    base: Path
    mode: Mode
    curated: CuratedConfig
    gateway: GatewaySettings | None
    store: str = field(repr=False)  # an address may hold a password
    skills: Path
    model: str
    instructions: str
    tools: tuple[str, ...]
    guards: tuple[GuardConfig, ...]
    agent_id: str
    persist: Persist
    last_messages: int
    max_tool_rounds: int
    tenant_id: int | None = None

    @property
    def user_id(self) -> str:
        """Whose sessions they are."""
        return LOCAL_USER if self.gateway is None else self.gateway.user_id

    @property
    def scope(self) -> Scope:
        """Whose sessions they are, with the tenant."""
        return Scope(self.tenant_id, self.user_id)


def load_config(path: str | os.PathLike[str]) -> RuntimeConfig:
    """Read and check the configuration at a path; anything wrong is a `ConfigError` that names the key."""
    file = read_config(path)
    return _config(file, Section(file.data))


def _config(file: ConfigFile, top: Section) -> RuntimeConfig:
    memory = top.section("memory")
    mode = cast("Mode", memory.choice("mode", "curated", get_args(Mode)))
    agent_id = _agent_id(top)
    curated = _curated(memory.section("curated"), file.base)
    settings = memory.section("gateway")
    # In curated mode the other section may stay in the file: it is not looked into, and no key is needed.
    gateway = _gateway(settings, agent_id) if mode == "memory_gateway" else None
    memory.end()
    config = RuntimeConfig(
        path=file.path,
        base=file.base,
        mode=mode,
        curated=curated,
        gateway=gateway,
        store=_store(top, file.base),
        skills=_place(file.base, top.text("skills", f"{FOLDER}/skills")),
        model=top.text("model", "offline"),
        instructions=top.text("instructions", ""),
        tools=tuple(cast("list[str]", top.items("tools", _tool))),
        guards=tuple(cast("list[GuardConfig]", top.items("guards", _guard))),
        agent_id=agent_id,
        persist=cast("Persist", top.choice("persist", "before", get_args(Persist))),
        last_messages=top.whole("lastMessages", 40, 0, 10_000),
        max_tool_rounds=top.whole("maxToolRounds", 10, 1, 1_000),
        tenant_id=_tenant(top.take("tenantId")),
    )
    top.end()
    return config


def _tenant(value: object) -> int | None:
    try:
        return check_tenant(value, "tenantId")
    except InvalidArgumentError as error:
        raise ConfigError("tenantId", error.problem) from None


def _curated(section: Section, base: Path) -> CuratedConfig:
    config = CuratedConfig(
        folder=_place(base, section.text("folder", f"{FOLDER}/memories")),
        memory_limit=section.whole("memoryLimit", 2200, 1, _MOST_CHARACTERS),
        user_limit=section.whole("userLimit", 1375, 1, _MOST_CHARACTERS),
        log_limit=section.whole("logLimit", 1000, 1, _MOST_CHANGES),
        approval=section.flag("approval", default=False),
    )
    section.end()
    return config


def _gateway(section: Section, agent_id: str) -> GatewaySettings:
    scope = section.take("scope", ["current_chat", "resources"])
    values: dict[str, Any] = {
        "base_url": section.required("baseUrl", "it is the gateway's address, as in http://127.0.0.1:8010"),
        "user_id": section.required("userId", "it says whose memory it is"),
        "user_key": _user_key(section),
        "app_id": section.text("appId", "default"),
        "project_id": section.text("projectId", "default"),
        "scope": tuple(cast("list[str]", scope)) if isinstance(scope, list) else scope,
        "top_k": section.whole("topK", 8, 1, MOST_RESULTS),
        "timeout_seconds": section.positive("timeoutSeconds", 10.0, _LONGEST_TIMEOUT),
        "agent_id": agent_id,
    }
    section.end()
    return _settings(values, section)


def _settings(values: dict[str, Any], section: Section) -> GatewaySettings:
    """Make the settings; what they refuse is an error of the file, raised apart from what it was about."""
    try:
        return GatewaySettings(**values)
    except InvalidArgumentError as error:
        key, problem = camel_case(error.argument), error.problem
    values.clear()  # an address may hold a password, and a traceback the variables
    raise ConfigError(section.key(key), problem)


def _agent_id(section: Section) -> str:
    try:
        return check_id(section.text("agentId", "recollect"), "agentId")
    except InvalidArgumentError as error:
        raise ConfigError("agentId", error.problem) from None


def _user_key(section: Section) -> Secret:
    """Return the key from the file or from the environment variable that the file names; never both."""
    given, variable = section.take("userKey"), section.take("userKeyEnv")
    if given is not None and variable is not None:
        raise ConfigError(section.key("userKey"), "is given, and so is userKeyEnv; take one of them out")
    if variable is not None:
        return _from_environment(section, variable)
    if isinstance(given, Secret):
        return given
    problem = (
        "must be text that is not empty and has no line breaks"
        if given is UNUSABLE_KEY
        else "is missing or empty"
    )
    raise ConfigError(
        section.key("userKey"), f"{problem}; write the key there, or the name of a variable to userKeyEnv"
    )


def _from_environment(section: Section, variable: object) -> Secret:
    """Return the key that a variable has; its name is a `Secret` too, because it may be the key itself."""
    if not isinstance(variable, Secret):
        raise ConfigError(section.key("userKeyEnv"), "must be the name of an environment variable")
    if _has_key(variable):
        return Secret(os.environ[variable.reveal()])
    is_usual = _USUAL_NAME.fullmatch(variable.reveal()) is not None
    named = variable.reveal() if is_usual else "(not shown, because it might be the key itself)"
    raise ConfigError(
        section.key("userKeyEnv"),
        f"names the environment variable {named}, which is not set, or no text that can be a key: "
        "empty, or with line breaks",
    )


def _has_key(variable: Secret) -> bool:
    try:
        return can_be_secret(os.environ.get(variable.reveal(), ""))
    except UnicodeEncodeError:  # a name that no variable can have
        return False


def _store(top: Section, base: Path) -> str:
    """Return the store's address; a plain path is a SQLite file."""
    given = top.text("store", f"{FOLDER}/recollect.db")
    if "://" not in given:
        return sqlite_url(_place(base, given))
    scheme = given.partition("://")[0].lower()
    if scheme not in _STORES:
        raise ConfigError("store", "must be a file, or an address as postgresql://user@host/database")
    return _sqlite_store(given, base) if scheme == "sqlite" else given


def _sqlite_store(given: str, base: Path) -> str:
    """Return the address of a file wherever the program is started."""
    try:
        path = sqlite_path(given)
    except InvalidArgumentError as error:
        raise ConfigError("store", error.problem) from None
    return given if path == ":memory:" else sqlite_url(_place(base, path))


def _place(base: Path, given: str) -> Path:
    """Return a path of the file: relative to its folder, or below the user's home."""
    with suppress(RuntimeError):  # a user without a home
        return base / Path(given).expanduser()
    return base / given


def _tool(item: object, key: str) -> str:
    if not isinstance(item, str) or not all(part.strip() for part in item.partition(":")):
        raise ConfigError(key, f'must be "module:function", not {shown(item)}')
    return item


def _guard(item: object, key: str) -> GuardConfig:
    if isinstance(item, str):
        return GuardConfig(item, {}, key)
    section = Section(item, key)
    name = section.required("name", 'it is the guard\'s name, as in {"name": "PIIDetector"}')
    return GuardConfig(name, section.rest(), key)
