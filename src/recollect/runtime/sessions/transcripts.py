"""Reading the talk of a session: what user and assistant said, without what tools said in between."""

from collections.abc import Iterable

from recollect.errors import MemoryNotFoundError
from recollect.messages import Message
from recollect.scope import Scope
from recollect.storage.records import Thread
from recollect.storage.store import Store

_PAGE = 200
_MOST_AROUND = 1_000  # of every role; as many as the store reads around a message
_FIRST_WORDS = 200


def talk_of(messages: Iterable[Message]) -> list[Message]:
    """Return what is part of the talk."""
    return [message for message in messages if message.is_conversation]


async def beginning_of(session: Thread, count: int, store: Store, scope: Scope) -> list[Message]:
    """Return the first messages of the talk."""
    found: list[Message] = []
    for offset in range(0, session.message_count, _PAGE):
        found += talk_of(await store.page_of_messages(limit=_PAGE, offset=offset, scope=scope))
        if len(found) >= count:
            break
    return found[:count]


async def end_of(count: int, store: Store, scope: Scope) -> list[Message]:
    """Return the last messages of the talk."""
    limit = 4 * count
    while True:
        read = await store.last_messages(limit, scope=scope)
        found = talk_of(read)
        if len(found) >= count or len(read) < limit:
            return found[-count:]
        limit *= 8


async def passage_around(message_id: str, count: int, store: Store, scope: Scope) -> list[Message]:
    """Return a message with so many of the talk before and after it; an unknown one is an error."""
    reach = 4 * count
    before, found, after = await _around(message_id, reach, store, scope)
    # A side with fewer messages than were asked for ends with the session; else tools said much in between.
    if any(len(talk_of(side)) < count and len(side) >= reach for side in (before, after)):
        before, found, after = await _around(message_id, _MOST_AROUND, store, scope)
    return [*talk_of(before)[-count:], found, *talk_of(after)[:count]]


async def _around(
    message_id: str, reach: int, store: Store, scope: Scope
) -> tuple[list[Message], Message, list[Message]]:
    read = await store.messages_by_id([message_id], with_previous=reach, with_next=reach, scope=scope)
    for place, message in enumerate(read):
        if message.id == message_id and message.is_conversation:
            return read[:place], message, read[place + 1 :]
    raise MemoryNotFoundError(f"session {scope.thread_id!r:.80} has no message {message_id!r:.80}")


async def first_words(session: Thread, store: Store, scope: Scope) -> str:
    """Return the words that a session began with."""
    found = await beginning_of(session, 1, store, scope)
    return found[0].text[:_FIRST_WORDS] if found else ""
