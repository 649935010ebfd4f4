"""Turns to write while something breaks, and the check that none is lost or half there.

The run id of a turn ends with its number of messages, so that a stored turn tells by itself whether
it is whole.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, Self

from recollect import Message, Scope, Store, TextPart, ToolCall, ToolResult

SCOPES = tuple(
    Scope(tenant, user, thread)
    for tenant in (1, None)
    for user in ("ann", "bob")
    for thread in ("one", "two")
)
"""Two threads for each of two users of two tenants."""

USERS = SCOPES[::2]
"""One scope for each user."""


class Ack(NamedTuple):
    """What a writer was told about a turn: which it is, and where its messages stand."""

    run_id: str
    places: tuple[tuple[int, int], ...]

    def to_bytes(self) -> bytes:
        """Write it as one line."""
        return json.dumps(self).encode()

    @classmethod
    def from_bytes(cls, line: bytes) -> Self:
        """Read it back."""
        run_id, places = json.loads(line)
        return cls(run_id, tuple((position, number) for position, number in places))


class Turn(NamedTuple):
    """A turn that knows where it goes."""

    run_id: str
    messages: list[Message]
    scope: Scope

    async def write(self, store: Store) -> Ack:
        """Append it and return what the store answers."""
        placed = await store.append_turn(self.messages, scope=self.scope, run_id=self.run_id)
        return Ack(self.run_id, tuple((place.position, place.number) for place in placed))


def make_turn(rng: random.Random, name: str, *, scope: Scope | None = None, words: int = 12) -> Turn:
    """Make a turn of one to four messages; the longer ones use a tool."""
    size = rng.randint(1, 4)
    run_id = f"{name}/{size}"
    said = " ".join(rng.choice(("tea", "Käse", "train", "雨", "seven", "left")) for _ in range(words))
    call = [TextPart("Let me look."), ToolCall(f"{run_id}:call", "look", {"words": words})]
    result = [ToolResult(f"{run_id}:call", "look", {"found": [said[:20]]})]
    bodies = (
        [("user", said)],
        [("user", said), ("assistant", said[::-1])],
        [("user", said), ("assistant", call), ("tool", result)],
        [("user", said), ("assistant", call), ("tool", result), ("assistant", said[::-1])],
    )[size - 1]
    messages = [
        Message(role, body, id=f"{run_id}#{index}")  # pyright: ignore[reportArgumentType] - roles as written above
        for index, (role, body) in enumerate(bodies)
    ]
    return Turn(run_id, messages, scope or rng.choice(SCOPES))


async def check_whole(store: Store, acknowledged: Iterable[Ack], scopes: Iterable[Scope] = SCOPES) -> int:
    """Make sure that acknowledged turns are stored and that stored turns are whole; count the stored ones."""
    turns: dict[str, list[Message]] = defaultdict(list)
    searchable: dict[Scope, set[int]] = defaultdict(set)
    for scope in scopes:
        messages = await _messages_of(store, scope)
        searchable[scope.with_thread(None)] |= {
            message.number or 0 for message in messages if message.is_conversation
        }
        for message in messages:
            turns[message.run_id or ""].append(message)
    for run_id, messages in turns.items():
        _check_turn(run_id, messages)
    for scope, numbers in searchable.items():
        rows = (await store.search_rows(scope=scope)).rows
        assert {row.number for row in rows} == numbers, f"the search rows of {scope} are not its conversation"
    for ack in acknowledged:
        places = tuple((message.position, message.number) for message in turns.get(ack.run_id, ()))
        assert places == ack.places, f"acknowledged turn {ack.run_id} is {places}, not {ack.places}"
    return len(turns)


async def _messages_of(store: Store, scope: Scope) -> list[Message]:
    messages = await store.last_messages(None, scope=scope)
    positions = [message.position for message in messages]
    assert positions == list(range(1, len(messages) + 1)), f"gaps in {scope}: {positions}"
    thread = await store.get_thread(scope=scope)
    counted = thread.message_count if thread else 0
    assert counted == len(messages), f"{scope} counts {counted} messages but has {len(messages)}"
    return messages


def _check_turn(run_id: str, messages: list[Message]) -> None:
    size = int(run_id.rpartition("/")[2])
    ids = [message.id for message in messages]
    assert ids == [f"{run_id}#{index}" for index in range(size)], f"turn {run_id} is not whole: {ids}"
    first = messages[0].position or 0
    places = {(message.thread_id, message.position) for message in messages}
    expected = {(messages[0].thread_id, first + index) for index in range(size)}
    assert places == expected, f"turn {run_id} is not contiguous: {places}"
