"""The offline model of the runtime: it notes what it is told to, and otherwise quotes memory."""

import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress
from typing import cast

from recollect.agent.models import OFFLINE, OfflineModel, find_quotes
from recollect.errors import RecollectError
from recollect.messages import Message, ToolCall, new_message_id
from recollect.runtime.sessions.rendering import SessionHit, quote_hit
from recollect.runtime.sessions.search import SessionSearch
from recollect.text.quoting import quote
from recollect.tool_pairs import ToolPair, pair_calls

_REMEMBER = re.compile(
    r"\s*(?:please\s+)?(?:remember|note|memori[sz]e)(?:\s+that)?[\s:,]+(?P<what>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_MAX_SESSIONS = 4  # what the tool finds by default, and the present one


class OfflineAssistant(OfflineModel):
    """Answers without any model: notes what follows "remember", and quotes memory and other sessions."""

    def __init__(self, tools: Collection[str], sessions: SessionSearch) -> None:
        self._tools = frozenset(tools)
        self._sessions = sessions

    async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Use a tool where one helps; otherwise quote what was said about this."""
        last = messages[-1]
        if last.tool_results:
            yield await self._report([*pair_calls(messages)][-1])
            return
        told = _REMEMBER.fullmatch(last.text)
        if told and "memory" in self._tools:
            arguments: dict[str, object] = {
                "target": "user",
                "action": "add",
                "content": told["what"].strip(),
            }
            yield ToolCall(new_message_id(), "memory", arguments)
            return
        if not find_quotes(messages) and "session_search" in self._tools and last.text.strip():
            yield ToolCall(new_message_id(), "session_search", {"query": last.text})
            return
        async for part in super().respond(messages):
            yield part

    async def _report(self, pair: ToolPair) -> str:
        """Say what a tool gave back."""
        if isinstance(pair.result.content, dict):
            return _report_note(cast("dict[str, object]", pair.result.content))
        hits = await self._find_again(pair)
        if not hits:
            hint = '; "remember that …" has me note something' if "memory" in self._tools else ""
            return f"{OFFLINE}: I only quote memory. It has nothing on this{hint}."
        said = "".join(f"\n- {hit.message.role} said: {quote(hit.snippet)}" for hit in hits)
        return f"{OFFLINE}: I only quote memory. In another session:{said}"

    async def _find_again(self, pair: ToolPair) -> list[SessionHit]:
        """Return what the tool found, without what the guards have taken out of its answer."""
        shown = str(pair.result.content)
        with suppress(RecollectError):  # the tool has failed as well, and has said so
            query = str(pair.call.arguments.get("query"))
            found = await self._sessions.search(query, limit=_MAX_SESSIONS)
            hits = [hit for match in found for hit in match.hits]
            return [h for h in hits if quote_hit(h) in shown and not h.snippet.startswith(OFFLINE)]
        return []


def _report_note(answer: dict[str, object]) -> str:
    if not answer.get("success"):
        return f"{OFFLINE}. I could not note that: {answer.get('error')}"
    waits = " It waits for your approval: recollect memory approve" if "waits_for_approval" in answer else ""
    return f"{OFFLINE}. Noted.{waits}"
