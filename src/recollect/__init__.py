"""recollect: memory for Python agents that is safe, fast and explainable."""

from typing import TYPE_CHECKING

from recollect._lazy import late_names
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
    MissingExtraError,
    ModelError,
    ModelNotAskableError,
    ModelUnavailableError,
    NewerDatabaseError,
    ProcessorError,
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
from recollect.memory.history import MessageHistoryProcessor, MessagePersistenceProcessor
from recollect.memory.memory import Memory
from recollect.memory.other_threads import OtherThreadsProcessor
from recollect.memory.semantic_recall import SemanticRecallProcessor
from recollect.memory.working_memory import WorkingMemoryProcessor
from recollect.messages import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from recollect.pipeline.context import RunContext, TripWire
from recollect.pipeline.processor import Processor, ProcessorProvider, TextDelta
from recollect.recall.results import Hit, Miss, Recall, Why
from recollect.recall.settings import RecallSettings
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.records import (
    AuditEvent,
    EraseReport,
    MemoryEntry,
    Placement,
    SearchRow,
    StateEntry,
    Thread,
)
from recollect.storage.store import Store
from recollect.trace import Trace, TraceEntry
from recollect.working_memory import WorkingMemory

if TYPE_CHECKING:
    from recollect.backends.base import CompletedRun, MemoryBackend, RecalledItem, Recollection, StartedRun
    from recollect.backends.curated.backend import CuratedMemoryBackend
    from recollect.backends.gateway.backend import MemoryGatewayBackend
    from recollect.backends.gateway.client import GatewaySettings, MemoryGatewayClient
    from recollect.guards.holdback import Span
    from recollect.guards.injection.detector import PromptInjectionDetector
    from recollect.guards.language import LanguageDetector
    from recollect.guards.leaks.scrubber import SystemPromptScrubber
    from recollect.guards.moderation.processor import ModerationProcessor
    from recollect.guards.parallel import Parallel
    from recollect.guards.pii.detector import PIIDetector
    from recollect.guards.pii.presidio import PresidioEngine
    from recollect.guards.spans import SpanGuard
    from recollect.guards.token_limiter import TokenLimiterProcessor
    from recollect.guards.tool_call_filter import ToolCallFilterProcessor
    from recollect.guards.unicode_normalizer import UnicodeNormalizer
    from recollect.runtime.config.settings import RuntimeConfig
    from recollect.runtime.loader import Engine, EngineLoader
    from recollect.runtime.loop import AgentLoop, AgentRunResult
    from recollect.text.tokens import count_tokens

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
    "MissingExtraError",
    "ModelError",
    "ModelNotAskableError",
    "ModelUnavailableError",
    "ModerationProcessor",
    "NewerDatabaseError",
    "OtherThreadsProcessor",
    "PIIDetector",
    "Parallel",
    "Part",
    "Placement",
    "PresidioEngine",
    "Processor",
    "ProcessorError",
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

if not TYPE_CHECKING:  # a checker would take every misspelt name for one of them
    __getattr__ = late_names(__name__)
