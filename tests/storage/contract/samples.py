"""Messages, users and shorthands that the tests of the contract share."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from recollect.messages import Message, Role, ToolCall, ToolResult
from recollect.scope import Scope
from recollect.storage.records import MessageTerms
from recollect.storage.store import Store
from recollect.text.terms import analyse

Values: TypeAlias = tuple[object, ...]
"""Values for one argument, each of them wrong."""

UNICODE = (
    "naïve 日本語 \U0001f600 e\u0301 \u202eright to left\u202c \ufeff\ufffe\uffff \x85\u2028"
    " \x01\x7f\r\n\t 'q' \"Q\" \\ %s :x"
)
"""Text with everything that encodings, SQL and JSON fail on, except NUL and lone surrogates."""

ANN = Scope(1, "ann", "t")
"""The user, and the thread, that most tests are about."""

BOB = Scope(1, "bob", "t")
"""Another user of the same tenant."""

OTHERS = (
    BOB,
    Scope(2, "ann", "t"),
    Scope(None, "ann", "t"),
)
"""Users who differ from `ANN` in the user or in the tenant, and share every other name."""

ELSEWHERE = (
    Scope(1, "ann", "t", app_id="other"),
    Scope(1, "ann", "t", project_id="other"),
    Scope(1, "ann", "t", app_id="other", project_id="other"),
)
"""Places of the same user that differ from `ANN` in the app or in the project."""


def nested(depth: int) -> object:
    """Return lists in lists."""
    value: object = None
    for _ in range(depth):
        value = [value]
    return value


def said(*texts: str) -> list[Message]:
    """Return a conversation that the user begins; each text is the id of its message too."""
    return [Message(_speaker(index), text, id=text) for index, text in enumerate(texts)]


def call(message_id: str, *call_ids: str) -> Message:
    """Return a message with tool calls."""
    return Message("assistant", [ToolCall(name, "tool", {"of": name}) for name in call_ids], id=message_id)


def result(message_id: str, *call_ids: str) -> Message:
    """Return a message with the results of tool calls."""
    return Message("tool", [ToolResult(name, "tool", {"of": name}) for name in call_ids], id=message_id)


def ids_of(messages: Iterable[Message]) -> list[str]:
    """Return the ids of messages."""
    return [message.id for message in messages]


async def whole_thread(store: Store, scope: Scope = ANN) -> list[Message]:
    """Return all messages of a thread."""
    return await store.last_messages(None, scope=scope)


async def exported(store: Store, scope: Scope = ANN) -> list[str]:
    """Return the lines of a user's export."""
    return [line async for line in store.export(scope=scope)]


async def exported_body(store: Store, scope: Scope = ANN) -> list[str]:
    """Return the lines of an export without the first, which names the user."""
    return (await exported(store, scope))[1:]


async def append_turns(store: Store, turns: Iterable[Sequence[Message]], scope: Scope = ANN) -> None:
    """Append turns one after the other."""
    for turn in turns:
        await store.append_turn(turn, scope=scope)


def terms_of(number: int, text: str, *vectors: bytes) -> MessageTerms:
    """Return the search rows of a message: the terms of its text, and a vector for each segment."""
    terms = analyse(text)
    asks = any(mark in text for mark in "?\uff1f\u061f")
    return MessageTerms(number, asks, terms.hashes, terms.counts, vectors)


async def index_all(
    store: Store, scope: Scope = ANN, *, model_id: str | None = None, vector: bytes = bytes(4)
) -> int:
    """Store search rows for all messages that lack them, with a vector each if a model is named."""
    waiting = await store.unindexed_messages(model_id, limit=1000, scope=scope)
    vectors = () if model_id is None else (vector,)
    items = [terms_of(message.number, message.text, *vectors) for message in waiting.messages]
    if not items:
        return 0
    return await store.put_search_rows(items, model_id=model_id, erase_epoch=waiting.erase_epoch, scope=scope)


async def keep_every_kind(store: Store, scope: Scope = ANN) -> None:
    """Store something of every kind for a user: threads, a tool call, memory, a state, fields, events."""
    await store.append_turn(said("hello", "hi"), scope=scope, run_id="run 1")
    turn = [call("call", "c"), result("result", "c"), Message("assistant", "done", id="done")]
    await store.append_turn(turn, scope=scope)
    second = scope.with_thread("second")
    await store.create_thread(title="Second", metadata={"pinned": True}, scope=second)
    await store.append_turn([Message("system", "be kind", id="rule")], scope=second)
    await store.set_memory("likes", {"tea": ["green", "black"]}, scope=scope)
    await store.set_memory("name", {"first": "Ann"}, scope=scope)
    await store.set_state("active", scope=scope)
    await store.update_working_memory({"name": "Ann"}, scope=scope.with_thread(None))
    await store.update_working_memory({"name": None, "city": "Rome"}, scope=scope.with_thread(None))
    await store.update_working_memory({"topic": "tea"}, run_id="run 1", scope=second)
    await store.add_event("recalled", {"count": 2}, run_id="run 1", scope=scope)
    await store.add_event("started", {}, scope=scope.with_thread("not there yet"))


def _speaker(index: int) -> Role:
    return "assistant" if index % 2 else "user"
