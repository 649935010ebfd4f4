"""A model that says what a test wants it to say."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeAlias

from recollect.messages import Message, ToolCall

Reply: TypeAlias = str | ToolCall | Sequence[str | ToolCall] | Callable[[Sequence[Message]], str] | Exception
"""One answer of a scripted model: text, tool calls, both, a function of what it was shown, or an error."""


class ScriptedModel:
    """Gives its replies in order, the last one again and again; `chunk_size` cuts texts into pieces.

    `shown` has the messages of every request, in order.
    """

    def __init__(self, replies: Iterable[Reply] | str, *, chunk_size: int | None = None) -> None:
        """Take the replies, and how long the pieces of a stream are."""
        self._replies: list[Reply] = [replies] if isinstance(replies, str) else list(replies)
        self._chunk_size = chunk_size
        self.shown: list[list[Message]] = []

    async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Answer with the next reply."""
        reply = self._replies[min(len(self.shown), len(self._replies) - 1)]
        self.shown.append(list(messages))
        if isinstance(reply, Exception):
            raise reply
        if callable(reply):
            reply = reply(messages)
        for part in [reply] if isinstance(reply, str | ToolCall) else reply:
            for piece in self._pieces(part) if isinstance(part, str) else [part]:
                yield piece

    def _pieces(self, text: str) -> list[str]:
        size = self._chunk_size or max(len(text), 1)
        return [text[start : start + size] for start in range(0, len(text), size)]
