"""Public names that load when they are first used.

Guards, backends and the runtime have large tables, and most programs need few of them.
"""

import sys
from collections.abc import Callable
from importlib import import_module

LAZY = {
    "recollect.backends.base": (
        "CompletedRun",
        "MemoryBackend",
        "RecalledItem",
        "Recollection",
        "StartedRun",
    ),
    "recollect.backends.curated.backend": ("CuratedMemoryBackend",),
    "recollect.backends.gateway.backend": ("MemoryGatewayBackend",),
    "recollect.backends.gateway.client": ("GatewaySettings", "MemoryGatewayClient"),
    "recollect.guards.holdback": ("Span",),
    "recollect.guards.injection.detector": ("PromptInjectionDetector",),
    "recollect.guards.language": ("LanguageDetector",),
    "recollect.guards.leaks.scrubber": ("SystemPromptScrubber",),
    "recollect.guards.moderation.processor": ("ModerationProcessor",),
    "recollect.guards.parallel": ("Parallel",),
    "recollect.guards.pii.detector": ("PIIDetector",),
    "recollect.guards.pii.presidio": ("PresidioEngine",),
    "recollect.guards.spans": ("SpanGuard",),
    "recollect.guards.token_limiter": ("TokenLimiterProcessor",),
    "recollect.guards.tool_call_filter": ("ToolCallFilterProcessor",),
    "recollect.guards.unicode_normalizer": ("UnicodeNormalizer",),
    "recollect.runtime.config.settings": ("RuntimeConfig",),
    "recollect.runtime.loader": ("Engine", "EngineLoader"),
    "recollect.runtime.loop": ("AgentLoop", "AgentRunResult"),
    "recollect.text.tokens": ("count_tokens",),
}
"""Where each name comes from."""


def late_names(package: str) -> Callable[[str], object]:
    """Return a package's `__getattr__`, which Python calls for names that are not there yet."""

    def load(name: str) -> object:
        for module, names in LAZY.items():
            if name in names:
                value: object = getattr(import_module(module), name)
                setattr(sys.modules[package], name, value)
                return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
