"""Old memory processors, which saw the remembered messages through one function; for one more version."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol

from recollect.messages import Message
from recollect.processors.base import Processor, RunContext
from recollect.processors.chain import checked_messages


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
        """Return the remembered messages to show."""
        ...


class LegacyProcessors(Processor):
    """Runs old memory processors over what memory brought in; what is kept does not change."""

    id = "legacy-memory-processors"
    edits: ClassVar[Literal["turn", "view"]] = "view"

    def __init__(self, processors: Sequence[OldMemoryProcessor]) -> None:
        """Take the old processors in order."""
        self._processors = tuple(processors)

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Show each of them the remembered messages, and take what it gives back."""
        remembered = [message for message in messages if message.origin == "memory"]
        rest = [message for message in messages if message.origin != "memory"]
        new = [message for message in rest if message.origin == "input"]
        system = "\n".join(message.text for message in remembered if message.role == "system")
        for processor in self._processors:
            answer = processor.process(
                remembered,
                system_message=ctx.instructions,
                memory_system_message=system,
                new_messages=new,
            )
            remembered = checked_messages(answer, self, "process")
        return remembered + rest
