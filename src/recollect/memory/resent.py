"""Recognising what a thread already has in a prompt, for clients that send their whole history again.

Ids are not enough, because many clients make none. So both sides are read as talk, that is who said what,
and laid side by side in order. Whatever stands before the last passage that both have is old: it is kept
already, or it was taken out of the thread. Only what follows is new.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from recollect.messages import Message
from recollect.scope import Scope
from recollect.storage.store import Store

_MOST_LAID_SIDE_BY_SIDE = 200  # the time for this grows faster than the length, and the end is what counts
_SURE_LENGTH = 2  # a shorter passage in the middle of a prompt may be the same by chance
_READ_MORE = 4


class Said(NamedTuple):
    """What one side said at a time, and the place of the message that ends it."""

    role: str
    text: str
    last: int


def sent_before_the_prompt(messages: Sequence[Message]) -> list[Message]:
    """Return what the caller sent before the message that is to be answered, without system messages."""
    return [message for message in messages if message.origin == "input" and message.role != "system"][:-1]


def repeated_ids(messages: Sequence[Message], stored: Sequence[Message]) -> set[str]:
    """Return the ids of the messages in a prompt that the thread has already.

    The last message is the prompt itself, and system messages are never stored: they are always new.
    """
    earlier = sent_before_the_prompt(messages)
    here = {message.id for message in stored}
    return {message.id for message in earlier[: _end_of_known(earlier, stored)]} | {
        message.id for message in earlier if message.id in here
    }


async def read_thread(
    store: Store, scope: Scope, *, shown: int | None, sent: int, with_system: bool = False
) -> list[Message]:
    """Read the end of a thread: as many messages as are shown, and as much talk as a client has sent."""
    limit = None if shown is None else max(shown, sent)
    while limit != 0:
        found = await store.last_messages(limit, scope=scope)
        if limit is None or shown is None or len(found) < limit:
            return found
        visible = sum(with_system or message.role != "system" for message in found)
        if visible >= shown and len(_talk(found)) >= sent:
            return found
        limit *= _READ_MORE
    return []


def _end_of_known(earlier: Sequence[Message], stored: Sequence[Message]) -> int:
    """Return how many of the messages sent are old."""
    said, kept = _talk(earlier), _talk(stored)
    if not said or not kept:
        return 0
    if _lines(said) == _lines(kept[-len(said) :]):
        return len(earlier)
    said, kept = said[-_MOST_LAID_SIDE_BY_SIDE:], kept[-_MOST_LAID_SIDE_BY_SIDE:]
    blocks = SequenceMatcher(None, _lines(said), _lines(kept), autojunk=False).get_matching_blocks()
    ends = [
        block.a + block.size for block in blocks if _is_sure(said[block.a : block.a + block.size], block.a)
    ]
    return said[ends[-1] - 1].last + 1 if ends else 0


def _is_sure(passage: Sequence[Said], start: int) -> bool:
    """Whether a passage is no chance: an answer is in it, and more, or it is what the client begins with."""
    answered = any(said.role == "assistant" for said in passage)
    return answered and (start == 0 or len(passage) >= _SURE_LENGTH)


def _talk(messages: Sequence[Message]) -> list[Said]:
    """Return who said what; what the assistant says around its tool calls is one answer."""
    talk: list[Said] = []
    for place, message in enumerate(messages):
        if not message.is_conversation:
            continue
        text = message.text.strip()
        if message.role == "assistant" and talk and talk[-1].role == "assistant":
            text = f"{talk.pop().text}\n{text}"
        talk.append(Said(message.role, text, place))
    return talk


def _lines(talk: Sequence[Said]) -> list[tuple[str, str]]:
    return [(said.role, said.text) for said in talk]
