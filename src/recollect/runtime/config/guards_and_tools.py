"""The parts that a configuration names: guards by their class, tools by where their function lies."""

import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from recollect.backends.secret import Secret
from recollect.errors import ConfigError, InvalidArgumentError
from recollect.guards.injection.detector import PromptInjectionDetector
from recollect.guards.language import LanguageDetector
from recollect.guards.leaks.scrubber import SystemPromptScrubber
from recollect.guards.moderation.processor import ModerationProcessor
from recollect.guards.pii.detector import PIIDetector
from recollect.guards.token_limiter import TokenLimiterProcessor
from recollect.guards.tool_call_filter import ToolCallFilterProcessor
from recollect.guards.unicode_normalizer import UnicodeNormalizer
from recollect.pipeline.processor import Processor
from recollect.runtime.config.settings import GuardConfig, camel_case, either, shown, suggestion

Side: TypeAlias = Literal["input", "output", "both"]
"""Where a guard stands: before the model, behind it, or on both sides."""

_SIDES: tuple[Side, ...] = get_args(Side)

GUARDS: Mapping[str, tuple[Callable[..., Processor], Side]] = {
    "UnicodeNormalizer": (UnicodeNormalizer, "both"),
    "PromptInjectionDetector": (PromptInjectionDetector, "input"),
    "ModerationProcessor": (ModerationProcessor, "both"),
    "PIIDetector": (PIIDetector, "both"),
    "SystemPromptScrubber": (SystemPromptScrubber, "output"),
    "TokenLimiterProcessor": (TokenLimiterProcessor, "output"),
    "ToolCallFilterProcessor": (ToolCallFilterProcessor, "input"),
    "LanguageDetector": (LanguageDetector, "input"),
}
"""The guards that a file can name, and the side each stands on where the file names none."""


class Guards(NamedTuple):
    """The guards of both sides, in the order of the file."""

    input_side: list[Processor]
    output_side: list[Processor]


def make_guards(configs: Sequence[GuardConfig]) -> Guards:
    """Make the guards that a file lists; what their constructors refuse is an error of the file."""
    guards = Guards([], [])
    for config in configs:
        if config.name not in GUARDS:
            raise ConfigError(
                config.key, f"{config.name!r:.60} is not a guard; {suggestion(config.name, GUARDS)}"
            )
        make, usual = GUARDS[config.name]
        options = {_snake(name): _plain(value) for name, value in config.options.items()}
        side = options.pop("side", usual)
        if side not in _SIDES:
            raise ConfigError(f"{config.key}.side", f"must be {either(_SIDES)}, not {shown(side)}")
        _check_options(make, config)
        guard = _made(make, options, config.key)
        if side != "output":
            _put(guards.input_side, guard, config)
        if side != "input":
            _put(guards.output_side, guard, config)
    return guards


def load_tools(names: Sequence[str], base: Path) -> list[Callable[..., object]]:
    """Import the tools that a file names; modules may lie in the folder that the configuration is in."""
    if names and str(base) not in sys.path:
        sys.path.append(str(base))  # at the end: nothing that is installed is hidden by it
    return [_tool(name, f"tools[{place}]") for place, name in enumerate(names)]


def _put(guards: list[Processor], guard: Processor, config: GuardConfig) -> None:
    if any(type(other) is type(guard) for other in guards):
        raise ConfigError(config.key, f"there is a {config.name} on this side already; give one another side")
    guards.append(guard)


def _check_options(make: Callable[..., Processor], config: GuardConfig) -> None:
    known = {camel_case(name): name for name in (*signature(make).parameters, "side")}
    for name in config.options:
        if _snake(name) not in known.values():
            key = f"{config.key}.{name:.60}"
            raise ConfigError(key, f"is no option of {config.name}; {suggestion(name, known)}")


def _made(make: Callable[..., Processor], options: dict[str, Any], key: str) -> Processor:
    try:
        return make(**options)
    except InvalidArgumentError as error:
        raise ConfigError(f"{key}.{camel_case(error.argument)}", error.problem) from None
    except UnicodeError:
        raise ConfigError(key, "has an option that is not valid text") from None
    except TypeError as error:
        # Python's words name the option and no value: "... missing 1 required argument: 'limit'".
        raise ConfigError(key, str(error).partition("() ")[2] or "has options that do not fit") from None


def _tool(name: str, key: str) -> Callable[..., object]:
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(key, f"{module_name!r:.60} cannot be imported: {type(error).__name__}") from error
    tool = getattr(module, attribute, None)
    if not callable(tool) or not hasattr(tool, "__name__"):
        raise ConfigError(key, f"{module_name!r:.60} has no function {attribute!r:.60}")
    return tool


def check_names(names: Sequence[str]) -> None:
    """Refuse two tools of one name; the model could not tell them apart."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ConfigError("tools", f"two tools are called {name!r:.60}; rename one of yours")


def _plain(value: object) -> object:
    return value.reveal() if isinstance(value, Secret) else value


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: "_" + match[0], name).lower()
