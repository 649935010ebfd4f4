"""The base class of processors, and the protocols around it.

A processor is an object with hooks, all optional. It keeps the state of a run in `ctx.state`, never on
itself, because one agent serves many runs at once. It changes messages by returning others, and stops the run
with `ctx.abort(reason)`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from recollect.messages import Message, ToolCall, ToolResult
from recollect.pipeline.context import RunContext


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A chunk of the answer's text."""

    text: str


StreamPart: TypeAlias = TextDelta | ToolCall | ToolResult
"""A part of an answer: text in chunks, complete tool calls, and their results."""


def text_parts(text: str) -> list[StreamPart]:
    """Return text as parts of a stream; no text is no part."""
    return [TextDelta(text)] if text else []


class Processor:
    """The base of all processors: override the hooks that you need.

    `edits` says what the input hook may change: the `turn`, which is shown and stored, or only the `view`
    for the model. `after_memory` puts the processor after memory on the input side. `blocks_only` promises
    that no hook edits anything, `observes` that none blocks either, so that text need not wait for it.
    `writes_memory` says that its commits decide `result.saved`. With `every_step`, the input hook of a
    processor that edits the view runs again before each further request to the model.
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
        """Change the copy of a tool call to show and store, or block the call, before the tool runs."""
        return call

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:  # noqa: ARG002
        """Change or block a tool's result before the model sees it."""
        return result

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:  # noqa: ARG002
        """Return parts of the answer, changed or not, or hold text back for later."""
        return [part]

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:  # noqa: ARG002
        """Release what was held back: before any part that is not text, and at the end."""
        return []

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:  # noqa: ARG002
        """Change or block the turn: the prompt, tool calls and results, and the answer."""
        return messages

    @property
    def needs_whole_text(self) -> bool:
        """Whether it has only a result hook that may edit or block, so that all text must wait for it."""
        judges = self.overrides("process_output_result") and not self.overrides("process_output_stream")
        return judges and not self.observes

    def overrides(self, hook: str) -> bool:
        """Whether this processor has a hook of its own, by its class or set on the instance."""
        return is_changed(self, hook, Processor)


def is_changed(processor: "Processor", method: str, base: "type[Processor]") -> bool:
    """Whether a method differs from the one of a base class."""
    found = getattr(processor, method)
    is_inherited = getattr(found, "__func__", None) is getattr(base, method)
    return not is_inherited or found.__self__ is not processor


@runtime_checkable
class InputProvider(Protocol):
    """An item that an input list replaces by its processors."""

    def get_input_processors(self) -> list[Processor]:
        """Return the processors for the input side."""
        ...


@runtime_checkable
class OutputProvider(Protocol):
    """An item that an output list replaces by its processors."""

    def get_output_processors(self) -> list[Processor]:
        """Return the processors for the output side."""
        ...


@runtime_checkable
class ProcessorProvider(InputProvider, OutputProvider, Protocol):
    """An item that lists replace by its processors, such as a `Memory`."""


@runtime_checkable
class ToolProvider(Protocol):
    """A processor or a memory that has tools for the model."""

    def get_tools(self) -> Sequence[Callable[..., object]]:
        """Return the tools, the same ones every time."""
        ...


@runtime_checkable
class TurnKeeper(Protocol):
    """A processor that stores turns, and finds the turn of an earlier run of the same id."""

    async def get_stored_turn(self, ctx: RunContext) -> list[Message]:
        """Return the stored turn of the run; empty if there is none."""
        ...
