"""recollect: memory for Python agents that is safe, fast and explainable."""

from typing import TYPE_CHECKING

from recollect._lazy import lazy_attributes, public_names
from recollect._version import __version__
from recollect.agent.agent import Agent
from recollect.agent.result import Event, Result
from recollect.errors import (
    ConfigError,
    ConflictError,
    EmbedderError,
    InvalidArgumentError,
    MemoryGatewayError,
    MemoryNotFoundError,
    MissingExtraError,
    ModelError,
    ModelUnavailableError,
    ProcessorError,
    RecollectError,
    StorageError,
)
from recollect.memory.history import MessageHistoryProcessor, MessagePersistenceProcessor
from recollect.memory.memory import Memory
from recollect.memory.other_threads import OtherThreadsProcessor
from recollect.memory.semantic_recall import SemanticRecallProcessor
from recollect.memory.user_memory import UserMemoryProcessor
from recollect.memory.user_state import UserStateGuard
from recollect.memory.working_memory import WorkingMemoryProcessor
from recollect.messages import (
    FilePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from recollect.pipeline.context import RunContext, TripWire
from recollect.pipeline.processor import Processor, ProcessorProvider, TextDelta
from recollect.recall.results import Hit, Recall
from recollect.scope import PER_CALL, Scope
from recollect.storage.opening import open_store
from recollect.storage.records import (
    Thread,
)
from recollect.storage.store import Store
from recollect.trace import Trace
from recollect.working_memory import WorkingMemory

if TYPE_CHECKING:
    from recollect import users
    from recollect.guards.holdback import Span
    from recollect.guards.injection.detector import PromptInjectionDetector
    from recollect.guards.language import LanguageDetector
    from recollect.guards.leaks.scrubber import SystemPromptScrubber
    from recollect.guards.moderation.processor import ModerationProcessor
    from recollect.guards.parallel import Parallel
    from recollect.guards.pii.detector import PIIDetector
    from recollect.guards.span_guard import SpanGuard
    from recollect.guards.token_limiter import TokenLimiterProcessor, count_tokens
    from recollect.guards.tool_call_filter import ToolCallFilterProcessor
    from recollect.guards.unicode_normalizer import UnicodeNormalizer
    from recollect.recall.embedding.multilingual import MultilingualEmbedder
    from recollect.runtime.loader import EngineLoader

__all__ = [
    "PER_CALL",
    "Agent",
    "ConfigError",
    "ConflictError",
    "EmbedderError",
    "EngineLoader",
    "Event",
    "FilePart",
    "Hit",
    "InvalidArgumentError",
    "LanguageDetector",
    "Memory",
    "MemoryGatewayError",
    "MemoryNotFoundError",
    "Message",
    "MessageHistoryProcessor",
    "MessagePersistenceProcessor",
    "MissingExtraError",
    "ModelError",
    "ModelUnavailableError",
    "ModerationProcessor",
    "MultilingualEmbedder",
    "OtherThreadsProcessor",
    "PIIDetector",
    "Parallel",
    "Processor",
    "ProcessorError",
    "ProcessorProvider",
    "PromptInjectionDetector",
    "ReasoningPart",
    "Recall",
    "RecollectError",
    "Result",
    "RunContext",
    "Scope",
    "SemanticRecallProcessor",
    "Span",
    "SpanGuard",
    "StorageError",
    "Store",
    "SystemPromptScrubber",
    "TextDelta",
    "TextPart",
    "Thread",
    "TokenLimiterProcessor",
    "ToolCall",
    "ToolCallFilterProcessor",
    "ToolResult",
    "Trace",
    "TripWire",
    "UnicodeNormalizer",
    "UserMemoryProcessor",
    "UserStateGuard",
    "WorkingMemory",
    "WorkingMemoryProcessor",
    "__version__",
    "count_tokens",
    "open_store",
    "users",
]

if not TYPE_CHECKING:  # a checker would take every misspelt name for one of them
    __getattr__ = lazy_attributes(__name__)
    __dir__ = public_names(__name__)
