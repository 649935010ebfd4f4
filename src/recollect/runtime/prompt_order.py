"""The order in which a model is shown what it is shown, in one place."""

from collections.abc import Sequence
from typing import ClassVar

from recollect.messages import Message
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor


class ContextBuilder(Processor):
    """Orders the prompt: system prompt and snapshot, skills, recalled memory, history, this turn.

    The agent's instructions stand before all of it. It only orders: what is shown, and whether it may be,
    others have decided.
    """

    id = "context-builder"
    edits = "view"
    observes: ClassVar[bool] = True

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:  # noqa: ARG002
        """Order the view; what is kept is not touched."""
        return self.build_messages(messages)

    @staticmethod
    def build_messages(messages: Sequence[Message]) -> list[Message]:
        """Return messages in the order of the document; those of one kind keep theirs."""
        return sorted(messages, key=_rank)


def _rank(message: Message) -> int:
    if message.origin in ("input", "response"):
        return 4
    if message.role != "system":
        return 3
    if message.origin == "memory":
        return 2
    return 1 if message.kind == "skill" else 0
