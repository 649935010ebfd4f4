"""What one run shares between its processors and tools, and what each of them is given of it.

Tools are plain functions, and the model sees all of their arguments. One that belongs to memory needs more:
whose run it is, and a place for what it has done in it so far. `tool_context` gives it both.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol, TypeAlias, TypedDict, TypeVar

from recollect.errors import InvalidArgumentError, ModelNotAskableError, RecollectError, WrongOwnerError
from recollect.messages import Message, ToolCall
from recollect.scope import UNSET, Unset
from recollect.trace import Phase, Trace
from recollect.validation import as_json, check_id, check_tenant

T = TypeVar("T")

_log = logging.getLogger("recollect")

Commit: TypeAlias = Callable[[], Awaitable[object]]
"""A write that waits until the whole output chain has passed; False says that there was nothing to write.

`result.saved` is what memory's own write did; where no memory is in the list, whether all writes were done.
"""


class TripWire(RecollectError):  # noqa: N818 - a trip is no fault of the program
    """A processor stopped the run."""

    code = "tripwire"

    def __init__(
        self, reason: str, *, metadata: dict[str, object] | None = None, processor_id: str | None = None
    ) -> None:
        """Say why; the chain fills in which processor it was."""
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
        """A tripwire that is there is true, so that `if result.tripwire` reads well."""
        return True


@dataclass(frozen=True, slots=True)
class RunIds:
    """Ids that a run was given; what it was not given is UNSET or None."""

    tenant_id: int | Unset | None = UNSET
    user_id: str | None = None
    thread_id: str | None = None
    app_id: str = "default"
    project_id: str = "default"

    def __post_init__(self) -> None:
        """Refuse ids that no scope could have."""
        if self.tenant_id is not UNSET:
            check_tenant(self.tenant_id)
        for name in ("user_id", "thread_id"):
            if getattr(self, name) is not None:
                check_id(getattr(self, name), name)
        check_id(self.app_id, "app_id")
        check_id(self.project_id, "project_id")


class UserIds(TypedDict, total=False):
    """The ids of a user as keyword arguments; `resource_id` is another name of `user_id`."""

    tenant_id: int | None
    user_id: str | None
    resource_id: str | None
    app_id: str
    project_id: str


class Ids(UserIds, total=False):
    """The ids of a scope as keyword arguments."""

    thread_id: str | None


def parse_run_ids(ids: Ids) -> RunIds:
    """Return ids that came as keyword arguments; an unknown name is an error that names it."""
    if unknown := ids.keys() - Ids.__annotations__.keys():
        raise InvalidArgumentError(min(unknown), f"is not an id; use {', '.join(Ids.__annotations__)}")
    given: dict[str, Any] = {**ids}
    user_id = choose_user_id(given.pop("user_id", None), given.pop("resource_id", None))
    return RunIds(user_id=user_id, **given)


def choose_user_id(user_id: str | None, resource_id: str | None) -> str | None:
    """Return the user who was given under one of the two names."""
    if user_id is not None and resource_id is not None:
        raise InvalidArgumentError(
            "user_id", "is given, and so is resource_id, which means the same; leave one out"
        )
    if resource_id is not None:
        return check_id(resource_id, "resource_id")
    return user_id


@dataclass(slots=True)
class RunState:
    """What one run shares between its processors."""

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

    def fresh(self) -> "RunState":
        """Return the same run with nothing staged and no processor's state; the trace is shared."""
        return replace(self, before_commit=[], on_commit=[], after_commit=[], states={})


class Ask(Protocol):
    """Puts a question to the run's model on behalf of a processor."""

    async def __call__(self, prompt: str, output_type: type[T], *, model: object | None = None) -> T:
        """Return the model's answer as a value of the type."""
        ...


async def _reject_question(prompt: str, output_type: type[T], *, model: object | None = None) -> T:
    del prompt, output_type, model
    raise ModelNotAskableError("this run has no model that a processor could ask")


class RunContext:
    """A processor's view of the run it serves."""

    __slots__ = ("_run", "phase", "processor_id", "state")

    def __init__(self, run: RunState, processor_id: str, phase: Phase) -> None:
        """Belong to one processor in one phase; its hooks share `state`."""
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
        """What the caller gave to the processors of this run; the model never sees it."""
        return self._run.context

    @property
    def instructions(self) -> str:
        """The agent's own instructions."""
        return self._run.instructions

    @property
    def view(self) -> list[Message]:
        """The prompt as the model was shown it; empty before the input side has passed."""
        return self._run.view

    @property
    def trace(self) -> Trace:
        """What has happened in the run so far."""
        return self._run.trace

    def abort(self, reason: str, *, metadata: dict[str, object] | None = None) -> NoReturn:
        """Stop the run: nothing is saved, and the caller sees the reason."""
        raise TripWire(reason, metadata=metadata, processor_id=self.processor_id)

    def before_commit(self, read: Commit) -> None:
        """Stage a look at the store before anything of the turn is written, such as at the user's epoch."""
        self._run.before_commit.append((self.processor_id, read))

    def on_commit(self, commit: Commit) -> None:
        """Stage a write; it happens once, after the whole output chain has passed."""
        self._run.on_commit.append((self.processor_id, commit))

    def after_commit(self, commit: Commit) -> None:
        """Stage what is learned from the turn; it happens when the turn is written, and not without it."""
        self._run.after_commit.append((self.processor_id, commit))

    def member(self, processor_id: str) -> "RunContext":
        """Return the view of a processor that runs as part of this one."""
        return RunContext(self._run, processor_id, self.phase)

    def stop(self, finish_reason: str = "stop") -> None:
        """End the answer here: the model is asked no further and no more tools run."""
        self._run.stop_reason = finish_reason

    def note(self, text: str) -> None:
        """Write a remark into the trace; it must not quote what people said."""
        self._run.trace.entry(self.processor_id, self.phase).notes.append(text)

    def set_details(self, facts: dict[str, object]) -> None:
        """Put facts into the trace that explain what was done; they must not quote what people said."""
        self._run.trace.entry(self.processor_id, self.phase).details = facts

    def degrade(self, error: Exception) -> None:
        """Go on without memory after a failed read: into the trace and the log.

        A store of another event loop is a mistake in the program, which would only hide here: it is raised.
        """
        if isinstance(error, WrongOwnerError):
            raise error
        self._run.trace.entry(self.processor_id, self.phase).error = f"{type(error).__name__}: {error}"
        _log.warning("%s goes on without memory: %s", self.processor_id, error)

    async def ask(self, prompt: str, output_type: type[T], *, model: object | None = None) -> T:
        """Ask the run's model, or another one, for a value.

        A model that answers nothing but prompts, as the offline one, is a `ModelNotAskableError`, and a note
        in the trace: catch it to skip what needs an answer. A guard that lets it through stops the run.
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
    """Say whose tools are started within, and the call as guards let it be kept; tasks take it along."""
    token = _running.set((run, kept))
    try:
        yield
    finally:
        _running.reset(token)


def tool_context(owner: str) -> RunContext:
    """Return the run that the calling tool serves, as its owner sees it: they share `state`."""
    running = _running.get()
    if running is None:
        raise RecollectError(f"the tool of {owner} can only be called by the model, in a run of an agent")
    return RunContext(running[0], owner, "tool_call")


def get_kept_call() -> ToolCall | None:
    """Return the call that the calling tool answers, as far as guards have let it be kept until now."""
    running = _running.get()
    return None if running is None else running[1]
