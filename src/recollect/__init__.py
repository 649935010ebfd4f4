"""recollect: memory for Python agents that is safe, fast and explainable."""

from recollect.errors import (
    ConflictError,
    EraseIncompleteError,
    InvalidArgumentError,
    InvalidRoleError,
    MemoryNotFoundError,
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
from recollect.messages import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from recollect.scope import Scope
from recollect.storage.base import Store
from recollect.storage.open import open_store
from recollect.storage.records import EraseReport, MemoryEntry, Placed, SearchRow, StateEntry, Thread

__all__ = [
    "ConflictError",
    "EraseIncompleteError",
    "EraseReport",
    "FilePart",
    "InvalidArgumentError",
    "InvalidRoleError",
    "MemoryEntry",
    "MemoryNotFoundError",
    "Message",
    "NewerDatabaseError",
    "Part",
    "Placed",
    "ReasoningPart",
    "RecollectError",
    "Scope",
    "SearchRow",
    "StateEntry",
    "StorageBusyError",
    "StorageCorruptError",
    "StorageError",
    "StorageFullError",
    "StorageReadOnlyError",
    "StorageUnavailableError",
    "Store",
    "StoreMisuseError",
    "TextPart",
    "Thread",
    "ToolCall",
    "ToolResult",
    "open_store",
]
