"""Searches the transcripts of a user's sessions: by words alone, with no model and no embedder.

Only what user and assistant said is found; tool text and audit events never are. Words are matched as
recall matches them, so there is no query syntax, and Chinese and Japanese need no spaces. Words of a single
Chinese, Japanese or Korean character are not in the index, which has pairs: they are searched in the newest
texts.
"""

import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from recollect.errors import InvalidArgumentError, MemoryNotFoundError
from recollect.messages import now
from recollect.recall.question import parse_question
from recollect.recall.results import Hit
from recollect.recall.settings import MAX_HITS, RecallSettings
from recollect.runtime.sessions.sessions import beginning_of, end_of, first_words, passage_around, talk_of
from recollect.runtime.sessions.text import (
    SNIPPET_CHARACTERS,
    Passage,
    SessionHit,
    SessionMatch,
    SessionSummary,
    find_snippet,
)
from recollect.runtime.sessions.tool import Sort, Speaker, make_tool
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle
from recollect.validation import check_choice, check_id, check_int

if TYPE_CHECKING:
    from recollect.messages import Message
    from recollect.recall.recaller import Recaller
    from recollect.storage.records import Thread
    from recollect.storage.store import Store

_SCRIPTS = ("CJK UNIFIED", "CJK COMPATIBILITY", "HIRAGANA", "KATAKANA", "HANGUL SYLLABLE")
_MOST_READ, _OF_ONE_SESSION = 5_000, 500  # messages of every role
MOST_SESSIONS = 10
"""How many sessions one search shows."""
MOST_AROUND = 20
"""How many messages before and after one are shown."""
HEAD, TAIL = 20, 10
"""How much of a long session is read: its beginning and its end."""
_HITS_SHOWN = 3  # of one session
_NEIGHBOURS = 2
_MOST_LOOKED_INTO = 1_000  # sessions, for words that the index does not have
_LONGEST_QUERY = 4_000  # as much as recall looks for
_LEAST_RELEVANCE = 1e-6  # a message that has none of the words, but stands beside one that has, is no hit
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
    ) -> list[SessionMatch]:
        """Find sessions by what was said in them, the best match first, or by the time of the match.

        With a time order, only messages that match at least half as well as the best one count.
        `session_id` searches one session alone, `without_session` leaves one out.
        """
        if sort is not None:
            check_choice(sort, "sort", get_args(Sort))
        if role is not None:
            check_choice(role, "role", get_args(Speaker))
        wanted = _terms_of(query)
        store = await self._handle.get()
        signs = lone_signs(wanted)
        if signs:
            sessions = await self._sessions(session_id, without_session, store)
            hits = await find_signs(signs, sessions, store, self._user)
        else:
            hits = await self._hits(query, session_id, without_session)
        by_session: dict[str, list[Hit]] = {}
        for hit in _ordered([hit for hit in hits if role in (None, hit.message.role)], sort):
            by_session.setdefault(hit.message.thread_id or "", []).append(hit)
        matches: list[SessionMatch] = []
        for found_id, found in list(by_session.items())[: _clamped(limit, "limit", MOST_SESSIONS)]:
            scope = self._user.with_thread(found_id)
            session = await store.get_thread(scope=scope)
            with suppress(MemoryNotFoundError):  # as with the session itself: it may be removed by now
                if session is not None:
                    matches.append(await _matched(found, session, wanted, store, scope))
        return matches

    async def scroll(self, session_id: str, message_id: str, *, window: int = 5) -> Passage:
        """Return the talk around a message, so many messages to each side; from 1 to 20 are shown."""
        count = _clamped(window, "window", MOST_AROUND)
        session, scope, store = await self._found(session_id)
        around = await passage_around(check_id(message_id, "message_id"), count, store, scope)
        return Passage(session, tuple(around))

    async def read(self, session_id: str) -> Passage:
        """Return all talk of a session; of more than 30 messages the first 20 and the last 10."""
        session, scope, store = await self._found(session_id)
        start = await beginning_of(session, HEAD + TAIL + 1, store, scope)
        if len(start) <= HEAD + TAIL:
            return Passage(session, tuple(start))
        return Passage(session, tuple(start[:HEAD]), tuple(await end_of(TAIL, store, scope)))

    async def browse(self, *, limit: int = 3, without_session: str | None = None) -> list[SessionSummary]:
        """Return the sessions that were talked in last, the latest first."""
        count = _clamped(limit, "limit", MOST_SESSIONS)
        store = await self._handle.get()
        recent = await store.list_threads(limit=count + 1, scope=self._user)
        others = [session for session in recent if session.id != without_session][:count]
        scopes = [self._user.with_thread(session.id) for session in others]
        return [
            SessionSummary(session, await first_words(session, store, scope))
            for session, scope in zip(others, scopes, strict=True)
        ]

    async def _hits(self, query: str, session_id: str | None, without_session: str | None) -> list["Hit"]:
        if self._recaller is None:
            from recollect.recall.recaller import Recaller

            self._recaller = Recaller(self._handle, None)
        scope = self._user if session_id is None else (await self._found(session_id))[1]
        settings = RecallSettings(
            MAX_HITS,
            threshold=_LEAST_RELEVANCE,
            scope="resource" if session_id is None else "thread",
            message_range=0,
            max_tokens=_UNBOUNDED,
        )
        return [*await self._recaller.search(query, settings, scope=scope, without_thread=without_session)]

    async def _sessions(
        self, session_id: str | None, without_session: str | None, store: "Store"
    ) -> list["Thread"]:
        """Return the sessions to look into, those that were talked in last first."""
        if session_id is not None:
            return [(await self._found(session_id))[0]]
        recent = await store.list_threads(limit=_MOST_LOOKED_INTO, scope=self._user)
        return [session for session in recent if session.id != without_session]

    async def _found(self, session_id: str) -> tuple["Thread", Scope, "Store"]:
        """Return a session of the user; one of somebody else is as unknown as one that never was."""
        scope = self._user.with_thread(check_id(session_id, "session_id"))
        store = await self._handle.get()
        session = await store.get_thread(scope=scope)
        if session is None:
            raise MemoryNotFoundError(f"there is no session {session_id!r:.80}")
        return session, scope, store


def _terms_of(query: object) -> tuple[str, ...]:
    """Return the terms of a query; an error where there is nothing to look for."""
    if not isinstance(query, str):
        raise InvalidArgumentError("query", f"must be text, not {type(query).__name__}")
    question = parse_question(query[:_LONGEST_QUERY], now())
    if question.is_empty:
        raise InvalidArgumentError("query", "has no words to look for")
    return question.terms


def _ordered(hits: Iterable["Hit"], sort: Sort | None) -> list["Hit"]:
    found = [*hits]
    if sort is None or not found:
        return found
    least = max(hit.relevance for hit in found) / 2
    good = [hit for hit in found if hit.relevance >= least]
    return sorted(good, key=lambda hit: hit.message.created_at, reverse=sort == "newest")


async def _matched(
    hits: Sequence["Hit"], session: "Thread", wanted: Sequence[str], store: "Store", scope: Scope
) -> SessionMatch:
    """Return what was found in a session, with what stands around the first of it."""
    found = [
        SessionHit(hit.message, find_snippet(hit.message.text, wanted, hit.segment))
        for hit in hits[:_HITS_SHOWN]
    ]
    first = found[0].message
    around = await passage_around(first.id, _NEIGHBOURS, store, scope)
    place = next(index for index, message in enumerate(around) if message.id == first.id)
    shown = {hit.message.id for hit in found}
    before, after = (
        tuple(message for message in side if message.id not in shown)
        for side in (around[:place], around[place + 1 :])
    )
    return SessionMatch(session, (replace(found[0], before=before, after=after), *found[1:]))


def _clamped(value: int, argument: str, most: int) -> int:
    """Return a number within the bounds; one that is no number at all is an error."""
    return min(max(check_int(value, argument, minimum=-_UNBOUNDED), 1), most)


def lone_signs(terms: Sequence[str]) -> tuple[str, ...]:
    """Return the terms if each of them is a single sign that is a word by itself, or nothing."""
    are_signs = all(len(term) == 1 and unicodedata.name(term, "").startswith(_SCRIPTS) for term in terms)
    return tuple(terms) if are_signs else ()


async def find_signs(
    signs: Sequence[str], sessions: Iterable["Thread"], store: "Store", user: Scope
) -> list[Hit]:
    """Return the messages that have the signs, those with most of them first, and then the newest."""
    found: list[Hit] = []
    left = _MOST_READ
    for session in sessions:
        if left <= 0:
            break
        read = await store.last_messages(min(left, _OF_ONE_SESSION), scope=user.with_thread(session.id))
        left -= len(read)
        found += [hit for message in reversed(talk_of(read)) if (hit := _hit(message, signs))]
    return sorted(found, key=lambda hit: -hit.relevance)


def _hit(message: "Message", signs: Sequence[str]) -> Hit | None:
    places = [place for sign in signs if (place := message.text.find(sign)) >= 0]
    if not places:
        return None
    share, half = len(places) / len(signs), SNIPPET_CHARACTERS // 2
    piece = (max(places[0] - half, 0), min(places[0] + half, len(message.text)))
    return Hit(message, share, share, piece)
