"""Every error that recollect raises, in one tree.

    RecollectError
    ├── InvalidArgumentError           (also a ValueError)
    │   └── InvalidRoleError
    ├── ConfigError                    (also a ValueError)
    ├── MemoryNotFoundError            (also a LookupError)
    ├── ConflictError
    │   ├── StaleChangeError
    │   └── UserErasedError
    ├── ModelError
    │   ├── ModelAnswerError
    │   └── ModelUnavailableError
    │       └── ModelNotAskableError
    ├── EmbedderError
    │   └── EmbedderChangedError
    ├── MemoryGatewayError
    ├── MissingExtraError              (also an ImportError)
    ├── ProcessorError
    ├── TripWire                       (in recollect.pipeline.context)
    └── StorageError
        ├── StorageUnavailableError
        ├── StorageReadOnlyError
        ├── StorageFullError
        ├── StorageCorruptError
        ├── StorageBusyError
        ├── NewerDatabaseError
        ├── OldDatabaseError
        ├── StoreMisuseError
        │   └── WrongOwnerError
        └── EraseIncompleteError

The class docstring is the default message, and `code` is a stable name for
programs to match. A driver's exception never leaves the package: it is the
`__cause__` of ours. The base is not called `MemoryError`, because that is
Python's own name for running out of memory.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import ClassVar

_MAX_NAME_LENGTH = 200  # a path inside a hostile JSON value can have megabytes


class RecollectError(Exception):
    """Something in recollect went wrong; the base of all errors of the package."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])


class InvalidArgumentError(RecollectError, ValueError):
    """An argument has a value that cannot be accepted; nothing was written."""

    code = "invalid_argument"

    def __init__(self, argument: str, problem: str) -> None:
        self.argument = argument if len(argument) <= _MAX_NAME_LENGTH else argument[:_MAX_NAME_LENGTH] + "..."
        self.problem = problem
        super().__init__(f"{self.argument}: {problem}")

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        # Exceptions pickle their `args`, which hold the joined message, not the two parts.
        return type(self), (self.argument, self.problem)


class ConfigError(RecollectError, ValueError):
    """The configuration file has a key or value that cannot be accepted; nothing was loaded."""

    code = "invalid_config"

    def __init__(self, key: str, problem: str) -> None:
        self.key = key  # dotted, as in memory.gateway.topK
        self.problem = problem
        super().__init__(f"{key}: {problem}")

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.key, self.problem)


class InvalidRoleError(InvalidArgumentError):
    """The role is not allowed here."""

    code = "invalid_role"


class MemoryNotFoundError(RecollectError, LookupError):
    """What the caller wants to change or delete does not exist."""

    code = "not_found"


class ConflictError(RecollectError):
    """The write contradicts what is already stored; nothing was written."""

    code = "conflict"


class StaleChangeError(ConflictError):
    """A change of curated memory no longer fits, because the file has changed since; nothing was changed."""

    code = "stale_change"


class UserErasedError(ConflictError):
    """The user was erased since this work began; nothing was written."""

    code = "user_erased"


class ModelError(RecollectError):
    """The model could not answer; nothing was saved."""

    code = "model"


class ModelAnswerError(ModelError):
    """The model's answer is not a value of the type that a processor asked for."""

    code = "model_answer"


class ModelUnavailableError(ModelError):
    """The model cannot be used: its key or the package of its provider is missing."""

    code = "model_unavailable"


class ModelNotAskableError(ModelUnavailableError):
    """The run's model cannot be asked for values, for example the offline one; skip what needs an answer."""

    code = "model_not_askable"


class EmbedderError(RecollectError):
    """The embedder failed, or returned vectors that cannot be used."""

    code = "embedder"


class EmbedderChangedError(EmbedderError):
    """The stored vectors come from another embedding model: run `recollect reindex`."""

    code = "embedder_changed"


class MemoryGatewayError(RecollectError):
    """A request to the memory gateway failed."""

    code = "memory_gateway"

    def __init__(self, operation: str, path: str, category: str, status: int | None = None) -> None:
        # Never the request or the response: they hold the user's data.
        self.operation = operation
        self.path = path
        self.category = category
        self.status = status
        answered = "" if status is None else f", HTTP status {status}"
        super().__init__(f"memory gateway: {operation} (POST {path}) failed: {category}{answered}")

    def __reduce__(self) -> tuple[type, tuple[str, str, str, int | None]]:
        return type(self), (self.operation, self.path, self.category, self.status)


class MissingExtraError(RecollectError, ImportError):
    """An optional dependency is not installed; the message is the command that installs it."""

    code = "missing_extra"

    def __init__(self, extra: str) -> None:
        self.extra = extra
        super().__init__(f"pip install 'recollect[{extra}]'")

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self.extra,)


class ProcessorError(RecollectError):
    """A processor returned something that its hook must not return; nothing was saved."""

    code = "processor"

    def __init__(self, processor_id: str, problem: str) -> None:
        self.processor_id = processor_id
        self.problem = problem
        super().__init__(f"processor {processor_id!r}: {problem}")

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.processor_id, self.problem)


class StorageError(RecollectError):
    """The database failed; nothing was half-written."""

    code = "storage"


class StorageUnavailableError(StorageError):
    """The database cannot be reached or opened."""

    code = "storage_unavailable"


class StorageReadOnlyError(StorageError):
    """The database is read-only."""

    code = "storage_read_only"


class StorageFullError(StorageError):
    """There is no space left for the database."""

    code = "storage_full"


class StorageCorruptError(StorageError):
    """The file is not a recollect database, or it is damaged."""

    code = "storage_corrupt"


class StorageBusyError(StorageError):
    """Other writers kept the database busy for too long; try again."""

    code = "storage_busy"


class NewerDatabaseError(StorageError):
    """A newer version of recollect has updated the database; upgrade recollect."""

    code = "newer_database"


class OldDatabaseError(StorageError):
    """The database has the layout of an earlier recollect; `recollect db migrate` converts it once."""

    code = "old_database"


class StoreMisuseError(StorageError):
    """The store was used closed, from another event loop, or in a forked process."""

    code = "store_misuse"


class WrongOwnerError(StoreMisuseError):
    """The store belongs to another event loop or to another process."""

    code = "wrong_owner"


class EraseIncompleteError(StorageError):
    """Rows of the user were still there after erasing; the erasure was rolled back."""

    code = "erase_incomplete"


@contextmanager
def requires_extra(extra: str) -> Generator[None]:
    """Raise `MissingExtraError` where an import within the block fails."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(extra) from error


def combine_errors(problems: Sequence[RecollectError]) -> RecollectError:
    """Return one error with the messages of all; its type is that of a storage error, if there is one."""
    if len(problems) == 1:
        return problems[0]
    first = next((one for one in problems if isinstance(one, StorageError)), problems[0])
    return type(first)("; ".join(str(one) for one in problems))


def describe_error(error: BaseException, max_length: int) -> str:
    """Return the class and the text of any exception, cut to a length; its text may be huge, or fail."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - other people's `__str__`
        text = "(its text cannot be read)"
    name = type(error).__name__
    shown = f"{name}: {text}" if text else name
    return shown if len(shown) <= max_length else f"{shown[: max_length - 3]}..."
