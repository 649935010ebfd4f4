"""Models that must not be asked, or that stop in the middle, so that a test can act while they speak."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from recollect import Message, ToolCall
from recollect.testing import ScriptedModel

never = ScriptedModel([RuntimeError("the model was asked")])
"""For runs in which no model may be asked."""


class Halting:
    """Yields some parts, and then waits for a signal; records whether it was closed."""

    def __init__(self, *parts: str | ToolCall, error: Exception | None = None) -> None:
        """Take what to say before the halt, and an error to end with in place of waiting."""
        self._parts = parts
        self._error = error
        self.halted = asyncio.Event()
        self.go_on = asyncio.Event()
        self.open = 0

    async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Speak, halt, and end."""
        del messages
        self.open += 1
        try:
            for part in self._parts:
                yield part
            if self._error is not None:
                raise self._error
            self.halted.set()
            await self.go_on.wait()
            yield "the end"
        finally:
            self.open -= 1
