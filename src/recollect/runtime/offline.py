"""The offline model of the runtime: it notes what it is told to, and otherwise quotes memory."""

import json
import re
from collections.abc import AsyncIterator, Collection, Sequence

from recollect.agent.model import OfflineModel
from recollect.messages import Message, ToolCall, new_message_id

_TOLD = re.compile(
    r"\s*(?:please\s+)?(?:remember|note|memori[sz]e)(?:\s+that)?[\s:,]+(?P<what>\S.*)",
    re.IGNORECASE | re.DOTALL,
)


class OfflineAssistant(OfflineModel):
    """Answers without any model: notes what follows "remember", and quotes memory and other sessions."""

    def __init__(self, tools: Collection[str]) -> None:
        """Know the tools that there are."""
        self._tools = frozenset(tools)

    async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Use a tool where one helps; otherwise quote what was said about this."""
        last = messages[-1]
        if last.tool_results:
            yield _reported(last)
            return
        told = _TOLD.fullmatch(last.text)
        if told and "memory" in self._tools:
            arguments: dict[str, object] = {
                "target": "user",
                "action": "add",
                "content": told["what"].strip(),
            }
            yield ToolCall(new_message_id(), "memory", arguments)
            return
        found = self.quotes(messages)
        if not found and "session_search" in self._tools and last.text.strip():
            yield ToolCall(new_message_id(), "session_search", {"query": last.text})
            return
        async for part in super().respond(messages):
            yield part


def _reported(message: Message) -> str:
    """Say what a tool gave back."""
    result = message.tool_results[-1]
    content = (
        result.content if isinstance(result.content, str) else json.dumps(result.content, ensure_ascii=False)
    )
    return f"I am the offline model. The tool {result.name} says: {content}"
