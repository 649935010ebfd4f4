"""Semantic recall over several turns of an agent, on every engine."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.support.agents import Mode, answer, both_modes, model_of
from tests.support.embedders import Remembering, Words

from recollect import Agent, Memory, Message, Store

pytestmark = [pytest.mark.anyio, both_modes]

GUIDE = [
    Message("user", "API documentation needed"),
    Message("assistant", "Here is the API guide: send a key in the header, then call the search endpoint."),
]


@pytest.fixture
async def memory(store: Store) -> AsyncGenerator[Memory]:
    """A memory on each engine in turn, with a guide in another thread."""
    ids: dict[str, Any] = {"tenant_id": None, "resource_id": "ada", "thread_id": "now"}
    async with Memory(store, last_messages=5, semantic_recall=True, embedder=Words(), **ids) as found:
        await found.save_messages(GUIDE, thread_id="old")
        await found.settled()
        yield found


async def test_turn_is_kept_without_what_was_recalled(memory: Memory, mode: Mode) -> None:
    """Only the prompt and the answer are saved, and both are found at once by the next run."""
    model = model_of("The violin is blue.", "I said so.", mode=mode)
    agent = Agent(model, memory=memory)
    await answer(agent, mode, "How do I use the API?")
    assert [m.text for m in await memory.get_messages()] == [
        "How do I use the API?",
        "The violin is blue.",
    ]
    await answer(agent, mode, "Which violin?", thread_id="other")
    assert "The violin is blue." in model.shown[1][0].text


async def test_history_is_not_recalled_a_second_time(memory: Memory, mode: Mode) -> None:
    """What the history of this thread shows is not in the recalled context as well."""
    model = model_of("The API is blue.", "ok", mode=mode)
    agent = Agent(model, memory=memory)
    await answer(agent, mode, "Tell me of the API")
    await answer(agent, mode, "And the API again?")
    (context,) = [message.text for message in model.shown[1] if message.kind == "recalled"]
    assert "API guide" in context
    assert "The API is blue." not in context
    assert sum("The API is blue." in message.text for message in model.shown[1]) == 1


async def test_meaning_is_found_with_the_built_in_embedder(store: Store, mode: Mode) -> None:
    """Said months ago in other words and in another thread, it reaches the model; no key, no server."""
    embedder = Remembering()
    ids: dict[str, Any] = {"tenant_id": None, "resource_id": "ada"}
    async with Memory(
        store, semantic_recall={"top_k": 1, "message_range": 0}, embedder=embedder, **ids
    ) as memory:
        for text in ("My sister plays the cello.", "The train leaves at nine.", "We painted the wall."):
            await memory.add_message("user", text, thread_id=text[:6])
        await memory.settled()
        model = model_of("The cello.", mode=mode)
        await answer(Agent(model, memory=memory), mode, "Which musical instrument is in the family?")
    assert "My sister plays the cello." in model.shown[0][0].text
    assert "train" not in model.shown[0][0].text
