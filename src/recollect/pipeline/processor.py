"""What a processor is, and what it is given.

A processor is an object with hooks, all optional. It keeps nothing about a run on itself, because one
agent serves many runs at once: `ctx.state` is its place for that. It changes messages by returning
others, and stops the run with `ctx.abort(reason)`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    Any,
    ClassVar,
    Literal,
    NoReturn,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    runtime_checkable,
)

from recollect.errors import InvalidArgumentError, ModelNotAskableError, RecollectError, WrongOwnerError
from recollect.messages import Message, ToolCall, ToolResult
from recollect.scope import UNSET, Unset
from recollect.trace import Phase, Trace
from recollect.validation import check_id, check_tenant

T = TypeVar("T")

_log = logging.getLogger("recollect")

Commit: TypeAlias = Callable[[], Awaitable[object]]
"""A write that waits until the whole output chain has passed; False says that there was nothing to write.

`result.saved` is what memory's own write did; where no memory is in the list, whether all writes were done.
"""


class TripWire(RecollectError):  # noqa: N818 - document A's name, and not a fault
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

    def __bool__(self) -> bool:
        """A tripwire that is there is true, so that `if result.tripwire` reads well."""
        return True


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


StreamPart: TypeAlias = TextDelta | ToolCall | ToolResult
"""What flows out of a run: text in pieces, complete tool calls, and their results."""


def text_parts(text: str) -> list[StreamPart]:
    """Return text as parts of a stream: no part for no text."""
    return [TextDelta(text)] if text else []


@dataclass(frozen=True, slots=True)
class RunIds:
    """Ids that a run was given, or that a memory has for runs that were given none."""

    tenant_id: int | Unset | None = UNSET
    resource_id: str | None = None
    thread_id: str | None = None
    app_id: str = "default"
    project_id: str = "default"

    def __post_init__(self) -> None:
        """Refuse ids that no scope could have."""
        if self.tenant_id is not UNSET:
            check_tenant(self.tenant_id)
        for name in ("resource_id", "thread_id"):
            if getattr(self, name) is not None:
                check_id(getattr(self, name), name)
        check_id(self.app_id, "app_id")
        check_id(self.project_id, "project_id")


class Ids(TypedDict, total=False):
    """The ids of a scope as keyword arguments."""

    tenant_id: int | None
    resource_id: str | None
    thread_id: str | None
    app_id: str
    project_id: str


def run_ids(ids: Ids) -> RunIds:
    """Return ids that came as keyword arguments; an unknown name is an error that names it."""
    if unknown := ids.keys() - Ids.__annotations__.keys():
        raise InvalidArgumentError(min(unknown), f"is not an id; use {', '.join(Ids.__annotations__)}")
    return RunIds(**ids)


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
    commits: list[tuple[str, Commit]] = field(default_factory=list[tuple[str, Commit]])
    states: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    context: Mapping[str, object] = field(default_factory=dict[str, object])


class Ask(Protocol):
    """Puts a question to the run's model on behalf of a processor."""

    async def __call__(self, prompt: str, output_type: type[T], *, model: object | None = None) -> T:
        """Return the model's answer as a value of the type."""
        ...


async def _nobody(prompt: str, output_type: type[T], *, model: object | None = None) -> T:
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

    def on_commit(self, commit: Commit) -> None:
        """Stage a write; it happens once, after the whole output chain has passed."""
        self._run.commits.append((self.processor_id, commit))

    def member(self, processor_id: str) -> "RunContext":
        """Return the view of a processor that runs as part of this one."""
        return RunContext(self._run, processor_id, self.phase)

    def stop(self, finish_reason: str = "stop") -> None:
        """End the answer here: the model is asked no further and no more tools run."""
        self._run.stop_reason = finish_reason

    def note(self, text: str) -> None:
        """Write a remark into the trace; it must not quote what people said."""
        self._run.trace.entry(self.processor_id, self.phase).notes.append(text)

    def details(self, facts: dict[str, object]) -> None:
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
            return await (self._run.ask or _nobody)(prompt, output_type, model=model)
        except ModelNotAskableError:
            self.note("the model cannot be asked")
            raise


class Processor:
    """The base of all processors: override the hooks that you need.

    `edits` says what the input hook may change: the `turn`, which is shown and kept, or only the `view`
    that the model is shown. `after_memory` puts it behind memory on the input side. `blocks_only` promises
    that no hook edits anything, `observes` that none blocks either, so that text need not wait for it.
    `writes_memory` says that what it stages is what `result.saved` is about. `every_step` has the input hook
    of one that edits the view run again before each further request to the model, once tools have answered.
    """

    id: str = ""
    edits: Literal["turn", "view"] = "turn"
    after_memory: bool = False
    blocks_only: bool = False
    every_step: ClassVar[bool] = False
    observes: ClassVar[bool] = False
    writes_memory: ClassVar[bool] = False

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:  # noqa: ARG002
        """Change or block what the model will be shown."""
        return messages

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:  # noqa: ARG002
        """Change the shown and kept copy of a tool call, or block it, before the tool runs."""
        return call

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:  # noqa: ARG002
        """Change or block what a tool gave back, before the model sees it."""
        return result

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:  # noqa: ARG002
        """Let parts of the answer through, change them, or hold text back for later."""
        return [part]

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:  # noqa: ARG002
        """Let out what was held back: before any part that is not text, and at the end."""
        return []

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:  # noqa: ARG002
        """Change or block the turn: the prompt, tool calls and results, and the answer."""
        return messages

    @property
    def needs_whole_text(self) -> bool:
        """Whether it can only judge the finished answer, so that all text must wait for it."""
        judges = self.overrides("process_output_result") and not self.overrides("process_output_stream")
        return judges and not self.observes

    def overrides(self, hook: str) -> bool:
        """Whether this processor does something in a hook, by its class or by what was set on it."""
        return is_changed(self, hook, Processor)


def is_changed(processor: "Processor", method: str, base: "type[Processor]") -> bool:
    """Whether a method is another than the one that a base has."""
    found = getattr(processor, method)
    is_inherited = getattr(found, "__func__", None) is getattr(base, method)
    return not is_inherited or found.__self__ is not processor


@runtime_checkable
class ProcessorProvider(Protocol):
    """Something that stands for processors in a list, as a memory does."""

    def get_input_processors(self) -> list[Processor]:
        """Return the processors for the input side."""
        ...

    def get_output_processors(self) -> list[Processor]:
        """Return the processors for the output side."""
        ...


@runtime_checkable
class ToolProvider(Protocol):
    """A processor or a memory that has tools for the model."""

    def get_tools(self) -> Sequence[Callable[..., object]]:
        """Return the tools, the same ones every time."""
        ...
