"""Old memory processors, which saw the remembered messages through one function; for one more version."""

from collections.abc import Sequence
from typing import Literal, Protocol

from recollect.messages import Message
from recollect.pipeline.context import RunContext
from recollect.pipeline.input import check_messages
from recollect.pipeline.processor import Processor


class OldMemoryProcessor(Protocol):
    """What document A calls a `MemoryProcessor`."""

    def process(
        self,
        messages: list[Message],
        *,
        system_message: str,
        memory_system_message: str,
        new_messages: list[Message],
    ) -> list[Message]:
        """Return which of the messages to show: the remembered ones, then the new ones."""
        ...


class LegacyProcessors(Processor):
    """Runs old memory processors over what memory brought in; what is kept does not change."""

    id = "legacy-memory-processors"
    edits: Literal["turn", "view"] = "view"

    def __init__(self, processors: Sequence[OldMemoryProcessor]) -> None:
        """Take the old processors in order."""
        self._processors = tuple(processors)

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Show each of them the remembered messages and the new ones, and take what it gives back.

        The new ones stay in any case: a prompt is never lost, and one that is given back is not shown twice.
        """
        rest = [message for message in messages if message.origin != "memory"]
        new = {message.id: message for message in rest if message.origin == "input"}
        remembered = [message for message in messages if message.origin == "memory"]
        system = "\n".join(message.text for message in remembered if message.role == "system")
        for processor in self._processors:
            answer = processor.process(
                [*remembered, *new.values()],
                system_message=ctx.instructions,
                memory_system_message=system,
                new_messages=list(new.values()),
            )
            given = {message.id: message for message in check_messages(answer, self, "process")}
            remembered = [message for name, message in given.items() if name not in new]
            new = {name: given.get(name, message) for name, message in new.items()}
        return remembered + [new.get(message.id, message) for message in rest]
