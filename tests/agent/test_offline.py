"""The offline model: it needs nothing, quotes memory, and says so."""

import pytest
from tests.agent.support import ADA, Mode, answer, both_modes

from recollect import Agent, Memory

pytestmark = [pytest.mark.anyio, both_modes]


async def test_offline_model_says_what_it_is_when_memory_is_empty(mode: Mode) -> None:
    """Without anything to quote it says that too."""
    result = await answer(Agent(), mode, "what colour is my boat?")
    assert result.text == "I am the offline model: I only quote memory. It holds nothing about this yet."


async def test_offline_model_quotes_what_fits_the_question(mode: Mode) -> None:
    """It quotes the remembered messages that share words with the question, at most three, in order."""
    async with Memory() as memory:
        for text in ("my boat is red", "I like tea", "the boat is old", "a boat sinks", "boat, boat"):
            await memory.add_message("user", text, **ADA)
        result = await answer(Agent("offline", memory=memory), mode, "how old is my boat?", **ADA)
        stored = await memory.get_messages(**ADA)
    lines = result.text.splitlines()
    assert lines[0] == "I am the offline model: I only quote memory."
    assert len(lines) == 4
    assert lines[1:3] == ["- user said: my boat is red", "- user said: the boat is old"]
    assert "tea" not in result.text
    assert stored[-1].text == result.text
    assert result.saved


async def test_offline_model_quotes_other_threads(mode: Mode) -> None:
    """What other threads brought in is quoted as well."""
    async with Memory(other_threads=3, resource_id="ada") as memory:
        await memory.add_message("user", "my boat is red", thread_id="elsewhere")
        result = await answer(Agent(memory=memory), mode, "what colour is my boat?", thread_id="t1")
    assert "my boat is red" in result.text
