"""Messages that a program adds and pages through: ids, times and metadata stay, and no page loses one."""

from datetime import UTC, datetime
from typing import Any

import pytest

from recollect import (
    ConflictError,
    InvalidArgumentError,
    Memory,
    MemoryNotFoundError,
    Message,
    Store,
    ToolCall,
    ToolResult,
)

pytestmark = pytest.mark.anyio

THEN = datetime(2020, 5, 6, 9, 30, tzinfo=UTC)


def memory_of(store: Store) -> Memory:
    """Return ada's memory."""
    return Memory(store, user_id="ada")


def conversation(turns: int) -> list[Message]:
    """Return turns with a tool call, its result and an answer each, and some without a call."""
    messages: list[Message] = []
    for n in range(turns):
        messages.append(Message("user", f"question {n}", id=f"q{n}"))
        if n % 3:
            calls = [ToolCall(f"c{n}-{k}", "lookup", {}) for k in range(n % 3)]
            messages.append(Message("assistant", calls, id=f"c{n}"))
            messages += [
                Message("tool", [ToolResult(call.id, "lookup", "found")], id=f"r{call.id}") for call in calls
            ]
        messages.append(Message("assistant", f"answer {n}", id=f"a{n}"))
    return messages


async def page_back(memory: Memory, limit: int, **ids: Any) -> list[list[Message]]:  # noqa: ANN401 - those of a call
    """Return all pages of a thread, the newest first."""
    pages = [await memory.get_messages(limit, **ids)]
    while pages[-1]:
        pages.append(await memory.get_messages(limit, before=pages[-1][0].id, **ids))
        assert len(pages) < 100, "paging back does not end"
    return pages[:-1]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_paging_back_yields_every_message_once(store: Store, limit: int) -> None:
    """No page separates a tool call from its result, none is longer than it must be, and all are in order."""
    said = conversation(9)
    async with memory_of(store) as memory:
        await memory.save_messages(said)
        pages = await page_back(memory, limit)
    assert [m.id for page in reversed(pages) for m in page] == [m.id for m in said]
    for page in pages:
        assert page[0].role != "tool"
        assert len(page) < limit + 4  # a call and two results in one unit at most
        if page is not pages[-1]:
            assert len(page) >= limit


async def test_page_ends_before_the_whole_unit_of_a_message(store: Store) -> None:
    """Before a tool result is what came before its call, and before the first message is nothing."""
    async with memory_of(store) as memory:
        await memory.save_messages(conversation(3))
        assert [m.id for m in await memory.get_messages(2, before="rc2-1")] == ["a1", "q2"]
        assert [m.id for m in await memory.get_messages(before="c1")] == ["q0", "a0", "q1"]
        assert await memory.get_messages(before="q0") == []
        assert await memory.get_messages(0, before="q2") == []


async def test_unknown_message_has_nothing_before_it(store: Store) -> None:
    """An id of nobody, of another thread or of a deleted message raises; a page never silently ends there."""
    async with memory_of(store) as memory:
        await memory.add_message("user", "here", id="here")
        await memory.add_message("user", "gone", id="gone")
        await memory.delete_messages(["gone"])
        for before, thread in (("unknown", None), ("gone", None), ("here", "other")):
            with pytest.raises(MemoryNotFoundError, match=before):
                await memory.get_messages(before=before, thread_id=thread)
        for wrong in ("", 5, b"here"):
            with pytest.raises(InvalidArgumentError):
                await memory.get_messages(before=wrong)  # pyright: ignore[reportArgumentType] - wrong on purpose


async def test_added_message_has_the_id_time_and_metadata_of_the_call(store: Store) -> None:
    """What comes back, and what is read later, is what was given."""
    async with memory_of(store) as memory:
        added = await memory.add_message(
            "user", "Porto", metadata={"name": "Ada", "tags": ["trip"]}, id="m1", created_at=THEN
        )
        (read,) = await memory.get_messages()
    for message in (added, read):
        assert (message.id, message.text, message.created_at) == ("m1", "Porto", THEN)
        assert message.metadata == {"name": "Ada", "tags": ["trip"]}
        assert message.expires_at is None


async def test_message_that_is_added_twice_is_stored_once(store: Store) -> None:
    """The second call returns the stored message, whatever it says itself."""
    async with memory_of(store) as memory:
        first = await memory.add_message("user", "Porto", metadata={"n": 1}, id="m1", created_at=THEN)
        second = await memory.add_message("user", "Lisbon", metadata={"n": 2}, id="m1")
        assert await memory.get_messages() == [first] == [second]
    assert (second.text, second.metadata, second.created_at) == ("Porto", {"n": 1}, THEN)
    assert (second.number, second.position) == (first.number, first.position)


async def test_id_of_a_message_in_another_thread_is_taken(store: Store) -> None:
    """One id means one message, so another thread cannot have it too."""
    async with memory_of(store) as memory:
        await memory.add_message("user", "Porto", id="m1", thread_id="a")
        with pytest.raises(ConflictError, match="m1"):
            await memory.add_message("user", "Porto", id="m1", thread_id="b")
        assert await memory.get_messages(thread_id="b") == []


async def test_message_without_options_gets_its_own_id_and_time(store: Store) -> None:
    """Two calls with the same text are two messages."""
    async with memory_of(store) as memory:
        first, second = [await memory.add_message("user", "again") for _ in range(2)]
        assert first.id != second.id
        assert (first.metadata, second.metadata) == ({}, {})
        assert len(await memory.get_messages()) == 2


def test_sync_code_pages_back_and_adds_with_an_id(sqlite_url: str) -> None:
    """The sync side takes the same options."""
    with Memory(sqlite_url, user_id="ada").sync as memory:
        memory.save_messages(conversation(2))
        assert memory.add_message("user", "last", id="m1", created_at=THEN).created_at == THEN
        assert [message.id for message in memory.get_messages(1, before="m1")] == ["a1"]
        with pytest.raises(MemoryNotFoundError):
            memory.get_messages(before="unknown")
