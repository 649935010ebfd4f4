"""recollect: memory for Python agents that is safe, fast and explainable."""

from importlib import import_module
from typing import TYPE_CHECKING

from recollect.agent.agent import Agent
from recollect.agent.result import Event, Result, Usage
from recollect.errors import (
    ConfigError,
    ConflictError,
    EmbedderChangedError,
    EmbedderError,
    EraseIncompleteError,
    InvalidArgumentError,
    InvalidRoleError,
    MemoryGatewayError,
    MemoryNotFoundError,
    ModelError,
    ModelNotAskableError,
    ModelUnavailableError,
    NewerDatabaseError,
    RecollectError,
    StaleChangeError,
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StoreMisuseError,
    WrongOwnerError,
)
from recollect.memory import Memory
from recollect.messages import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from recollect.processors.base import Processor, ProcessorProvider, RunContext, TextDelta, TripWire
from recollect.processors.holdback import Span
from recollect.processors.message_history import MessageHistoryProcessor, MessagePersistenceProcessor
from recollect.processors.other_threads import OtherThreadsProcessor
from recollect.processors.parallel import Parallel
from recollect.processors.semantic_recall import SemanticRecallProcessor
from recollect.processors.spans import SpanGuard
from recollect.processors.working_memory import WorkingMemoryProcessor
from recollect.recall.results import Hit, Miss, Recall, Why
from recollect.recall.settings import RecallSettings
from recollect.scope import Scope
from recollect.storage.base import Store
from recollect.storage.open import open_store
from recollect.storage.records import (
    AuditEvent,
    EraseReport,
    MemoryEntry,
    Placed,
    SearchRow,
    StateEntry,
    Thread,
)
from recollect.trace import Trace, TraceEntry
from recollect.working_memory.value import WorkingMemory

if TYPE_CHECKING:
    from recollect.backends.base import CompletedRun, MemoryBackend, RecalledItem, Recollection, StartedRun
    from recollect.backends.curated.backend import CuratedMemoryBackend
    from recollect.backends.gateway.backend import MemoryGatewayBackend
    from recollect.backends.gateway.client import GatewaySettings, MemoryGatewayClient
    from recollect.backends.secret import Secret
    from recollect.guards.pii.presidio import PresidioEngine
    from recollect.processors.language_detector import LanguageDetector
    from recollect.processors.moderation import ModerationProcessor
    from recollect.processors.pii import PIIDetector
    from recollect.processors.prompt_injection import PromptInjectionDetector
    from recollect.processors.system_prompt_scrubber import SystemPromptScrubber
    from recollect.processors.token_limiter import TokenLimiterProcessor
    from recollect.processors.tool_call_filter import ToolCallFilterProcessor
    from recollect.processors.unicode_normalizer import UnicodeNormalizer
    from recollect.runtime.config import RuntimeConfig
    from recollect.runtime.loader import Engine, EngineLoader
    from recollect.runtime.loop import AgentLoop
    from recollect.runtime.result import AgentRunResult
    from recollect.tokens import count_tokens

# Guards, backends and the runtime load when first used: they have large tables, and most programs need few.
_LATE = {
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
    "recollect.backends.secret": ("Secret",),
    "recollect.guards.pii.presidio": ("PresidioEngine",),
    "recollect.processors.language_detector": ("LanguageDetector",),
    "recollect.processors.moderation": ("ModerationProcessor",),
    "recollect.processors.pii": ("PIIDetector",),
    "recollect.processors.prompt_injection": ("PromptInjectionDetector",),
    "recollect.processors.system_prompt_scrubber": ("SystemPromptScrubber",),
    "recollect.processors.token_limiter": ("TokenLimiterProcessor",),
    "recollect.processors.tool_call_filter": ("ToolCallFilterProcessor",),
    "recollect.processors.unicode_normalizer": ("UnicodeNormalizer",),
    "recollect.runtime.config": ("RuntimeConfig",),
    "recollect.runtime.loader": ("Engine", "EngineLoader"),
    "recollect.runtime.loop": ("AgentLoop",),
    "recollect.runtime.result": ("AgentRunResult",),
    "recollect.tokens": ("count_tokens",),
}

__all__ = [
    "Agent",
    "AgentLoop",
    "AgentRunResult",
    "AuditEvent",
    "CompletedRun",
    "ConfigError",
    "ConflictError",
    "CuratedMemoryBackend",
    "EmbedderChangedError",
    "EmbedderError",
    "Engine",
    "EngineLoader",
    "EraseIncompleteError",
    "EraseReport",
    "Event",
    "FilePart",
    "GatewaySettings",
    "Hit",
    "InvalidArgumentError",
    "InvalidRoleError",
    "LanguageDetector",
    "Memory",
    "MemoryBackend",
    "MemoryEntry",
    "MemoryGatewayBackend",
    "MemoryGatewayClient",
    "MemoryGatewayError",
    "MemoryNotFoundError",
    "Message",
    "MessageHistoryProcessor",
    "MessagePersistenceProcessor",
    "Miss",
    "ModelError",
    "ModelNotAskableError",
    "ModelUnavailableError",
    "ModerationProcessor",
    "NewerDatabaseError",
    "OtherThreadsProcessor",
    "PIIDetector",
    "Parallel",
    "Part",
    "Placed",
    "PresidioEngine",
    "Processor",
    "ProcessorProvider",
    "PromptInjectionDetector",
    "ReasoningPart",
    "Recall",
    "RecallSettings",
    "RecalledItem",
    "RecollectError",
    "Recollection",
    "Result",
    "RunContext",
    "RuntimeConfig",
    "Scope",
    "SearchRow",
    "Secret",
    "SemanticRecallProcessor",
    "Span",
    "SpanGuard",
    "StaleChangeError",
    "StartedRun",
    "StateEntry",
    "StorageBusyError",
    "StorageCorruptError",
    "StorageError",
    "StorageFullError",
    "StorageReadOnlyError",
    "StorageUnavailableError",
    "Store",
    "StoreMisuseError",
    "SystemPromptScrubber",
    "TextDelta",
    "TextPart",
    "Thread",
    "TokenLimiterProcessor",
    "ToolCall",
    "ToolCallFilterProcessor",
    "ToolResult",
    "Trace",
    "TraceEntry",
    "TripWire",
    "UnicodeNormalizer",
    "Usage",
    "Why",
    "WorkingMemory",
    "WorkingMemoryProcessor",
    "WrongOwnerError",
    "count_tokens",
    "open_store",
]

if not TYPE_CHECKING:  # or every misspelt name would pass for one of these

    def __getattr__(name: str) -> object:
        """Return a public name that is loaded late."""
        for module, names in _LATE.items():
            if name in names:
                value = getattr(import_module(module), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
