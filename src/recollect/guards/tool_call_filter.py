"""`ToolCallFilterProcessor`: hides tool calls of earlier turns, and their results, from the model."""

from collections.abc import Collection, Sequence
from typing import cast

from recollect.errors import InvalidArgumentError
from recollect.messages import Message, Part, ToolCall, ToolResult
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor
from recollect.pipeline.prompt_order import find_turn_start
from recollect.validation import check_id


class ToolCallFilterProcessor(Processor):
    """Hides tool calls and their results in the history from the model; what is kept stays whole.

    The present turn is shown as it is: a model that cannot see what its tool gave back would call it again.
    """

    id = "tool-call-filter"
    after_memory = True
    edits = "view"

    def __init__(self, exclude: Collection[str] | None = None, *, id: str | None = None) -> None:  # noqa: A002 - the field's name
        """Set the names of the tools to hide; None hides all."""
        self._exclude = None if exclude is None else _check_names(exclude)
        self.id = id or self.id

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Take the calls and results out; a message that holds nothing else goes with them."""
        turn = find_turn_start(messages)
        shown: list[Message] = []
        hidden = 0
        calls: set[str] = set()
        for place, message in enumerate(messages):
            is_hidden = [place < turn and self._is_hidden(part, calls) for part in message.parts]
            hidden += sum(is_hidden)
            shown += _remove_hidden(message, is_hidden)
        if hidden:
            ctx.note(f"hid {hidden} tool calls and results from the model")
        return shown

    def _is_hidden(self, part: Part, calls: set[str]) -> bool:
        """Whether a part is hidden; a result goes with its call, whatever tool it says it is of."""
        if isinstance(part, ToolCall):
            is_hidden = self._exclude is None or part.name in self._exclude
            (calls.add if is_hidden else calls.discard)(part.id)
            return is_hidden
        # Unlike `tool_pairs`, this also finds the call of a result in the same message.
        if isinstance(part, ToolResult):
            return self._exclude is None or part.call_id in calls
        return False


def _remove_hidden(message: Message, is_hidden: Sequence[bool]) -> list[Message]:
    if not any(is_hidden):
        return [message]
    rest = [part for part, hidden in zip(message.parts, is_hidden, strict=True) if not hidden]
    return [message.replace(content=rest)] if rest else []


def _check_names(names: object) -> frozenset[str]:
    if isinstance(names, str) or not isinstance(names, Collection):
        raise InvalidArgumentError("exclude", f"must be a list of names of tools, not {names!r:.60}")
    return frozenset(check_id(name, "exclude") for name in cast("Collection[object]", names))
