"""A model that says what a test wants it to say."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeAlias, cast

from recollect.errors import InvalidArgumentError
from recollect.messages import Message, ToolCall
from recollect.validation import check_int

Reply: TypeAlias = str | ToolCall | Sequence[str | ToolCall] | Callable[[Sequence[Message]], str] | Exception
"""One answer of a scripted model: text, tool calls, both, a function of what it was shown, or an error."""


class ScriptedModel:
    """Gives its replies in order, the last one again and again; `chunk_size` cuts texts into pieces.

    `shown` has the messages of every request, in order.
    """

    def __init__(self, replies: Iterable[Reply] | Reply, *, chunk_size: int | None = None) -> None:
        """Take one reply or a list of them, and how long the pieces of a stream are."""
        self._replies = _checked_replies(replies)
        self._chunk_size = None if chunk_size is None else check_int(chunk_size, "chunk_size", minimum=1)
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


def _checked_replies(replies: Iterable[Reply] | Reply) -> list[Reply]:
    if isinstance(replies, str | ToolCall | Exception) or callable(replies):
        return [replies]
    found = list(replies)
    if not found:
        raise InvalidArgumentError("replies", "must not be empty; a model that says nothing has the reply ''")
    for reply in found:
        if not _is_reply(reply):
            raise InvalidArgumentError("replies", f"{reply!r:.60} is neither text nor a tool call")
    return found


def _is_reply(reply: object) -> bool:
    if isinstance(reply, Sequence) and not isinstance(reply, str):
        return all(isinstance(part, str | ToolCall) for part in cast("Sequence[object]", reply))
    return isinstance(reply, str | ToolCall | Exception) or callable(reply)
