"""The offline model of the runtime: it notes what it is told to, and otherwise quotes memory."""

import re
from collections.abc import AsyncIterator, Collection, Sequence
from typing import cast

from recollect.agent.models import OFFLINE, OfflineModel, quotes
from recollect.messages import Message, ToolCall, ToolResult, new_message_id

_TOLD = re.compile(
    r"\s*(?:please\s+)?(?:remember|note|memori[sz]e)(?:\s+that)?[\s:,]+(?P<what>\S.*)",
    re.IGNORECASE | re.DOTALL,
)

_HIT = re.compile(r"^> \S+ \S+ (user|assistant) \([^)]*\): (?!" + OFFLINE + r")(.+)$", re.MULTILINE)


class OfflineAssistant(OfflineModel):
    """Answers without any model: notes what follows "remember", and quotes memory and other sessions."""

    def __init__(self, tools: Collection[str]) -> None:
        """Know the tools that there are."""
        self._tools = frozenset(tools)

    async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Use a tool where one helps; otherwise quote what was said about this."""
        last = messages[-1]
        if last.tool_results:
            yield _reported(last.tool_results[-1], can_note="memory" in self._tools)
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
        if not quotes(messages) and "session_search" in self._tools and last.text.strip():
            yield ToolCall(new_message_id(), "session_search", {"query": last.text})
            return
        async for part in super().respond(messages):
            yield part


def _reported(result: ToolResult, *, can_note: bool) -> str:
    """Say what a tool gave back."""
    if isinstance(result.content, dict):
        answer = cast("dict[str, object]", result.content)
        if not answer.get("success"):
            return f"{OFFLINE}. I could not note that: {answer.get('error')}"
        waits = " It waits for your approval: recollect memory approve"
        return f"{OFFLINE}. Noted.{waits if 'approval' in str(answer.get('message')) else ''}"
    hits = _HIT.findall(str(result.content))
    if not hits:
        hint = '; "remember that …" has me note something' if can_note else ""
        return f"{OFFLINE}: I only quote memory. It has nothing on this{hint}."
    said = "".join(f"\n- {role} said: {text}" for role, text in hits)
    return f"{OFFLINE}: I only quote memory. In another session:{said}"
