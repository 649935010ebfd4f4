"""The tool with which a model searches and reads the user's other sessions."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from recollect.errors import InvalidArgumentError, MemoryNotFoundError
from recollect.pipeline.context import tool_context
from recollect.recall.filters import Speaker
from recollect.runtime.sessions.rendering import quote_matches, quote_passage, quote_summaries
from recollect.text.quoting import neutralise
from recollect.validation import parse_time

if TYPE_CHECKING:
    from recollect.runtime.sessions.search import SessionSearch

Sort: TypeAlias = Literal["newest", "oldest"]
"""How sessions are ordered where the best match is not to come first."""

OWNER = "session-search"
"""The name under which the tool asks for its run."""

NOTHING_FOUND = "Nothing was found. Try other words, or give no arguments to see the recent sessions."
"""The answer to a query that no session fits."""

NO_SESSIONS = "There are no other sessions yet."
"""The answer where there is nothing to list."""

NO_MESSAGES = "Nothing was said in this session."
"""The answer to reading a session without messages of user or assistant."""

WHICH_SESSION = "around_message_id needs session_id: give the session that the message was found in."
"""The answer where a message is named without its session."""


def make_tool(search: "SessionSearch") -> Callable[..., Awaitable[str]]:
    """Return the tool; it knows by its run which session is the present one."""

    async def session_search(  # noqa: PLR0913, PLR0917 - one for each thing that the model may say
        query: str | None = None,
        session_id: str | None = None,
        around_message_id: str | None = None,
        window: int | None = 5,
        limit: int | None = 3,
        sort: Sort | None = None,
        role: Speaker | None = None,
        after: str | None = None,
        before: str | None = None,
    ) -> str:
        """Look into earlier sessions with this user: what the user and you said in them, word for word.

        Use it when the user mentions an earlier conversation, or when something that you need is not in this
        session. Four ways, by what you give: a query finds other sessions by words; session_id with
        around_message_id shows the messages around one that was found; session_id alone reads a
        session; nothing at all lists the recent other sessions. What was said then is secondary evidence:
        it may be out of date or wrong, and does not prove how things are now.

        Args:
            query: Words to look for, in any language. There is no syntax: quotes, AND, OR and * mean nothing.
            session_id: The session to read, scroll or search in, as an earlier answer named it.
            around_message_id: The message to scroll to, as an earlier answer named it; needs session_id.
            window: How many messages before and after that message to show, from 1 to 20.
            limit: How many sessions to show, from 1 to 10.
            sort: "newest" or "oldest" orders what was found by time; left out, the best match comes first.
            role: "user" or "assistant" finds only what that side said.
            after: A date such as 2026-03-31: a query finds only what was said on that day or later.
            before: A date: a query finds only what was said before that day.
        """
        here = tool_context(OWNER).ids.thread_id
        # A model may say null for what it does not care about.
        window, limit = (5 if window is None else window), (3 if limit is None else limit)
        try:
            if around_message_id:
                if not session_id:
                    return WHICH_SESSION
                passage = await search.scroll(session_id, around_message_id, window=window)
                return quote_passage(passage, around_message_id)
            if query is not None and (query.strip() or not session_id):
                found = await search.search(
                    query,
                    session_id=session_id or None,
                    without_session=None if session_id else here,
                    limit=limit,
                    sort=sort,
                    role=role,
                    after=_parse_date(after, "after"),
                    before=_parse_date(before, "before"),
                )
                return quote_matches(found) if found else NOTHING_FOUND
            return await (_read(search, session_id) if session_id else _browse(search, limit, here))
        except (MemoryNotFoundError, InvalidArgumentError) as error:
            return neutralise(f"{error}. Give no arguments to see the recent sessions.")

    return session_search


async def _read(search: "SessionSearch", session_id: str) -> str:
    passage = await search.read(session_id)
    return quote_passage(passage) if passage.messages else NO_MESSAGES


async def _browse(search: "SessionSearch", limit: int, here: str | None) -> str:
    recent = await search.browse(limit=limit, without_session=here)
    return quote_summaries(recent) if recent else NO_SESSIONS


def _parse_date(text: str | None, argument: str) -> datetime | None:
    """Return the time that the model names; an empty text is none, as null is."""
    return parse_time(text, argument) if text else None
