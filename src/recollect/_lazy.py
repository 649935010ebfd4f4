"""Lazy imports of public names: guards and the runtime are large, and most programs need few of them."""

import sys
from collections.abc import Callable
from importlib import import_module

LAZY = {
    "recollect": ("users",),
    "recollect.guards.holdback": ("Span",),
    "recollect.guards.injection.detector": ("PromptInjectionDetector",),
    "recollect.guards.language": ("LanguageDetector",),
    "recollect.guards.leaks.scrubber": ("SystemPromptScrubber",),
    "recollect.guards.moderation.processor": ("ModerationProcessor",),
    "recollect.guards.parallel": ("Parallel",),
    "recollect.guards.pii.detector": ("PIIDetector",),
    "recollect.guards.span_guard": ("SpanGuard",),
    "recollect.guards.token_limiter": ("TokenLimiterProcessor", "count_tokens"),
    "recollect.guards.tool_call_filter": ("ToolCallFilterProcessor",),
    "recollect.guards.unicode_normalizer": ("UnicodeNormalizer",),
    "recollect.recall.embedding.multilingual": ("MultilingualEmbedder",),
    "recollect.runtime.loader": ("EngineLoader",),
}
"""The module of each lazy name; a name of the package itself is a submodule."""


def lazy_attributes(package: str) -> Callable[[str], object]:
    """Return a package's `__getattr__`, which Python calls for names that are not imported yet."""

    def load(name: str) -> object:
        for module, names in LAZY.items():
            if name in names:
                value = _import(module, name, package)
                setattr(sys.modules[package], name, value)
                return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


def _import(module: str, name: str, package: str) -> object:
    if module == package:
        return import_module(f"{package}.{name}")
    return getattr(import_module(module), name)


def public_names(package: str) -> Callable[[], list[str]]:
    """Return a package's `__dir__`: its public names, imported or not."""
    return lambda: sorted(sys.modules[package].__all__)
