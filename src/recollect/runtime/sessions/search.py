"""Searches the transcripts of a user's sessions: by words alone, with no model and no embedder.

Only what user and assistant said is found; tool text and audit events never are. Words are matched as
recall matches them, so there is no query syntax, and Chinese and Japanese need no spaces.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, get_args

from recollect.errors import InvalidArgumentError, MemoryNotFoundError
from recollect.messages import now
from recollect.recall.filters import RecallFilter, Speaker
from recollect.recall.question import parse_question
from recollect.recall.settings import MAX_HITS, RecallSettings
from recollect.runtime.sessions.rendering import (
    Passage,
    SessionHit,
    SessionMatch,
    SessionSummary,
    find_snippet,
)
from recollect.runtime.sessions.sessions import (
    read_around,
    read_first,
    read_first_words,
    read_last,
)
from recollect.runtime.sessions.tool import Sort, make_tool
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle
from recollect.text.terms import terms_of
from recollect.validation import check_choice, check_id, check_int

if TYPE_CHECKING:
    from recollect.recall.recaller import Recaller
    from recollect.recall.results import Hit, Recall
    from recollect.storage.records import Thread
    from recollect.storage.store import Store

MAX_SESSIONS = 10
"""How many sessions one search shows."""
MAX_WINDOW = 20
"""How many messages before and after one are shown."""
HEAD, TAIL = 20, 10
"""How much of a long session is read: its beginning and its end."""
_MAX_HITS_SHOWN = 3  # of one session
_NEIGHBOURS = 2
_MAX_QUERY_CHARACTERS = 4_000  # as much as recall looks for
_MIN_RELEVANCE = 1e-6  # drops neighbours of a hit that have none of the words themselves
_UNBOUNDED = 10**9


class SessionSearch:
    """Search, scrolling, reading and browsing of one user's sessions, for programs and as a tool."""

    def __init__(self, handle: StoreHandle, user: Scope) -> None:
        """Look into a store that is opened when it is first needed."""
        self._handle = handle
        self._user = user
        self._recaller: Recaller | None = None
        self._tool = make_tool(self)

    def get_tools(self) -> Sequence[Callable[..., Awaitable[str]]]:
        """Return the tool `session_search`."""
        return [self._tool]

    async def search(
        self,
        query: str,
        *,
        session_id: str | None = None,
        without_session: str | None = None,
        limit: int = 3,
        sort: Sort | None = None,
        role: Speaker | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
    ) -> list[SessionMatch]:
        """Find sessions by what was said in them, the best match first, or by the time of the match.

        With a time order, only messages that match at least half as well as the best one count.
        `session_id` searches one session alone, `without_session` leaves one out. `role`, `after` (inclusive)
        and `before` (exclusive) say what may match; the messages around a match are shown in any case.
        """
        if sort is not None:
            check_choice(sort, "sort", get_args(Sort))
        filters = RecallFilter(role, after=after, before=before)
        wanted = _parse_terms(query)
        terms = set(wanted)  # recall also finds messages beside a match, which have none of the words
        store = await self._handle.get()
        hits = await self._recall(query, filters, session_id, without_session)
        by_session: dict[str, list[Hit]] = {}
        matching = [hit for hit in hits if not terms.isdisjoint(terms_of(hit.text))]
        for hit in _sort_hits(matching, sort):
            by_session.setdefault(hit.message.thread_id or "", []).append(hit)
        matches: list[SessionMatch] = []
        for found_id, found in list(by_session.items())[: _clamp(limit, "limit", MAX_SESSIONS)]:
            scope = self._user.with_thread(found_id)
            session = await store.get_thread(scope=scope)
            with suppress(MemoryNotFoundError):  # as with the session itself: it may be removed by now
                if session is not None:
                    matches.append(await _make_match(found, session, wanted, store, scope))
        return matches

    async def scroll(self, session_id: str, message_id: str, *, window: int = 5) -> Passage:
        """Return the messages around one, `window` on each side; clamped to between 1 and 20."""
        count = _clamp(window, "window", MAX_WINDOW)
        session, scope, store = await self._get_session(session_id)
        around = await read_around(check_id(message_id, "message_id"), count, store, scope)
        return Passage(session, tuple(around))

    async def read(self, session_id: str) -> Passage:
        """Return the messages of a session; if there are more than 30, the first 20 and the last 10."""
        session, scope, store = await self._get_session(session_id)
        start = await read_first(session, HEAD + TAIL + 1, store, scope)
        if len(start) <= HEAD + TAIL:
            return Passage(session, tuple(start))
        return Passage(session, tuple(start[:HEAD]), tuple(await read_last(TAIL, store, scope)))

    async def browse(self, *, limit: int = 3, without_session: str | None = None) -> list[SessionSummary]:
        """Return the sessions with the newest messages, the latest first."""
        count = _clamp(limit, "limit", MAX_SESSIONS)
        store = await self._handle.get()
        recent = await store.list_threads(limit=count + 1, scope=self._user)
        others = [session for session in recent if session.id != without_session][:count]
        scopes = [self._user.with_thread(session.id) for session in others]
        return [
            SessionSummary(session, await read_first_words(session, store, scope))
            for session, scope in zip(others, scopes, strict=True)
        ]

    async def close(self) -> None:
        """Stop indexing in the background; the next search continues."""
        if self._recaller is not None:
            await self._recaller.close()

    async def _recall(
        self, query: str, filters: RecallFilter, session_id: str | None, without_session: str | None
    ) -> "Recall":
        if self._recaller is None:
            from recollect.recall.recaller import Recaller

            self._recaller = Recaller(self._handle, None)
        scope = self._user if session_id is None else (await self._get_session(session_id))[1]
        settings = RecallSettings(
            MAX_HITS,
            threshold=_MIN_RELEVANCE,
            scope="resource" if session_id is None else "thread",
            message_range=0,
            max_tokens=_UNBOUNDED,
        )
        return await self._recaller.search(
            query, settings, scope=scope, filters=filters, without_thread=without_session
        )

    async def _get_session(self, session_id: str) -> tuple["Thread", Scope, "Store"]:
        """Return a session of the user; one of somebody else is as unknown as one that never was."""
        scope = self._user.with_thread(check_id(session_id, "session_id"))
        store = await self._handle.get()
        session = await store.get_thread(scope=scope)
        if session is None:
            raise MemoryNotFoundError(f"there is no session {session_id!r:.80}")
        return session, scope, store


def _parse_terms(query: object) -> tuple[str, ...]:
    """Return the terms of a query; an error where there is nothing to look for."""
    if not isinstance(query, str):
        raise InvalidArgumentError("query", f"must be text, not {type(query).__name__}")
    question = parse_question(query[:_MAX_QUERY_CHARACTERS], now())
    if question.is_empty:
        raise InvalidArgumentError("query", "has no words to look for")
    return question.terms


def _sort_hits(hits: Iterable["Hit"], sort: Sort | None) -> list["Hit"]:
    found = [*hits]
    if sort is None or not found:
        return found
    least = max(hit.relevance for hit in found) / 2
    good = [hit for hit in found if hit.relevance >= least]
    return sorted(good, key=lambda hit: hit.message.created_at, reverse=sort == "newest")


async def _make_match(
    hits: Sequence["Hit"], session: "Thread", wanted: Sequence[str], store: "Store", scope: Scope
) -> SessionMatch:
    """Return the hits of a session, with the messages around the first hit."""
    found = [
        SessionHit(hit.message, find_snippet(hit.message.text, wanted, hit.segment))
        for hit in hits[:_MAX_HITS_SHOWN]
    ]
    first = found[0].message
    around = await read_around(first.id, _NEIGHBOURS, store, scope)
    place = next(index for index, message in enumerate(around) if message.id == first.id)
    shown = {hit.message.id for hit in found}
    before, after = (
        tuple(message for message in side if message.id not in shown)
        for side in (around[:place], around[place + 1 :])
    )
    return SessionMatch(session, (replace(found[0], before=before, after=after), *found[1:]))


def _clamp(value: int, argument: str, most: int) -> int:
    """Return a number within the bounds; one that is no number at all is an error."""
    return min(max(check_int(value, argument, minimum=-_UNBOUNDED), 1), most)
