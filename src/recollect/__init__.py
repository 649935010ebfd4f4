"""recollect: memory for Python agents that is safe, fast and explainable."""

from recollect.agent.agent import Agent
from recollect.agent.result import Event, Result, Usage
from recollect.errors import (
    ConflictError,
    EmbedderChangedError,
    EmbedderError,
    EraseIncompleteError,
    InvalidArgumentError,
    InvalidRoleError,
    MemoryNotFoundError,
    ModelError,
    ModelUnavailableError,
    NewerDatabaseError,
    RecollectError,
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StoreMisuseError,
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
from recollect.processors.prompt_injection import PromptInjectionDetector
from recollect.processors.semantic_recall import SemanticRecallProcessor
from recollect.processors.spans import SpanGuard
from recollect.processors.unicode_normalizer import UnicodeNormalizer
from recollect.recall.results import Hit, Miss, Recall, Why
from recollect.recall.settings import RecallSettings
from recollect.scope import Scope
from recollect.storage.base import Store
from recollect.storage.open import open_store
from recollect.storage.records import EraseReport, MemoryEntry, Placed, SearchRow, StateEntry, Thread
from recollect.trace import Trace, TraceEntry

__all__ = [
    "Agent",
    "ConflictError",
    "EmbedderChangedError",
    "EmbedderError",
    "EraseIncompleteError",
    "EraseReport",
    "Event",
    "FilePart",
    "Hit",
    "InvalidArgumentError",
    "InvalidRoleError",
    "Memory",
    "MemoryEntry",
    "MemoryNotFoundError",
    "Message",
    "MessageHistoryProcessor",
    "MessagePersistenceProcessor",
    "Miss",
    "ModelError",
    "ModelUnavailableError",
    "NewerDatabaseError",
    "OtherThreadsProcessor",
    "Parallel",
    "Part",
    "Placed",
    "Processor",
    "ProcessorProvider",
    "PromptInjectionDetector",
    "ReasoningPart",
    "Recall",
    "RecallSettings",
    "RecollectError",
    "Result",
    "RunContext",
    "Scope",
    "SearchRow",
    "SemanticRecallProcessor",
    "Span",
    "SpanGuard",
    "StateEntry",
    "StorageBusyError",
    "StorageCorruptError",
    "StorageError",
    "StorageFullError",
    "StorageReadOnlyError",
    "StorageUnavailableError",
    "Store",
    "StoreMisuseError",
    "TextDelta",
    "TextPart",
    "Thread",
    "ToolCall",
    "ToolResult",
    "Trace",
    "TraceEntry",
    "TripWire",
    "UnicodeNormalizer",
    "Usage",
    "Why",
    "open_store",
]
