"""The state that the processors and tools of one run share, and the view that each of them has of it.

Tools are plain functions, and the model sees all of their arguments. A tool of memory also needs the ids of
the run, and state of its own. `tool_context` gives it both.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Hashable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol, TypeAlias, TypedDict, TypeVar

from recollect.errors import InvalidArgumentError, ModelNotAskableError, RecollectError, WrongOwnerError
from recollect.messages import Message, ToolCall
from recollect.scope import UNSET, TenantId, Unset
from recollect.trace import Phase, Trace
from recollect.validation import as_json, check_id, check_tenant

T = TypeVar("T")

_log = logging.getLogger("recollect")

Commit: TypeAlias = Callable[[], Awaitable[object]]
"""A staged read or write, run after the whole output chain has passed; False means nothing to write.

`result.saved` says whether memory's own write succeeded; without a memory in the list, whether all did.
"""


class TripWire(RecollectError):  # noqa: N818 - a trip is no fault of the program
    """A processor stopped the run."""

    code = "tripwire"

    def __init__(
        self,
        reason: str = "a processor stopped the run",
        *,
        metadata: dict[str, object] | None = None,
        processor_id: str | None = None,
    ) -> None:
        """Take the reason; the chain fills in the processor's id."""
        super().__init__(reason)
        self.reason = reason
        self.metadata = metadata or {}
        self.processor_id = processor_id
        self.released = 0

    def to_dict(self) -> dict[str, object]:
        """Return what stopped the run, as JSON."""
        return {
            "reason": self.reason,
            "processor_id": self.processor_id,
            "metadata": as_json(self.metadata),
            "released": self.released,
        }

    def __bool__(self) -> bool:
        """Be true, so that `if result.tripwire` works."""
        return True


@dataclass(frozen=True, slots=True)
class RunIds:
    """The ids that a run names; those it does not name are UNSET or None."""

    tenant_id: TenantId | Unset = UNSET
    user_id: str | None = None
    thread_id: str | None = None
    app_id: str = "default"
    project_id: str = "default"

    def __post_init__(self) -> None:
        if self.tenant_id is not UNSET:
            check_tenant(self.tenant_id)
        for name in ("user_id", "thread_id"):
            if getattr(self, name) is not None:
                check_id(getattr(self, name), name)
        check_id(self.app_id, "app_id")
        check_id(self.project_id, "project_id")


class UserIds(TypedDict, total=False):
    """The ids of a user as keyword arguments; `resource_id` is another name of `user_id`."""

    tenant_id: TenantId
    user_id: str | None
    resource_id: str | None
    app_id: str
    project_id: str


class Ids(UserIds, total=False):
    """The ids of a scope as keyword arguments."""

    thread_id: str | None


def parse_run_ids(ids: Ids) -> RunIds:
    """Return keyword arguments as ids; an unknown name raises."""
    if unknown := ids.keys() - Ids.__annotations__.keys():
        raise InvalidArgumentError(min(unknown), f"is not an id; use {', '.join(Ids.__annotations__)}")
    given: dict[str, Any] = {**ids}
    user_id = choose_user_id(given.pop("user_id", None), given.pop("resource_id", None))
    return RunIds(user_id=user_id, **given)


def choose_user_id(user_id: str | None, resource_id: str | None) -> str | None:
    """Return the user's id, which has two names; both at once raise."""
    if user_id is not None and resource_id is not None:
        raise InvalidArgumentError(
            "user_id", "is given, and so is resource_id, which means the same; give one of them"
        )
    if resource_id is not None:
        return check_id(resource_id, "resource_id")
    return user_id


@dataclass(slots=True)
class RunState:
    """The state that the processors of one run share; each staged commit has its processor's id."""

    run_id: str
    ids: RunIds
    trace: Trace
    instructions: str = ""
    ask: "Ask | None" = None
    view: list[Message] = field(default_factory=list[Message])
    stop_reason: str | None = None
    before_commit: list[tuple[str, Commit]] = field(default_factory=list[tuple[str, Commit]])
    on_commit: list[tuple[str, Commit]] = field(default_factory=list[tuple[str, Commit]])
    after_commit: list[tuple[str, Commit]] = field(default_factory=list[tuple[str, Commit]])
    states: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    context: Mapping[str, object] = field(default_factory=dict[str, object])
    pins: dict[Hashable, int | None] = field(default_factory=dict[Hashable, int | None])

    def fresh(self) -> "RunState":
        """Return a copy with nothing staged and no processor state; both share the trace and the pins."""
        return replace(self, before_commit=[], on_commit=[], after_commit=[], states={})


class Ask(Protocol):
    """Asks the run's model on behalf of a processor."""

    async def __call__(self, prompt: str, output_type: type[T], *, model: object | None = None) -> T:
        """Return the model's answer as a value of the type.

        A subclass of dict with a JSON Schema as `json_schema` asks for an object of that schema.
        """
        ...


async def _reject_question(prompt: str, output_type: type[T], *, model: object | None = None) -> T:
    del prompt, output_type, model
    raise ModelNotAskableError("this run has no model that a processor could ask")


class RunContext:
    """A processor's view of the run it serves."""

    __slots__ = ("_run", "phase", "processor_id", "state")

    def __init__(self, run: RunState, processor_id: str, phase: Phase) -> None:
        """Belong to one processor in one phase; all its hooks share `state`."""
        self._run = run
        self.processor_id = processor_id
        self.phase: Phase = phase
        self.state = run.states.setdefault(processor_id, {})

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @property
    def ids(self) -> RunIds:
        """The ids that the run was given."""
        return self._run.ids

    @property
    def context(self) -> Mapping[str, object]:
        """The caller's `context=` for the processors of this run; the model never sees it."""
        return self._run.context

    @property
    def pins(self) -> dict[Hashable, int | None]:
        """The erase epochs of users when the run first read their memory; all processors share them."""
        return self._run.pins

    @property
    def instructions(self) -> str:
        """The agent's own instructions."""
        return self._run.instructions

    @property
    def view(self) -> list[Message]:
        """The prompt as shown to the model; empty until the input side has passed."""
        return self._run.view

    @property
    def trace(self) -> Trace:
        """What has happened in the run so far."""
        return self._run.trace

    def abort(self, reason: str | None = None, *, metadata: dict[str, object] | None = None) -> NoReturn:
        """Stop the run: nothing is saved, and the caller sees the reason."""
        why = f"{self.processor_id} stopped the run" if reason is None else reason
        raise TripWire(why, metadata=metadata, processor_id=self.processor_id)

    def before_commit(self, read: Commit) -> None:
        """Stage a read of the store that must precede all writes of the turn, such as of the user's epoch."""
        self._run.before_commit.append((self.processor_id, read))

    def on_commit(self, commit: Commit) -> None:
        """Stage a write; it runs once, after the whole output chain has passed."""
        self._run.on_commit.append((self.processor_id, commit))

    def after_commit(self, commit: Commit) -> None:
        """Stage a write that depends on the turn; it runs after the turn was saved, and only then."""
        self._run.after_commit.append((self.processor_id, commit))

    def member(self, processor_id: str) -> "RunContext":
        """Return the context of a processor that runs as part of this one."""
        return RunContext(self._run, processor_id, self.phase)

    def stop(self, finish_reason: str = "stop") -> None:
        """End the answer here: no further request to the model, and no more tools."""
        self._run.stop_reason = finish_reason

    def note(self, text: str) -> None:
        """Add a note to the trace; it must not quote messages."""
        self._run.trace.entry(self.processor_id, self.phase).notes.append(text)

    def set_details(self, facts: dict[str, object]) -> None:
        """Set the details of the trace entry; they must not quote messages."""
        self._run.trace.entry(self.processor_id, self.phase).details = facts

    def degrade(self, error: Exception) -> None:
        """Note in the trace and the log that the run goes on without memory after a failed read.

        A store of another event loop is a bug of the program, which this would hide: it is raised.
        """
        if isinstance(error, WrongOwnerError):
            raise error
        self._run.trace.entry(self.processor_id, self.phase).error = f"{type(error).__name__}: {error}"
        _log.warning("%s goes on without memory: %s", self.processor_id, error)

    async def ask(self, prompt: str, output_type: type[T], *, model: object | None = None) -> T:
        """Ask the run's model, or another one, for a value.

        A model that only answers prompts, such as the offline one, raises `ModelNotAskableError`, with a note
        in the trace. Catch it to go on without an answer; a guard that does not catch it stops the run.
        """
        try:
            return await (self._run.ask or _reject_question)(prompt, output_type, model=model)
        except ModelNotAskableError:
            self.note("the model cannot be asked")
            raise


_running: ContextVar[tuple[RunState, ToolCall | None] | None] = ContextVar(
    "recollect_running_tool", default=None
)


@contextmanager
def bind_tools(run: RunState, kept: ToolCall | None = None) -> Generator[None]:
    """Bind the tools started in this block to a run, and to the call as guards keep it."""
    token = _running.set((run, kept))
    try:
        yield
    finally:
        _running.reset(token)


def tool_context(owner: str) -> RunContext:
    """Return the context of the run that called this tool; it shares `state` with the tool's owner."""
    running = _running.get()
    if running is None:
        raise RecollectError(f"the tool of {owner} can only be called by the model, in a run of an agent")
    return RunContext(running[0], owner, "tool_call")


def get_kept_call() -> ToolCall | None:
    """Return the call that the running tool answers, as guards have redacted it so far."""
    running = _running.get()
    return None if running is None else running[1]
