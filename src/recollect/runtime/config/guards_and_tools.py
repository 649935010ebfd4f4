"""Makes the guards and loads the tools that a configuration names."""

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import NamedTuple, cast

from pydantic import SecretStr
from pydantic.alias_generators import to_camel, to_snake

from recollect.errors import ConfigError, InvalidArgumentError
from recollect.guards.injection.detector import PromptInjectionDetector
from recollect.guards.language import LanguageDetector
from recollect.guards.leaks.scrubber import SystemPromptScrubber
from recollect.guards.moderation.processor import ModerationProcessor
from recollect.guards.pii.detector import PIIDetector
from recollect.guards.token_limiter import TokenLimiterProcessor
from recollect.guards.tool_call_filter import ToolCallFilterProcessor
from recollect.guards.unicode_normalizer import UnicodeNormalizer
from recollect.model_validation import Problem
from recollect.pipeline.processor import Processor
from recollect.runtime.config.settings import GuardConfig, Side, suggest
from recollect.validation import check_id

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
"""The guards that a file can name, and the default side of each."""


class Guards(NamedTuple):
    """The guards of both sides, in the order of the file."""

    input_side: list[Processor]
    output_side: list[Processor]


def make_guards(configs: Sequence[GuardConfig]) -> Guards:
    """Make the guards that a file lists; what a constructor rejects is a `ConfigError`."""
    guards = Guards([], [])
    for place, config in enumerate(configs):
        key = f"guards[{place}]"
        if config.name not in GUARDS:
            raise ConfigError(key, f"is not the name of a guard; {suggest(config.name, GUARDS)}")
        make, usual = GUARDS[config.name]
        _check_options(make, config, key)
        guard = _make_guard(make, config.options, key)
        if isinstance(guard, Problem):
            raise ConfigError(*guard)
        side = config.side or usual
        if side != "output":
            _add_guard(guards.input_side, guard, key)
        if side != "input":
            _add_guard(guards.output_side, guard, key)
    return guards


def load_tools(names: Sequence[str], base: Path) -> list[Callable[..., object]]:
    """Import the tools that a file names; modules may lie in the folder that the configuration is in."""
    if names and str(base) not in sys.path:
        sys.path.append(str(base))  # at the end: nothing that is installed is hidden by it
    return [_load_tool(name, f"tools[{place}]") for place, name in enumerate(names)]


def _add_guard(guards: list[Processor], guard: Processor, key: str) -> None:
    if any(type(other) is type(guard) for other in guards):
        name = type(guard).__name__
        raise ConfigError(key, f"there is a {name} on this side already; give one another side")
    guards.append(guard)


def _check_options(make: Callable[..., Processor], config: GuardConfig, key: str) -> None:
    known = {to_camel(name): name for name in (*signature(make).parameters, "side")}
    for name in config.options:
        if to_snake(name) not in known.values():
            problem = f"is no option of {config.name}; {suggest(name, known)}"
            raise ConfigError(f"{key}.{name:.60}", problem)


def _make_guard(
    make: Callable[..., Processor], options: Mapping[str, object], key: str
) -> Processor | Problem:
    """Raise nothing: an error would hold on to the options."""
    values = {to_snake(name): _reveal(value) for name, value in options.items()}
    try:
        check_id(values.get("id", "its own"), "id")
        return make(**values)
    except InvalidArgumentError as error:
        return Problem(f"{key}.{to_camel(error.argument)}", _redact_values(error.problem, options))
    except UnicodeError:
        return Problem(key, "has an option that is not valid text")
    except TypeError as error:
        # Python's words name the option and no value.
        return Problem(key, str(error).partition("() ")[2] or "has options that do not fit")


def _redact_values(problem: str, value: object) -> str:
    """Take out what a guard's own error quotes of its options: people write secrets into wrong places."""
    shown = f"{_reveal(value)!r:.60}"
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value).values()
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    for item in inner:
        problem = _redact_values(problem, item)
    is_word = value is None or isinstance(value, bool)
    return problem if is_word else re.sub(rf"(?<!\w){re.escape(shown)}(?!\w)", "…", problem)


def _load_tool(name: str, key: str) -> Callable[..., object]:
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(key, f"names a module that cannot be imported: {type(error).__name__}") from error
    tool = getattr(module, attribute, None)
    if not callable(tool) or not hasattr(tool, "__name__"):
        raise ConfigError(key, "names a module that has no function of this name")
    return tool


def check_names(names: Sequence[str]) -> None:
    """Reject two tools of the same name; the model could not tell them apart."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ConfigError("tools", f"two tools are called {name!r:.60}; rename one of yours")


def _reveal(value: object) -> object:
    return value.get_secret_value() if isinstance(value, SecretStr) else value
