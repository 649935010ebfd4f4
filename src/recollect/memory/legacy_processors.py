"""The adapter for `Memory(processors=…)`, the deprecated form: objects with one method, `process`."""

from collections.abc import Awaitable, Sequence
from inspect import isawaitable
from typing import Literal, Protocol

from recollect.messages import Message
from recollect.pipeline.context import RunContext
from recollect.pipeline.input import check_messages
from recollect.pipeline.processor import Processor


class LegacyMemoryProcessor(Protocol):
    """A processor of the deprecated form, which chooses what to show of the remembered messages."""

    def process(
        self,
        messages: list[Message],
        *,
        system_message: str,
        memory_system_message: str,
        new_messages: list[Message],
    ) -> list[Message] | Awaitable[list[Message]]:
        """Return the messages to show, out of the remembered ones and the new ones after them.

        It may be an async method.
        """
        ...


class LegacyProcessorAdapter(Processor):
    """Runs legacy processors over what memory inserted; what is stored does not change."""

    id = "legacy-memory-processors"
    edits: Literal["turn", "view"] = "view"

    def __init__(self, processors: Sequence[LegacyMemoryProcessor]) -> None:
        """Take the legacy processors in order."""
        self._processors = tuple(processors)

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Pass the remembered and the new messages through each processor.

        New messages always stay: a prompt is never lost, and a returned one is not shown twice.
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
            answer = await answer if isawaitable(answer) else answer
            given = {message.id: message for message in check_messages(answer, self, "process")}
            remembered = [message for name, message in given.items() if name not in new]
            new = {name: given.get(name, message) for name, message in new.items()}
        return remembered + [new.get(message.id, message) for message in rest]
