"""Everything that a reader can ask about a user, of a store and of the model, to be compared."""

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Any, TypeAlias

from tests.storage.model import ModelUser
from tests.storage.model_threads import KeptMessage, Place, facts_of

from recollect import Message, Scope, Store
from recollect.storage.records import SearchRow

PLACES: tuple[Place, ...] = (
    ("default", "default", "t1"),
    ("default", "default", "t2"),
    ("other", "default", "t1"),
    ("default", "other", "t1"),
)
"""The threads that every user may have."""

KEYS = ("likes", "it's", "name")
"""The keys of every user's memory."""

LIMITS = (None, 0, 1, 2, 5)
"""How many messages are asked for."""

MODELS = (None, "m1", "m2")
"""The embedding models, and none."""

UNINDEXED = ((None, True), ("m1", True), ("m1", False), ("m2", False))
"""Which model is asked for, and whether another one does too."""

Facts: TypeAlias = list[tuple[object, ...]]
"""All that can be seen of some messages."""


def in_thread(place: Place, messages: list[KeptMessage]) -> Facts:
    """Return the facts of messages of one thread of the model."""
    return [kept.facts(place) for kept in messages]


def in_any(messages: list[tuple[Place, KeptMessage]]) -> Facts:
    """Return the facts of messages of the model that may be of several threads."""
    return [kept.facts(place) for place, kept in messages]


async def facts(work: Coroutine[Any, Any, list[Message]]) -> Facts:
    """Read messages of a store and return their facts."""
    return [facts_of(message) for message in await work]


async def export(store: Store, scope: Scope) -> list[str]:
    """Return the lines of an export."""
    return [line async for line in store.export(scope=scope)]


async def rows_of_all(store: Store, scopes: Sequence[Scope]) -> list[tuple[object, object, object]]:
    """Return every row of some users: what they keep, and what search reads of it."""
    return await asyncio.gather(*(_rows(store, scope) for scope in scopes))


async def _rows(store: Store, scope: Scope) -> tuple[object, object, object]:
    lines = await export(store, scope)
    found = await store.search_rows(scope=scope)
    return [json.loads(line) for line in lines], found.rows, found.vectors


async def epochs(store: Store, scopes: Sequence[Scope]) -> list[int]:
    """Return the epochs of some users."""
    return await asyncio.gather(*(store.epoch(scope=scope) for scope in scopes))


async def memory_numbers(store: Store, scope: Scope) -> dict[str, int]:
    """Return the integer ids of a user's memory, by key."""
    return {entry.key: entry.number for entry in await store.list_memory(scope=scope)}


async def message_numbers(store: Store, scope: Scope) -> dict[str, int]:
    """Return the integer ids of a user's messages, by place and id."""
    return {
        f"{place} {message.id}": message.number or 0
        for place in PLACES
        for message in await store.last_messages(None, scope=at(scope, place))
    }


def at(scope: Scope, place: Place) -> Scope:
    """Return the scope of one of the user's threads."""
    return Scope(scope.tenant_id, scope.user_id, place[2], place[0], place[1])


async def views(store: Store, scope: Scope) -> dict[str, object]:
    """Return what a store shows of a user without being asked for a part; compare `views_of`."""
    threads = [at(scope, place) for place in PLACES]
    return {
        "history": await facts(store.user_history(scope=scope)),
        "count": await store.count_user_history(scope=scope),
        "memory": await store.list_memory(scope=scope),
        "values": [await store.get_memory(key, scope=scope) for key in KEYS],
        "state": await store.get_state(scope=scope),
        "threads": [await store.get_thread(scope=thread) for thread in threads],
        "lists": [await store.list_threads(scope=thread) for thread in threads],
        "messages": [await facts(store.last_messages(None, scope=thread)) for thread in threads],
        "events": [await events(store, thread, limit) for thread in threads for limit in LIMITS],
        "unindexed": [
            (await store.unindexed_messages(model, any_model=any_model, scope=scope)).messages
            for model, any_model in UNINDEXED
        ],
        "unindexed count": [await store.count_unindexed(model, scope=scope) for model in MODELS],
        "summary": await _summary(store, scope),
    }


async def _summary(store: Store, scope: Scope) -> tuple[object, ...] | None:
    """Return what the list of users says of a user, without bytes; None where the list lacks the user."""
    before = f"{scope.user_id[:-1]}{chr(ord(scope.user_id[-1]) - 1)}\U0010ffff"
    listed = await store.list_users(after=before, limit=1, tenant_id=scope.tenant_id)
    if not listed or listed[0].user_id != scope.user_id:
        return None
    return listed[0].threads, listed[0].messages, listed[0].last_activity_at


def views_of(user: ModelUser) -> dict[str, object]:
    """Return what the model says that `views` must be."""
    return {
        "history": in_any(user.user_history()),
        "count": len(user.user_history()),
        "memory": [user.memory[key] for key in sorted(user.memory)],
        "values": [user.memory.get(key) for key in KEYS],
        "state": user.state,
        "threads": [user.thread(place) if place in user.threads else None for place in PLACES],
        "lists": [user.list_threads(place) for place in PLACES],
        "messages": [in_thread(place, user.last_messages(place, None)) for place in PLACES],
        "events": [events_of(user, place, limit) for place in PLACES for limit in LIMITS],
        "unindexed": [user.unindexed(model, any_model=any_model) for model, any_model in UNINDEXED],
        "unindexed count": [len(user.unindexed(model)) for model in MODELS],
        "summary": (len(user.threads), len(user.all_messages()), user.last_activity_at())
        if user.is_known
        else None,
    }


async def events(store: Store, scope: Scope, limit: int | None) -> list[tuple[object, ...]]:
    """Return the events of a thread, and of all threads beside it; compare `events_of`."""
    found = [
        *await store.list_events(limit=limit, scope=scope),
        *await store.list_events(limit=limit, scope=scope.with_thread(None)),
    ]
    return [(e.thread_id, e.name, e.run_id, e.payload, e.created_at.isoformat()) for e in found]


def events_of(user: ModelUser, place: Place, limit: int | None) -> list[tuple[object, ...]]:
    """Return what the model says that `events` must be."""
    found = [
        *user.list_events(place, limit, all_threads=False),
        *user.list_events(place, limit, all_threads=True),
    ]
    names = ("thread_id", "name", "run_id", "payload", "created_at")
    return [tuple(event[name] for name in names) for event in found]


async def parts(store: Store, scope: Scope, ids: list[str], after: list[int]) -> dict[str, object]:
    """Return what a store shows of a thread part by part; compare `parts_of`."""
    every = scope.with_thread(None)
    return {
        "last": [await facts(store.last_messages(limit, scope=scope)) for limit in LIMITS],
        "before": [await facts(store.messages_before(item, 2, scope=scope)) for item in ids],
        "after": [await facts(store.messages_after(item, 2, scope=scope)) for item in ids],
        "all after": [await facts(store.messages_after(item, None, scope=scope)) for item in ids],
        "pages": [
            await facts(store.page_of_messages(limit=size, offset=offset, scope=scope))
            for size, offset in _pages(len(ids))
        ],
        "one": [await facts(store.messages_by_id([item], scope=scope)) for item in ids],
        "around": [
            await facts(store.messages_by_id(ids[::4], with_previous=1, with_next=1, scope=look))
            for look in (scope, every)
        ],
        "history": await facts(store.user_history(limit=2, offset=1, scope=every)),
        "threads": await store.list_threads(limit=1, offset=1, scope=scope),
        "rows": [await _read_pages(store, number, scope) for number in after],
        "vectors": [(await store.search_rows(vectors_from=number, scope=scope)).vectors for number in after],
        "vectors of": (await store.search_rows(vectors_from=None, vectors_of=after, scope=scope)).vectors,
    }


def parts_of(user: ModelUser, place: Place, ids: list[str], after: list[int]) -> dict[str, object]:
    """Return what the model says that `parts` must be."""
    return {
        "last": [in_thread(place, user.last_messages(place, limit)) for limit in LIMITS],
        "before": [in_thread(place, user.messages_before(place, item, 2)) for item in ids],
        "after": [in_thread(place, user.messages_after(place, item, 2)) for item in ids],
        "all after": [in_thread(place, user.messages_after(place, item, None)) for item in ids],
        "pages": [
            in_thread(place, user.page_of_messages(place, size, offset)) for size, offset in _pages(len(ids))
        ],
        "one": [in_any(user.messages_by_id(place, [item], (0, 0), all_threads=False)) for item in ids],
        "around": [
            in_any(user.messages_by_id(place, ids[::4], (1, 1), all_threads=every)) for every in (False, True)
        ],
        "history": in_any(user.user_history()[1:3]),
        "threads": user.list_threads(place)[1:2],
        "rows": [[row for row in user.search_rows() if row.number > number] for number in after],
        "vectors": [[row for row in user.vectors() if row.number >= number] for number in after],
        "vectors of": [row for row in user.vectors() if row.number in after],
    }


async def _read_pages(store: Store, after: int | None, scope: Scope) -> list[SearchRow]:
    """Return the search rows after a number, read two messages at a time."""
    rows: list[SearchRow] = []
    while after is not None:
        found = await store.search_rows(after=after, vectors_from=None, limit=2, scope=scope)
        rows += found.rows
        after = found.up_to
    return rows


def _pages(count: int) -> list[tuple[int, int]]:
    return [(size, offset) for size in (1, 3) for offset in range(0, count + 1, size)]
