"""The configuration of a runtime: typed, complete, and checked before anything is opened.

Each object of the file is a model. Errors name the key and say what to do; none quotes a value, because
people write secrets into the wrong places.
"""

import difflib
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    SecretStr,
    Strict,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, PydanticKnownError

from recollect.backends.gateway.client import GatewayAccess, GatewaySettings, Key, Scopes
from recollect.errors import ConfigError, InvalidArgumentError
from recollect.model_validation import Id, Problem, StrictModel, Text, find_problem
from recollect.runtime.config.file import (
    FOLDER,
    HIDDEN_NAME,
    ConfigFile,
    can_be_secret,
    read_config,
    show_name,
)
from recollect.scope import Scope, TenantId
from recollect.storage.opening import sqlite_path, sqlite_url
from recollect.validation import MAX_INT, check_tenant, check_text

Mode: TypeAlias = Literal["curated", "memory_gateway"]
"""Which long-term memory a runtime has."""

Persist: TypeAlias = Literal["before", "after"]
"""Whether a turn is sent to the gateway before the answer is returned, or after."""

Side: TypeAlias = Literal["input", "output", "both"]
"""Where a guard runs: before the model, after it, or on both sides."""

LOCAL_USER = "local"
"""The user whose sessions they are; they belong to the folder, whichever long-term memory it has."""

_STORE_SCHEMES = ("sqlite", "postgresql", "postgres")
_VARIABLE_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,60}")  # of environment variables; keys look otherwise
_EMPTY_SECTION: Any = {}  # what a section says that is not in the file; its model fills in the rest


def suggest(word: str, known: Collection[str]) -> str:
    """Return advice for a word that is not among those known."""
    by_form = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.replace("_", "").casefold(), by_form, 1, 0.6)
    if near:
        return f"did you mean {by_form[near[0]]!r}?"
    return f"known are {', '.join(sorted(known))}"


class Section(StrictModel):
    """An object in the file. Its keys are camelCase; null counts as if the key were not there."""

    model_config = ConfigDict(alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        given = cast("dict[str, object]", data)
        fields = {info.alias or name: info for name, info in cls.model_fields.items()}
        if cls.model_config.get("extra") == "forbid":
            for key in [key for key in given if key not in fields]:
                problem = f"is not a key here; {suggest(key, fields)}"
                raise InvalidArgumentError(_show_name(key, given), problem)
        values = cls._prepare(
            {key: given[key] for key in given if given[key] is not None or key not in fields}
        )
        for key, info in fields.items():
            _check_not_empty(key, values.get(key, "" if info.is_required() else info.default), info)
        return values

    @classmethod
    def _prepare(cls, values: dict[str, object]) -> dict[str, object]:
        return values


def _show_name(name: str, given: Mapping[str, object]) -> str:
    secrets = (value.get_secret_value() for value in given.values() if isinstance(value, SecretStr))
    return HIDDEN_NAME if name in secrets else show_name(name)


def _check_not_empty(key: str, value: object, field: FieldInfo) -> None:
    if field.is_required() and value == "":
        raise InvalidArgumentError(key, f"is missing or empty; it is {field.description}")
    if isinstance(value, str) and value != field.default and not value.strip():
        raise InvalidArgumentError(key, "must not be empty")


def _resolve_path(given: object, info: ValidationInfo[ConfigFile]) -> object:
    """Return a path of the file: relative to its folder, or below the user's home."""
    if not isinstance(given, str | Path):
        return given
    path = Path(check_text(str(given), ""))
    with suppress(RuntimeError):  # a user without a home
        path = path.expanduser()
    return info.context.base / path


def _resolve_store(given: str, info: ValidationInfo[ConfigFile]) -> str:
    """Return the store's URL; a plain path is a SQLite file, the same wherever the program is started."""
    scheme, separator, _ = given.partition("://")
    if separator and scheme.lower() not in _STORE_SCHEMES:
        raise InvalidArgumentError("", "must be a file, or a URL such as postgresql://user@host/database")
    if separator and scheme.lower() != "sqlite":
        return given
    try:
        path = sqlite_path(given) if separator else given
    except InvalidArgumentError as error:
        raise InvalidArgumentError("", error.problem) from None
    return given if separator and path == ":memory:" else sqlite_url(cast("Path", _resolve_path(path, info)))


def _check_tool(name: str) -> str:
    if not all(part.strip() for part in name.partition(":")):
        raise InvalidArgumentError("", 'must be "module:function"')
    return name


def _check_tenant(given: object) -> TenantId:
    """Return the tenant, with its type; a union of types would add their names to the key in errors."""
    if isinstance(given, bool) or not isinstance(given, int | str | None):
        raise PydanticCustomError("tenant_type", "wrong type")
    if isinstance(given, int) and not 1 <= given <= MAX_INT:  # `check_tenant` would quote it
        kind, bound = ("greater_than_equal", {"ge": 1}) if given < 1 else ("less_than_equal", {"le": MAX_INT})
        raise PydanticKnownError(kind, bound)
    return check_tenant(given, "")


_Folder: TypeAlias = Annotated[Path, BeforeValidator(_resolve_path)]
_Characters: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]


class CuratedConfig(Section):
    """Where the curated files lie, how long they and their log may be, and whether a person approves."""

    folder: _Folder = Path(FOLDER, "memories")
    memory_limit: _Characters = 2200
    user_limit: _Characters = 1375
    log_limit: Annotated[int, Field(ge=1, le=10_000)] = 1000  # each change of memory reads the whole log
    approval: bool = False


class GatewayConfig(GatewayAccess, Section):
    """How the gateway is reached; the key comes from the file, or from a variable that the file names."""

    user_key: Key = Field(description="the key itself; or name an environment variable in userKeyEnv")
    user_key_env: None = None  # what it names has taken the place of the key by then
    scope: Scopes = ("current_chat", "resources")
    timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 10.0

    @classmethod
    def _prepare(cls, values: dict[str, object]) -> dict[str, object]:
        given, variable = values.get("userKey"), values.pop("userKeyEnv", None)
        if given is not None and variable is not None:
            raise InvalidArgumentError("userKey", "is given, and so is userKeyEnv; take one of them out")
        if variable is not None:
            values["userKey"] = _read_variable(variable)
        elif given is not None and not (isinstance(given, SecretStr) and given):
            raise InvalidArgumentError("userKey", "must be text that is not empty and has no line breaks")
        scope = values.get("scope")
        return values | {"scope": tuple(cast("list[object]", scope))} if isinstance(scope, list) else values


def _read_variable(name: object) -> SecretStr:
    """Return the key that a variable has; its name is out of sight too, because it may be the key itself."""
    if not (isinstance(name, SecretStr) and name):
        raise InvalidArgumentError("userKeyEnv", "must be the name of an environment variable")
    given = name.get_secret_value()
    key = os.environ.get(given, "")
    if can_be_secret(key):
        return SecretStr(key)
    shown = given if _VARIABLE_NAME.fullmatch(given) else "(not shown, because it might be the key itself)"
    raise InvalidArgumentError(
        "userKeyEnv",
        f"names the environment variable {shown}, which is not set, or no text that can be a key: "
        "empty, or with line breaks",
    )


class MemoryConfig(Section):
    """Which long-term memory there is, and what it needs."""

    mode: Mode = "curated"
    curated: CuratedConfig = Field(default=_EMPTY_SECTION)
    gateway: GatewayConfig | None = None

    @classmethod
    def _prepare(cls, values: dict[str, object]) -> dict[str, object]:
        if values.get("mode") == "memory_gateway":
            return {"gateway": _EMPTY_SECTION} | values
        # In curated mode the other section may stay in the file: it is not looked into, and no key is needed.
        return {
            name: value for name, value in values.items() if name != "gateway" or not isinstance(value, dict)
        }


class GuardConfig(Section):
    """A guard by its name, and its options."""

    model_config = ConfigDict(extra="allow")

    name: Text = Field(description='the guard\'s name, as in {"name": "PIIDetector"}')
    side: Side | None = None

    @model_validator(mode="before")
    @classmethod
    def _take_name(cls, data: object) -> object:
        return {"name": data} if isinstance(data, str) else data

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return []  # an option may be a secret

    @property
    def options(self) -> Mapping[str, object]:
        """What the file says beside name and side."""
        return self.model_extra or {}


class RuntimeConfig(Section):
    """All of the file in typed form, with every default filled in."""

    memory: MemoryConfig = Field(default=_EMPTY_SECTION)
    store: Annotated[Text, AfterValidator(_resolve_store)] = Field(
        default=f"{FOLDER}/recollect.db", repr=False
    )  # a URL may hold a password
    skills: _Folder = Path(FOLDER, "skills")
    model: Text = "offline"
    instructions: Text = ""
    tools: Annotated[tuple[Annotated[str, AfterValidator(_check_tool)], ...], Strict(strict=False)] = ()
    guards: Annotated[tuple[GuardConfig, ...], Strict(strict=False)] = ()
    agent_id: Id = "recollect"
    tenant_id: Annotated[TenantId, PlainValidator(_check_tenant)] = None
    halted_modes: Annotated[tuple[Id, ...], Strict(strict=False)] = ()
    persist: Persist = "before"
    last_messages: Annotated[int, Field(ge=0, le=10_000)] = 40
    max_tool_rounds: Annotated[int, Field(ge=1, le=1_000)] = 10
    _file: ConfigFile = PrivateAttr()

    def model_post_init(self, context: ConfigFile, /) -> None:
        """Keep the file's path."""
        self._file = context

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def base(self) -> Path:
        """Where relative paths begin."""
        return self._file.base

    @property
    def mode(self) -> Mode:
        """Which long-term memory there is."""
        return self.memory.mode

    @property
    def curated(self) -> CuratedConfig:
        """What curated memory needs."""
        return self.memory.curated

    @property
    def gateway(self) -> GatewaySettings | None:
        """What the gateway needs, in gateway mode."""
        access = self.memory.gateway
        if access is None:
            return None
        values = {name: getattr(access, name) for name in GatewayAccess.model_fields}
        return GatewaySettings(**values, agent_id=self.agent_id)

    @property
    def user_id(self) -> str:
        """The user as long-term memory knows them."""
        return LOCAL_USER if self.memory.gateway is None else self.memory.gateway.user_id

    @property
    def scope(self) -> Scope:
        """Whose sessions they are, in every mode."""
        return Scope(self.tenant_id, LOCAL_USER)


def load_config(path: str | os.PathLike[str]) -> RuntimeConfig:
    """Read and check the configuration at a path; anything wrong is a `ConfigError` that names the key."""
    outcome = _validate(read_config(path))
    if isinstance(outcome, Problem):
        raise ConfigError(*outcome)
    return outcome


def _validate(file: ConfigFile) -> RuntimeConfig | Problem:
    """Raise nothing: an error would hold on to what it was about."""
    try:
        return RuntimeConfig.model_validate(file.data, context=file)
    except ValidationError as error:
        return find_problem(error)
